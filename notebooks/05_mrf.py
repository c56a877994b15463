# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Beyond chains: a hidden field on the tracts of Philadelphia
#
# Crimes are counted in each of the 384 census tracts of Philadelphia. Each tract $t$ has a hidden class $z_t$, low or
# high, which sets its rate $\lambda_{z_t}$, and neighbours $s \sim t$ tend to be of one class:
#
# $$ \log p(x, z) = \sum_t \bigl[x_t \log \lambda_{z_t} - \lambda_{z_t} - \log x_t!\bigr]
#    + \beta \sum_t \sum_{s \sim t} \mathbf 1\{z_s = z_t\} - \log Z(\beta). $$ (eq-mrf)
#
# The two log rates are the parameters $\theta$; the coupling $\beta$ is fixed, or chosen by cross-validation. The double sum
# visits each edge twice, so that an edge weighs $2\beta$. This is the model of Figure 3 of {cite:t}`ghosh2020`.
#
# A tract is left out in style B of the paper: its count, its class and its edges are dropped from the fit. It is then
# scored by $-\log p(x_t \mid x_{-t}; \hat\theta(w_t))$, the probability of its count given all others *on the whole map*, its
# own class and edges back in place. That is how we read Eq. 5; the other reading is measured below.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %%
import numpy as np
import pandas as pd
from acvbook import datasets, figures, ledger
from acvbook.studies import mrf

import acvlib as acv

paper = scale == "paper"
rng = np.random.default_rng(seed)
june = datasets.load_or_simulate("philadelphia", rng)
may = datasets.load_or_simulate("philadelphia, May 2016", rng)
toy = datasets.load_or_simulate("philadelphia, toy", rng)
betas = (0.1, 0.2, 0.4, 0.8)

# %% tags=["remove-cell"]
ledger.begin("05_mrf", scale, seed)

# %% [markdown]
# ## Which data
# The paper's month is May 2015, and its counts were never published. The nearest that can be had are the violent crimes
# of June 2015 and of May 2016, counted by the authors' own rule in the same tracts; and a graph of 21 areas that the
# authors did publish. The paper does not print its four values of $\beta$. We take 0.1, 0.2, 0.4 and 0.8: on a large regular
# map with six neighbours each, classes order of themselves above $\beta = \tfrac14 \log 3 \approx 0.27$. At quick scale only
# every 31st tract is left out.

# %%
every = 1 if paper else 31
folds = acv.folds.leave_one_out(len(june))[::every]
june, may, toy

# %% [markdown]
# ## The map
# All sums over classes are exact. `graph.eliminate` finds an order in which to sum out the tracts one by one; the
# widest table on the way has $2^{\text{width}}$ entries. The order depends on the map alone, so one serves all folds.

# %%
fields = {beta: mrf.every_rung(june, beta, folds) for beta in betas}
elimination = fields[0.1].model.elimination
print(f"width {elimination.width}, {elimination.start[-1]:,} entries in all tables")

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
# Left: the counts. Middle and right: the probability that a tract is of the high class. With strong coupling isolated
# tracts give way to their neighbours.
# ```
#
# ## Claim: EM and a gradient fit agree
# The paper fits by EM, whose M-step is closed: a rate is a mean of counts, weighted by the class probabilities. We fit by
# Newton's method on exact derivatives. The table compares the log rates.

# %%
optima = pd.concat({"June 2015": mrf.optima(fields)})
optima.round(10)

# %% tags=["remove-cell"]
ledger.record("ghosh.fig3.june.em", optima.em_minus_gradient.max(), june)
ledger.record("ghosh.fig3.june.em_se", optima.em_minus_gradient_se.max(), june)

# %% [markdown]
# ## Claim: uniformly small error
# Figure 3 of the paper plots the loss of each fold by the infinitesimal jackknife (IJ) against exact cross-validation, for
# four couplings. The upper row is that figure. A scatter of losses cannot tell a good approximation from none, as the
# losses of tracts differ far more than leaving one out moves them. The lower row therefore subtracts the baseline,
# which keeps $\hat\theta$.

# %% tags=["remove-output"]
fig, axes = figures.subplots(2, 4, figsize=(12, 5.6))
for (top, bottom), (beta, field) in zip(axes.T, fields.items(), strict=True):
    none, ij, frozen, ns, exact = field.results.values()
    figures.scatter(top, exact, ij).set_title(f"β = {beta}")
    figures.differences(bottom, exact, none, ij, frozen)
axes[1, 0].legend(markerscale=4, fontsize="small")
figures.save(fig, "mrf_scatter", june)

# %% [markdown]
# ```{figure} figures/mrf_scatter.svg
# :name: fig-mrf-scatter
# :alt: Eight panels; the upper four lie on the diagonal, in the lower four the frozen step does and the jackknife bends away.
# Upper row: the paper's figure, one mark a tract, losses in nats. Lower row: what leaving a tract out moves, by the IJ
# and by one frozen step, against what it really moves. All lie near the diagonal; the frozen step nearer.
# ```

# %%
errors = mrf.errors(fields)
errors.round(6)

# %% tags=["remove-cell"]
for beta in betas:
    name, rows = f"ghosh.fig3.june.{100 * beta:.0f}", errors.loc[beta]
    ij = rows.loc["infinitesimal_jackknife"]
    ledger.record(f"{name}.correlation", ij.correlation, june)
    ledger.record(f"{name}.relative_error", ij.relative_error, june)
    ledger.record(f"{name}.none", rows.relative_error["no_adjustment"], june)
    ledger.record(f"{name}.frozen", rows.relative_error["frozen_newton"], june)
    ledger.record(f"{name}.theta", ij.theta_error, june)

# %% [markdown]
# `relative_error` is the mean over folds of $|\text{loss} - \text{exact}| / \text{exact}$, with normalised Poisson densities.
# `theta_error` is the distance of a fold's $\hat\theta$ from the exact refit's, in standard errors: the median and the
# largest over folds. A single tract moves the two rates by about a tenth of a standard error, and every rung follows.
# The IJ is worst where the classes of its neighbours hang on the tract that is left out.

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 4, figsize=(12, 3.4), sharey=True)
for ax, (beta, field) in zip(axes, fields.items(), strict=True):
    *rungs, exact = field.results.values()
    figures.error_ladder(
        ax, {r.method: acv.theta_errors(exact, r) for r in rungs}
    ).set_title(f"β = {beta}")
    ax.tick_params("x", rotation=60)
for ax in axes[1:]:
    ax.set_ylabel("")
figures.save(fig, "mrf_ladder", june)

# %% [markdown]
# ```{figure} figures/mrf_ladder.svg
# :name: fig-mrf-ladder
# :alt: Four panels of boxes on a logarithmic axis, each rung far below the one to its left.
# The ladder: error of a fold's parameters in standard errors, boxes over folds, whiskers from the 5th to the 95th
# percentile. One gradient a fold (frozen step) buys a factor of five to ten over the IJ, one Hessian more (Newton step)
# a smaller one. Strong coupling is hardest for all.
# ```

# %% [markdown]
# ## Where do they differ most?

# %% tags=["remove-output"]
field = fields[0.8]
fig, axes = figures.subplots(1, 3, figsize=(10, 4.6))
for ax, rung in zip(
    axes, ("no_adjustment", "infinitesimal_jackknife", "frozen_newton"), strict=True
):
    gap = np.full(len(june), np.nan)
    gap[folds.table[:, 0]] = abs(
        field.results[rung].fold_losses - field.results["exact"].fold_losses
    )
    label = f"{figures.RUNGS[rung][0]}: log₁₀ error (nats)"
    figures.areas(ax, june, np.log10(np.maximum(gap, 1e-8)), label, vmin=-6, vmax=0)
figures.save(fig, "mrf_where", june)

# %% [markdown]
# ```{figure} figures/mrf_where.svg
# :name: fig-mrf-where
# :alt: Three maps of errors that darken from left to right, with the same few bright tracts.
# Error of each tract's loss at β = 0.8, in powers of ten (grey: not left out at quick scale). The brightest tracts of the
# two right maps are neighbours of each other.
# ```
#
# On the real map the largest errors are in one patch on the border of a high and a low area. Its tracts are undecided
# together, with probabilities of the high class between 0.5 and 0.9. Leave one out, and the whole patch tips: no derivative
# at full weight can tell how far.
#
# ## Claim: much faster than exact
# The paper reports orders of magnitude, with exact meaning EM from scratch for each fold. A refit can do better: it starts
# from $\hat\theta$, by one Newton step, and goes on by chord steps until its Newton decrement is at most $10^{-6}$. All
# folds are measured, none extrapolated; scoring is included. The unit is one evaluation of the log-partition.

# %%
field = fields[0.4]
field.results["cold_em"] = mrf.cold_em(field.model, field.fit, folds)
work = mrf.work(field)
work

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(7, 3))
figures.seconds_by_method(ax, work)
figures.save(fig, "mrf_seconds", june)

# %% [markdown]
# ```{figure} figures/mrf_seconds.svg
# :name: fig-mrf-seconds
# :alt: Six bars on a logarithmic axis; the jackknife hardly longer than scoring alone, EM from scratch far the longest.
# Seconds for all folds at β = 0.4, after the first fit, and how many times the IJ's they are. Doing nothing costs nearly
# as much as the IJ: it is scoring the folds that takes the time, one sum over the map for each.
# ```

# %% tags=["remove-cell"]
over, exact, cold = work.over_acv, field.results["exact"], field.results["cold_em"]
sums = work.log_partitions["infinitesimal_jackknife"] * every
ledger.record("ghosh.fig3.time.acv_log_partitions", sums, june)
ledger.record("ghosh.fig3.time.exact_over_acv", over["exact"], june, exact.seconds)
ledger.record("ghosh.fig3.time.em_over_acv", over["cold_em"], june, cold.seconds)
worst = max(f.results["exact"].diagnostics["decrement"].max() for f in fields.values())
ledger.record("ghosh.fig3.time.exact_decrement", worst, june)
ledger.record("ghosh.fig3.time.em_is_exact", acv.theta_errors(exact, cold).max(), june)

# %% [markdown]
# ## Choosing the coupling
# The mean held-out loss against $\beta$. That is what the cross-validation is for: the training likelihood cannot choose, as
# its normaliser $\log Z(\beta)$ drops out of the fit.

# %%
grid = np.array(
    [0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.6] if paper else [0.0, 0.15, 0.3, 0.6]
)
chosen = mrf.choice(june, grid, folds)
chosen.idxmin().rename("β chosen").to_frame().T

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 3.6))
figures.losses_against(ax, chosen).legend()
figures.save(fig, "mrf_choice", june)

# %% [markdown]
# ```{figure} figures/mrf_choice.svg
# :name: fig-mrf-choice
# :alt: Curves of mean loss against coupling that fall, reach a minimum and rise; all rungs nearly on one line.
# Mean held-out loss against the coupling; rings mark the minimum of each rung. β = 0 is a plain mixture, which ignores the
# map. The IJ lies on exact cross-validation; the baseline is a little too optimistic, about equally everywhere.
# ```

# %% tags=["remove-cell"]
best = chosen.idxmin()
ledger.record("ghosh.fig3.choice", bool(best.infinitesimal_jackknife == best.exact), june)
ledger.record("ghosh.fig3.gain", chosen.exact.loc[0.0] - chosen.exact.min(), june)

# %% [markdown]
# ## The other month, and the authors' own graph
# The same four couplings on May 2016, and on the 21 areas that the authors published, with every area left out.

# %%
every_area = acv.folds.leave_one_out(len(toy))
others = {
    "may": {
        beta: mrf.every_rung(may, beta, folds) for beta in (betas if paper else betas[1:3])
    },
    "toy": {beta: mrf.every_rung(toy, beta, every_area) for beta in betas},
}
tables = pd.concat(
    {name: mrf.errors(runs) for name, runs in others.items()}, names=["data"]
)
pd.concat({name: mrf.optima(runs) for name, runs in others.items()}).round(10)

# %%
tables[["relative_error", "correlation", "theta_error", "theta_error_max"]].round(6)

# %% tags=["remove-cell"]
for name, data in (("may", may), ("toy", toy)):
    ij = tables.loc[name].xs("infinitesimal_jackknife", level="rung")
    ledger.record(f"ghosh.fig3.{name}.correlation", ij.correlation.min(), data)
    ledger.record(f"ghosh.fig3.{name}.relative_error", ij.relative_error.max(), data)
    ledger.record(
        f"ghosh.fig3.{name}.em", mrf.optima(others[name]).em_minus_gradient.max(), data
    )

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 3.6))
for ax, name in zip(axes, ("may", "toy"), strict=True):
    none, ij, frozen, _, exact = others[name][0.4].results.values()
    figures.differences(ax, exact, none, ij, frozen).set_title(f"{name}, β = 0.4")
axes[0].legend(markerscale=4, fontsize="small")
figures.save(fig, "mrf_others", may)

# %% [markdown]
# ```{figure} figures/mrf_others.svg
# :name: fig-mrf-others
# :alt: Two panels of differences from the baseline near the diagonal; the small graph has the larger differences.
# Differences from the baseline as in {numref}`fig-mrf-scatter`, for May 2016 and for the authors' 21 areas. With 21 areas
# each one matters twenty times more.
# ```
#
# ## More than one tract a fold
# Neighbours are alike, so a tract is easily predicted from next door. Spatial cross-validation asks the harder question
# and leaves out a ball around a tract, or a whole region. The paper leaves out one tract at a time; here are both.

# %%
more = mrf.larger_folds(june, 0.4, 12 if paper else 6, rng, every=1 if paper else 48)
larger = mrf.errors(more).rename_axis(["folds", "rung"])
larger[["loss", "relative_error", "correlation", "theta_error", "theta_error_max"]].round(5)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 3, figsize=(11, 3.6), sharey=True)
for ax, (name, runs) in zip(axes, more.items(), strict=True):
    *rungs, exact = runs.results.values()
    figures.error_ladder(
        ax, {r.method: acv.theta_errors(exact, r) for r in rungs}
    ).set_title(name)
    ax.tick_params("x", rotation=60)
figures.save(fig, "mrf_larger", june)

# %% [markdown]
# ```{figure} figures/mrf_larger.svg
# :name: fig-mrf-larger
# :alt: Three panels of boxes on a logarithmic axis; the advantage of every rung shrinks as folds grow.
# The ladder where more than one tract is left out: balls of radius 1 (7 tracts on average) and 2, and contiguous regions
# of 32 tracts at paper scale. The larger the fold, the more a frozen or a Newton step is worth its price.
# ```

# %% tags=["remove-cell"]
for name, runs in zip(("ball1", "ball2", "regions"), more.values(), strict=True):
    theta = {
        r.method: acv.theta_errors(runs.results["exact"], r) for r in runs.results.values()
    }
    name = f"beyond.ladder.mrf.{name}"
    ledger.record(
        f"{name}.infinitesimal_jackknife", np.median(theta["infinitesimal_jackknife"]), june
    )
    nearer = theta["frozen_newton"] <= theta["no_adjustment"]
    ledger.record(f"{name}.frozen_beats_none", nearer.mean(), june)

# %% [markdown]
# ## Two things that had to be decided
# **What a held-out loss is.** The other reading of style B takes the difference of the two log-likelihoods, with and
# without the tract, each with its own $\log Z(\beta, w)$. It scores a tract together with its place on the map. The
# difference between the readings is far larger than any rung's error, so it must be fixed once; we fix the first.

# %%
names = ["given all others, on the whole map", "difference of log-likelihoods"]
some = betas if paper else betas[::3]
losses = [[fields[b].results["exact"].loss, mrf.difference_loss(fields[b])] for b in some]
pd.DataFrame(losses, pd.Index(some, name="beta"), names).round(4)

# %% [markdown]
# **What is left out of the fit.** Under style A a tract loses its count and keeps its class and edges. The refits differ.

# %%
style_a = mrf.every_rung(june, 0.4, folds, scheme=acv.weighting.keep_latents)
exact_a, exact_b = style_a.results["exact"], fields[0.4].results["exact"]
gap = fields[0.4].fit.standard_errors_between(exact_a.params, exact_b.params)
print(
    f"refits of the two styles: median {np.median(gap):.2g}, largest {gap.max():.2g} standard errors apart"
)
mrf.errors({"A": style_a, "B": fields[0.4]})[
    ["relative_error", "theta_error", "theta_error_max"]
].round(6)

# %% [markdown]
# ## Which tracts not to trust, and a calibrated mean
# One gradient a fold tells which folds of the IJ are off by more than a twentieth of a standard error. Refit only
# those folds. A few random exact folds turn any rung into an unbiased estimate.

# %%
field = fields[0.8]
ij, exact = field.results["infinitesimal_jackknife"], field.results["exact"]
check = acv.check_result(field.model, ij, limit=0.05)
refitted = acv.refit_unreliable(field.model, ij, check)
estimate = acv.difference_estimate(field.model, ij, 20 if paper else 6, rng)
before, after = (acv.theta_errors(exact, result).max() for result in (ij, refitted))
print(
    f"{check.unreliable.sum()} of {len(folds)} folds refitted; largest theta error {before:.2g}, then {after:.2g}"
)
print(
    f"exact {exact.loss:.5f}, IJ {ij.loss:.5f}, calibrated {estimate.loss:.5f} ± {estimate.se:.1g}"
)

# %% tags=["remove-cell"]
correlation = np.corrcoef(refitted.fold_losses, exact.fold_losses)[0, 1]
ledger.record("beyond.flags.mrf", correlation, june)
ledger.record("beyond.calibrate.mrf", abs(estimate.loss - exact.loss) / estimate.se, june)
results = fields[0.4].results
theta = {
    name: acv.theta_errors(results["exact"], result) for name, result in results.items()
}
for rung in ("no_adjustment", "infinitesimal_jackknife", "frozen_newton", "newton_step"):
    ledger.record(f"beyond.ladder.mrf.{rung}", np.median(theta[rung]), june)
for short, rung in (("none", "no_adjustment"), ("ij", "infinitesimal_jackknife")):
    nearer = theta["frozen_newton"] <= theta[rung]
    ledger.record(f"beyond.ladder.mrf.frozen_beats_{short}", nearer.mean(), june)

# %% [markdown]
# ## Your own map
# Any geojson of polygons with a column of counts will do. Areas that share a corner are neighbours.
#
# ```python
# data = datasets.areas_from_geojson("districts.geojson", "incidents")
# model = acv.models.HiddenMRF(data.counts, data.edges, coupling=0.6)
# fit = acv.fit(model)
# cv = acv.infinitesimal_jackknife(model, fit, acv.folds.leave_one_out(len(data)))
# figures.areas(ax, data, cv.pointwise, "held-out loss (nats)")
# ```
#
# The price of exact sums is exponential in the width of the map. This city, with its parks and rivers, has width 15; a
# square of as many cells with six neighbours each has 20 or more. A map that is too wide is refused, with the width and
# the memory it would take.
#
# ## What to take away
# - The jackknife carries over from chains to maps: its losses agree with exact cross-validation at every coupling, best
#   where the classes are certain.
# - Most of the factor between approximate and exact cross-validation in the paper is the cold start. From
#   $\hat\theta$ an exact refit takes a handful of gradients.
# - One frozen step costs one gradient a fold more than the jackknife, and is nearer to exact. Take it.
