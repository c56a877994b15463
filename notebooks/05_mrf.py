# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Beyond chains: a hidden field on the tracts of Philadelphia
#
# Does the infinitesimal jackknife (IJ) carry over from chains to maps? Crimes are counted in each of the {given}`384` census tracts of
# Philadelphia. Each tract $t$ has a hidden class $z_t$, low or high, which sets its rate $\lambda_{z_t}$, and neighbours $s \sim t$ tend to be of the same class:
#
# $$ \log p(x, z) = \sum_t \bigl[x_t \log \lambda_{z_t} - \lambda_{z_t} - \log x_t!\bigr]
#    + \beta \sum_t \sum_{s \sim t} \mathbf 1\{z_s = z_t\} - \log Z(\beta). $$ (eq-mrf)
#
# The two log rates are the parameters $\theta$; the coupling $\beta$ is fixed, or chosen by cross-validation. The
# double sum visits each edge twice, so that an edge weighs $2\beta$. This is the model of Figure 3 of
# {cite:t}`ghosh2020`.
#
# A tract is left out in style B of the paper: its count, its class and its edges are dropped from the fit. It is then
# scored by $-\log p(x_t \mid x_{-t}; \hat\theta(w_t))$, the probability of its count given all others *on the whole
# map*, its own class and edges back in place. The authors' published program reads the double sum and the score in the same way.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
import numpy as np
import pandas as pd
from acvbook import datasets, figures, ledger
from acvbook.studies import ladders, mrf
from acvbook.studies.records import record_nearer

import acvlib as acv

ledger.begin("05_mrf", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)
june = datasets.load_or_simulate("philadelphia", rng)
may = datasets.load_or_simulate("philadelphia, May 2016", rng)
toy = datasets.load_or_simulate("philadelphia, toy", rng)
betas = (0.1, 0.2, 0.4, 0.8)

# %% [markdown]
# ## Which data
# The paper's month is May 2015, and its counts were never published. The nearest that we could get are the violent crimes of
# June 2015 and of May 2016, counted by the authors' rule in the same tracts, and a graph of {given}`21` areas
# that the authors did publish. So the figure's dots cannot be compared one by one; its statements can. The paper does
# not print its four values of $\beta$ either. We take 0.1, 0.2, 0.4 and 0.8: on a large regular map where each cell
# has {given}`six` neighbours, classes order by themselves above $\beta = \tfrac14 \log 3 \approx 0.27$. Quick scale leaves one in 31 out.

# %%
every = 1 if paper else 31
folds = acv.folds.leave_one_out(len(june))[::every]
print(june, may, toy, sep="\n")

# %% [markdown]
# ## The map
# All sums over classes are exact. `graph.eliminate` finds an order in which to sum out the tracts one by one; the
# widest table on the way has $2^{\text{width}}$ entries. The order depends on the map alone, so one serves all folds.

# %% tags=["hide-input"]
fields = {beta: mrf.every_rung(june, beta, folds) for beta in betas}
elimination = fields[0.1].model.elimination
print(f"width {elimination.width}, {elimination.columns.sum():,} entries in all tables")

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 3, figsize=(10, 4.6))
figures.areas(axes[0], june, june.counts, "crimes in the month", "magma_r")
for ax, beta in zip(axes[1:], (0.1, 0.8), strict=True):
    field = fields[beta]
    high = field.model.posterior(field.fit.params).marginals()[0][:, 1]
    figures.areas(ax, june, high, f"P(high class), β = {beta}", "PuOr_r", vmin=0, vmax=1)
figures.save(fig, "mrf_map", june)

# %% [markdown]
# ```{figure} figures/mrf_map.svg
# :name: fig-mrf-map
# :alt: Three maps; counts by tract, and the probability of the high class, in patches that grow smoother with coupling.
# The counts; the probability of the high class. With strong coupling isolated tracts give way to neighbours. {verdict}`ghosh.fig3.june.em`
# ```
#
# ## Claim: EM and a gradient fit agree
# The paper fits by expectation maximisation (EM), whose M-step is closed: a rate is a mean of counts, weighted by the class
# probabilities. We fit by Newton's method on exact derivatives. Is that the same optimum? Both are started from the same random
# rates, drawn evenly from the range of the counts. *Gap*: the largest distance of their log rates; *nats above*: how much worse EM's optimum is.

# %%
n_draws = 20 if paper else 3
ends = mrf.em_starts(fields, n_draws, rng)
ends.groupby("beta").agg(["median", "max"])

# %% tags=["remove-cell"]
starts = ends.gap.groupby("start").max()
ledger.record_draws("ghosh.fig3.june.em", starts, june)
ledger.record("ghosh.fig3.june.em_worst", starts.max(), june, draws=len(starts))
ledger.record("ghosh.fig3.width", elimination.width, june)

# %% [markdown]
# For each start take the largest gap of the four couplings: the median of these is
# {value}`ghosh.fig3.june.em | .1e`, the largest {value}`ghosh.fig3.june.em_worst | .1e`.
#
# ## Claim: uniformly small error
# Figure 3 of the paper plots the loss of each fold by the IJ against exact cross-validation, for four couplings, and sees
# “uniformly small error across folds”. The upper row is that figure. A scatter of losses cannot tell a good
# approximation from none, as the losses of tracts differ far more than leaving one out moves them. The lower row
# therefore subtracts the *baseline*, which does nothing: it keeps $\hat\theta$.

# %% tags=["remove-output"]
fig, axes = figures.subplots(2, 4, figsize=(11, 6.4))
for (top, bottom), (beta, field) in zip(axes.T, fields.items(), strict=True):
    *rungs, _, exact = field.results.values()
    figures.scatter(top, exact, rungs[1]).set_title(f"β = {beta}")
    figures.differences(bottom, exact, *rungs)
figures.plt.setp(axes[:, 1:], ylabel="")
figures.save(fig, "mrf_scatter", june)

# %% [markdown]
# ```{figure} figures/mrf_scatter.svg
# :name: fig-mrf-scatter
# :alt: Eight panels; the upper four lie on the diagonal; in the lower four the jackknife and the frozen step do, but for a scatter at the strongest coupling, wider for the jackknife.
# Upper row: the paper's figure, one mark a tract, losses in nats. Lower row: how far, in nats, leaving a tract out moves its
# loss, by the IJ and by one frozen step, against how far the exact refit moves it. {verdict}`ghosh.fig3`
# ```

# %%
errors = mrf.errors(fields)
shown = ["relative_error", "correlation", "differences", "theta", "theta_max"]
errors[shown].round(6)

# %% tags=["remove-cell"]
ij, none = "infinitesimal_jackknife", "no_adjustment"
for beta in betas:
    part, own = f"june.{100 * beta:.0f}", errors.loc[beta]
    ledger.record_table(f"ghosh.fig3.{part}", own.loc[ij], june, own.loc[none])
    ledger.record(f"beyond.moves.mrf.{part}", own.differences[ij], june, baseline=0.0)

# %% [markdown]
# *relative error* is the mean over folds of $|\text{loss} - \text{exact}| / \text{exact}$, with normalised Poisson
# densities. *correlation* is that of the upper row of the figure, *differences* that of the lower row. *parameter error (SE)* is the
# distance of a fold's $\hat\theta$ from the exact refit's, in standard errors: the median and the largest over folds.
#
# The dots lie on the diagonal at every coupling. But those of the baseline do, too: at $\beta = 0.4$ its correlation
# is {value}`ghosh.fig3.june.40.correlation baseline | .5f` and its relative error
# {value}`ghosh.fig3.june.40.relative_error baseline | .2%`. So the scatter alone says little about the IJ. Three
# numbers do show what it is worth. Its worst loss is off by {value}`ghosh.fig3.june.40.worst` standard deviations of the fold
# losses, the baseline's by {value}`ghosh.fig3.june.40.worst baseline`. Its *differences* correlate with the exact ones by
# {value}`beyond.moves.mrf.june.40`. And its parameters are {value}`ghosh.fig3.june.40.theta` standard errors
# from the exact refit's in the median fold, the baseline's {value}`ghosh.fig3.june.40.theta baseline`. For the score as a whole
# none of it matters: the IJ's mean loss is {value}`ghosh.fig3.june.40.in_se | .1g` standard errors of cross-validation itself from the
# exact one, the baseline's {value}`ghosh.fig3.june.40.in_se baseline | .2g`.
#
# Strong coupling is harder. At $\beta = 0.8$ the differences correlate by {value}`beyond.moves.mrf.june.80`, and the parameters are
# {value}`ghosh.fig3.june.80.theta` standard errors off where the baseline's are {value}`ghosh.fig3.june.80.theta baseline`; the mean loss
# is {value}`ghosh.fig3.june.80.in_se | .1g` standard errors of cross-validation off, the baseline's
# {value}`ghosh.fig3.june.80.in_se baseline | .2g`. In the worst fold the IJ errs by {value}`ghosh.fig3.june.80.theta_max` standard
# errors, more than the {value}`ghosh.fig3.june.80.theta_max baseline` of the baseline's worst. Where a patch of tracts is undecided
# together, leaving one out may tip the whole patch: no derivative at full weight can tell how far. {verdict}`ghosh.fig3.june.80.worst`

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 4, figsize=(11, 3.9), sharey=True)
for ax, (beta, field) in zip(axes, fields.items(), strict=True):
    figures.error_ladder(ax, dict(ladders.theta_table(field.results))).set_title(
        f"β = {beta}"
    )
    ax.tick_params("x", rotation=60)
figures.plt.setp(axes[1:], ylabel="")
figures.save(fig, "mrf_ladder", june)

# %% [markdown]
# ```{figure} figures/mrf_ladder.svg
# :name: fig-mrf-ladder
# :alt: Four panels of boxes on a logarithmic axis, each rung's median below that of the rung to its left; the last two are close at the strongest coupling.
# The ladder: error of a fold's parameters in standard errors. Boxes hold half of the folds, whiskers nine tenths. {verdict}`beyond.ladder`
# ```
#
# At $\beta = 0.4$ the medians are {value}`beyond.ladder.mrf.no_adjustment` standard errors for no adjustment,
# {value}`beyond.ladder.mrf.infinitesimal_jackknife` for the IJ, {value}`beyond.ladder.mrf.frozen_newton` for one
# frozen step and {value}`beyond.ladder.mrf.newton_step` for one Newton step. The frozen step is nearer than the
# baseline in {value}`beyond.ladder.mrf.frozen_beats_none | .0%` of the folds, and nearer than the IJ in
# {value}`beyond.ladder.mrf.frozen_beats_ij | .1%`. With strong coupling all medians are larger.

# %% tags=["remove-cell"]
theta = ladders.theta_table(fields[0.4].results)
ledger.record_table("beyond.ladder.mrf", theta.median(), june)
record_nearer("beyond.ladder.mrf", theta, june)

# %% [markdown]
# ## Claim: much faster than exact
# The paper says that approximate cross-validation (ACV) is “orders of magnitude faster than exact CV”; the times are
# bars of its figure, not numbers. Faster than which exact CV? The authors' published program continues EM from
# $\hat\theta$ in each fold until the log-likelihood changes by less than $10^{-8}$ of itself. Its E-step sums over
# the whole map once *for each tract*. We time that with our own sums, *authors em*. There are two better ways to be
# exact: EM whose E-step takes all tracts' probabilities from one sum forth and back, here even from scratch
# (*cold em*); and ours (*exact refit*), quasi-Newton steps from $\hat\theta$. These start from the Hessian of the full fit, mend it
# by gradients alone, and end when the decrement is at most $10^{-6}$ standard errors.
#
# Each draw times a random part of the folds, and of *authors em* one fold of it; EM from scratch has a new start in
# each draw. The IJ has nothing to do for a single fold but to score it. What it computes once, for all folds,
# is divided by the number of tracts. Scoring a fold is a sum over the map that ACV and exact CV share. So the last
# two columns compare the whole times, and the times without scoring (*no adjustment* is nothing but scoring).

# %%
field = fields[0.4]
seconds, cold, authors = mrf.fold_seconds(field, n_draws, rng)
work = mrf.work(seconds, len(june))
work

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(7, 3.4))
figures.seconds_by_method(ax, work)
figures.save(fig, "mrf_seconds", june)

# %% [markdown]
# ```{figure} figures/mrf_seconds.svg
# :name: fig-mrf-seconds
# :alt: Seven marks on a logarithmic axis; the jackknife takes hardly longer than scoring alone, the Newton step longer than exact refits, the authors' EM by far the longest.
# Seconds for all folds at β = 0.4 after the first fit, medians over draws, and how many times the IJ's they are.
# {verdict}`ghosh.fig3.time.authors_over_acv`
# ```
#
# With the authors' exact CV the paper's statement holds by far: ACV is {value}`ghosh.fig3.time.authors_over_acv`
# times as fast (in four of five draws {value}`ghosh.fig3.time.authors_over_acv low` to
# {value}`ghosh.fig3.time.authors_over_acv high`). That is the price of {value}`ghosh.fig3.time.authors_steps` EM
# steps a fold with a sum over the map for each tract, not of being exact: ours is only
# {value}`ghosh.fig3.time.exact_over_acv` times as slow as ACV. Scoring takes nearly all of ACV's time: doing nothing
# costs {value}`ghosh.fig3.time.none_over_acv | .2f` of it. Net of scoring, our exact CV is
# {value}`ghosh.fig3.time.exact_over_acv_net` times as slow as the IJ, EM from scratch
# {value}`ghosh.fig3.time.em_over_acv_net` times, and what is left of the IJ is
# {value}`ghosh.fig3.time.acv_net_log_partitions` sums over the map for all folds together.
#
# EM that runs to convergence ends in the same refits as ours, the largest distance being
# {value}`ghosh.fig3.time.em_is_exact | .1e` standard errors. By the authors' rule it stops
# {value}`ghosh.fig3.time.authors_theta` standard errors short of them in the median fold.

# %% tags=["remove-cell"]
name, total = "ghosh.fig3.time", mrf.over_acv(seconds)
methods = {"authors_em": "authors", "cold_em": "em", "no_adjustment": "none"}
methods |= {"frozen_newton": "frozen", "newton_step": "newton", "exact": "exact"}
net = mrf.over_acv(seconds, net=True)
for ratios, ending in ((total, "over_acv"), (net, "over_acv_net")):
    names = {method: f"{short}_{ending}" for method, short in methods.items()}
    ledger.record_table(name, ratios, june, names=names)

# %% tags=["remove-cell"]
once = len(june) * (seconds.infinitesimal_jackknife - seconds.no_adjustment)
ledger.record_draws(f"{name}.acv_net_log_partitions", once / seconds.log_partition, june)
steps = [run.diagnostics["steps"][0] for run in authors]
ledger.record_draws(f"{name}.authors_steps", steps, june)
gaps = {"cold": mrf.gaps_to(field, cold), "authors": mrf.gaps_to(field, authors)}
ledger.record_draws(f"{name}.authors_theta", gaps["authors"], june)
ledger.record(f"{name}.em_is_exact", gaps["cold"].max(), june, draws=len(cold))

# %% [markdown]
# ## Choosing the coupling
# Which coupling predicts best? This is what the cross-validation is for: the training likelihood cannot
# choose, as its normaliser $\log Z(\beta)$ drops out of the fit.

# %% tags=["hide-input"]
grid = np.array(
    [0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.6] if paper else [0.0, 0.15, 0.3, 0.6]
)
chosen = mrf.choice(june, grid, folds, fields)
chosen.idxmin().rename("β chosen").to_frame().T

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 3.6))
figures.losses_against(ax, chosen)
figures.save(fig, "mrf_choice", june)

# %% [markdown]
# ```{figure} figures/mrf_choice.svg
# :name: fig-mrf-choice
# :alt: Curves of mean loss against coupling that fall, reach a minimum and rise; the jackknife lies on the exact refit, no adjustment a little below, with its minimum at the same coupling.
# Mean held-out loss against the coupling; an open mark is at the minimum of each rung. Dashed: the exact refit, over the IJ's line. β = 0 is a
# plain mixture, which ignores the map. {verdict}`ghosh.fig3.choice` {verdict}`ghosh.fig3.gain`
# ```
#
# The IJ and exact cross-validation choose $\beta =$ {value}`ghosh.fig3.choice.beta`, and so does the baseline: it is too optimistic, but
# about equally so everywhere. Here the choice does not show what the IJ is worth. The map is worth {value}`ghosh.fig3.gain | .3f` nats a
# tract over the plain mixture; by doing nothing one would say {value}`ghosh.fig3.gain baseline | .3f`.

# %% tags=["remove-cell"]
best, gain = chosen.idxmin(), chosen.loc[0.0] - chosen.min()
same = (best == best.exact).to_dict()
ledger.record("ghosh.fig3.choice", same[ij], june, baseline=same[none])
ledger.record("ghosh.fig3.choice.beta", best.exact, june)
ledger.record("ghosh.fig3.gain", gain.exact, june, baseline=gain.no_adjustment)

# %% [markdown]
# ## The other month, and the authors' own graph
# The same couplings on May 2016 (two of them at quick scale), and on the {given}`21` areas that the authors published, each left out.

# %%
every_area = acv.folds.leave_one_out(len(toy))
some = betas if paper else betas[1:3]
others = {
    "may": {beta: mrf.every_rung(may, beta, folds) for beta in some},
    "toy": {beta: mrf.every_rung(toy, beta, every_area) for beta in betas},
}
tables = {name: mrf.errors(runs) for name, runs in others.items()}
pd.concat(tables, names=["data"])[shown].round(6)

# %% tags=["remove-cell"]
smallest = dict.fromkeys(["correlation", "differences"], "min")
largest = dict.fromkeys(["relative_error", "theta"], "max")
for name, data in (("may", may), ("toy", toy)):
    worst = tables[name].groupby("rung").agg(smallest | largest)
    ledger.record_table(f"ghosh.fig3.{name}", worst.loc[ij], data, worst.loc[none])
    ledger.record(f"beyond.moves.mrf.{name}", worst.differences[ij], data, baseline=0.0)
for name, data in (("may", may), ("toy", toy)):
    ends = mrf.em_starts(others[name], n_draws, rng)
    ledger.record_draws(f"ghosh.fig3.{name}.em", ends.gap.groupby("start").max(), data)
    above = ends.nats_above.loc[max(others[name])]
    elsewhere = {"em_elsewhere": (above > 1e-6).mean(), "em_nats": above.max()}
    ledger.record_table(f"ghosh.fig3.{name}", pd.Series(elsewhere), data, draws=n_draws)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 3.6))
titles = {"may": "May 2016", "toy": "The authors' areas"}
for ax, (name, title) in zip(axes, titles.items(), strict=True):
    *rungs, _, exact = others[name][0.4].results.values()
    figures.differences(ax, exact, *rungs).set_title(f"{title}, β = 0.4")
figures.save(fig, "mrf_others", may)

# %% [markdown]
# ```{figure} figures/mrf_others.svg
# :name: fig-mrf-others
# :alt: Two panels of changes from doing nothing near the diagonal; those of the small graph are larger, and the jackknife falls short of the largest.
# Changes from doing nothing as in {numref}`fig-mrf-scatter`, for May 2016 and for the authors' {given}`21` areas.
# {verdict}`ghosh.fig3.may.theta` {verdict}`ghosh.fig3.toy.theta` {verdict}`beyond.moves`
# ```
#
# May 2016 repeats June 2015, with two exceptions. At strong coupling its likelihood has a second optimum: at the strongest of the
# table EM ends there, up to {value}`ghosh.fig3.may.em_nats` nats above our fit, from {value}`ghosh.fig3.may.em_elsewhere | .0%` of the
# random starts. That is why a fold's fit should start from $\hat\theta$. And the IJ's differences follow the exact ones less well:
# at the worst coupling they correlate by {value}`beyond.moves.mrf.may`, short of our rule. There its median parameter error is
# {value}`ghosh.fig3.may.theta` standard errors, the baseline's {value}`ghosh.fig3.may.theta baseline`. With {given}`21` areas each matters
# more: the numbers are {value}`ghosh.fig3.toy.theta` and {value}`ghosh.fig3.toy.theta baseline`.
#
# ## What to take away
# - The jackknife carries over from chains to maps. With one tract left out it follows what the exact refit moves, closely at weak
#   coupling and less so at the strongest, where its worst fold is further off than with nothing done. The paper's measure, the
#   scatter of losses, shows neither: nearly the same scatter comes from doing nothing. Nor does the mean loss: at the strongest coupling it is {value}`ghosh.fig3.june.80.in_se | .2f` standard errors of cross-validation from exact, with nothing done {value}`ghosh.fig3.june.80.in_se baseline | .2f`.
# - Scoring the folds is nearly all of the IJ's work. The paper's orders of magnitude hold against an exact CV that
#   sums over the map once for each tract. A better exact CV is only {value}`ghosh.fig3.time.exact_over_acv` times as
#   slow as the IJ when scoring is counted, and {value}`ghosh.fig3.time.exact_over_acv_net` times when it is not.
# - **Which method when.** To compare couplings, *no adjustment* chose as exact CV did here, though its losses are too low. With one tract left out
#   and weak coupling, the *IJ* is enough. With strong coupling, or [larger folds](17_which_rung.ipynb), take one *frozen step*: it makes the whole
#   {value}`ghosh.fig3.time.frozen_over_acv` times as slow as the IJ. One *Newton step* makes it {value}`ghosh.fig3.time.newton_over_acv` times as
#   slow, for the Hessian of each fold, and *exact* refits, by gradients alone, {value}`ghosh.fig3.time.exact_over_acv` times. So take *exact* CV in
#   place of the Newton step, or refit the folds [that are flagged](10_which_folds.ipynb).
# - [A map of yours](00_front_doors.ipynb) needs a column of counts and polygons. The price of exact sums is exponential in its width;
#   this city, with its parks and rivers, has width {value}`ghosh.fig3.width`. A map that is too wide is refused.
# - *Nearest work.* {cite:t}`liu2025` leave groups of a latent Gaussian model out without refitting it, chosen from the model's own
#   correlations: balls and regions, of another family. {cite:t}`adin2024` compare such groups with leave-one-out.
