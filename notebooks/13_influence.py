# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Which data decide a conclusion?
#
# A coefficient is positive; a night lasts so long; crime is so high in the bad tracts. How many data points would have to
# go for you to say otherwise, and which? {cite:t}`broderick2020` answer to first order: for a conclusion $\phi(\theta)$ leaving
# out site $n$ adds $\psi_n = \nabla\phi^\top H^{-1} J_n$, and the $k$ largest $\psi$ are the set to fear. Their package does so for
# regressions. Hidden Markov models and maps have weights on sites, too. But is the answer to first order any good there?

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
from acvbook import datasets, figures, ledger
from acvbook.studies import influence

import acvlib as acv

ledger.begin("13_influence", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% [markdown]
# ## A regression
# The example of the package `zaminfluence` is simulated: {given}`10,000` rows, three regressors with slopes of up to {given}`0.1`, noise of
# variance one. We draw its twins. How many rows flip the sign of the first slope? Add up the largest $\psi$ until the prediction
# does; then refit without these rows.

# %%
n_draws = 20 if paper else 3
twins = [influence.regression(r) for r in rng.spawn(n_draws)]
flips = pd.DataFrame([influence.flips(twin, rng) for twin in twins])
flips.head(3)

# %% tags=["remove-cell"]
flipped = flips.flipped.mean()
at_random = flips.flipped_at_random.mean()
ledger.record("beyond.influence.flipped", flipped, baseline=at_random, draws=n_draws)
ledger.record_draws("beyond.influence.rows", flips.rows_left_out / twins[0].model.n_sites)

# %% [markdown]
# {value}`beyond.influence.rows | .1%` of the rows suffice (median), and the refit agrees in
# {value}`beyond.influence.flipped | .0%` of the {value}`beyond.influence.flipped draws` twins; as many random rows flip the sign in
# {value}`beyond.influence.flipped baseline | .0%`. Each row stands for itself: the prediction is nearly right. {verdict}`beyond.influence.flipped`
#
# ## Hidden states, and a map
# Which five-minute counts decide when day begins? The [traffic model](01_traffic.ipynb) calls night and day its two states. Its
# conclusions: how long night and day go on, how much more traffic the day brings, the rate of a Sunday night. And which tracts of the
# [map](05_mrf.ipynb) decide the low rate, the high rate, and their ratio? Each up and down. Sets are picked in one shot, or greedily: refit
# after each site, then linearise anew. All changes are in standard errors of the conclusion: *linear* is the sum of the $\psi$, *newton* a
# Newton step without the set, *exact* a refit without it; *random*: sets of the same size, the median.

# %%
traffic = datasets.load_or_simulate("dodgers", rng)
june = datasets.load_or_simulate("philadelphia", rng)
series = traffic if paper else traffic.head(10_000)
settings = [
    *influence.traffic_settings(series, (5, 20, 50) if paper else (5,)),
    *influence.map_settings(june, 0.4, (3, 10) if paper else (3,)),
]
effects = influence.table(settings, 20 if paper else 5, rng)
effects.round(2)

# %% tags=["remove-cell"]
shares = influence.shares(effects)
for name in shares.index.drop("random"):
    about = {"data": june if name == "misled_map" else [traffic, june]}
    about |= {"data": traffic} if "traffic" in name else {}
    about |= {"baseline": shares.random} if name == "greedy" else {}
    ledger.record(f"beyond.influence.{name}", shares[name], **about)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 4.2))
figures.predicted_and_exact(axes[0], effects)
field = settings[-1]
tracts = acv.most_influential(field.fit, lambda p: p[1], 10, "greedy")
figures.influential_areas(
    axes[1], june, tracts.psi, tracts.sites, "change of the log high rate"
)
figures.save(fig, "influence", june)

# %% [markdown]
# ```{figure} figures/influence.svg
# :name: fig-influence
# :alt: Left, most marks far below the dashed diagonal, triangles lower than diamonds. Right, a map in two colours with ten tracts outlined.
# Left: the change that the sum of the $\psi$ predicts, and that by a refit, a triangle and a diamond a setting. Below the dashed line a
# set does less than predicted. Right: $\psi$ of each tract for the high rate; outlined, the ten that the greedy search takes;
# one tract in twenty is beyond the scale.
# {verdict}`beyond.influence.greedy`
# ```
#
# With hidden states the prediction misleads. In the series the median setting is off by a factor of
# {value}`beyond.influence.misled_traffic | .1f`, one way or the other: leave out the one count that interrupts a night, and the night
# closes over the gap, so that the $\psi$ of its neighbours are no longer what they were. Greedy sets are off by
# {value}`beyond.influence.misled_traffic_greedy | .1f`, and one-shot sets of the map, where a site has few neighbours, by
# {value}`beyond.influence.misled_map | .2f`. By refits, the greedy set does at least as much as the one-shot set in
# {value}`beyond.influence.greedy | .0%` of the settings (random sets: {value}`beyond.influence.greedy baseline | .0%`); the median gain is
# a factor of {value}`beyond.influence.gain | .2f`.
#
# Which counts are they? Here are the five that decide whether the night goes on. In the whole series (paper scale) two of them
# are zeros between dozens of cars: hardly a night, more likely a detector that failed for five minutes.

# %%
night = settings[0]
five = np.sort(acv.most_influential(night.fit, night.phi, 5, "greedy").sites)
around = series.counts[five[:, None] + np.arange(-2, 3)]
pd.DataFrame(around, series.timestamp[five], range(-2, 3)).replace(-1, "missing")

# %% [markdown]
# ## No $k$ rows can change this
# A search bounds the sensitivity from below. For a logistic or Poisson regression and a linear conclusion
# $\phi = c^\top\theta$, `certify=True` bounds it from above: what *any* $k$ rows can add, all sets counted, of which none but a
# few is refitted. Least squares has such bounds {cite:p}`rubinstein2025`. Here, as rows fade, the optimum walks away from the fit: their
# slopes pull, the curvature of all rows holds. We prove a fence that no such walk crosses.
#
# **The proof.** Row $n$ has the loss $\ell_n(\eta_n)$, weight included, slope $e_n = \ell_n'$ and curvature $w_n = \ell_n''$. Take
# coordinates in which the Hessian $H$ at the fit $\hat\theta$ is almost $I$, $\lVert H - I\rVert \le q$, and rows $u_n$. The gradient
# $g$ at $\hat\theta$ is at most $\nu$ long. A point $\hat\theta + \delta$ moves scores by $a_n = u_n^\top\delta$, and slopes by
# $w_n a_n + D_n(a_n)$.
#
# 1. *The path.* Let the weight of the rows of a set $S$ fall to $1 - t$. From $\hat\theta$ go first to the optimum, by
#    $\nabla F = (1 - \tau) g$, then on by $\nabla F = t \sum_S e_m(\eta_m + a_m) u_m$. All along
#    $H\delta + \sum_m D_m(a_m) u_m$ $= t \sum_S e_m(\eta_m + a_m) u_m$ $- \tau g$ with $t, \tau \in [0, 1]$. The Hessian is positive for
#    $t < 1$: a path that stays in a bounded region goes on for all $t$, and ends in a refit without $S$.
# 1. *One direction.* Let a region have $|\delta| \le \rho$ and each $a_m$ in an interval. For any $v$, with $K_m = v^\top u_m$, the
#    equation says $v^\top\delta \le t \sum_S K_m e_m$ $- \sum_m K_m D_m + |v| (\nu + q\rho)$. A row's $K_m D_m$ is bounded by the range of
#    $D_m$ over its interval; in $S$, where $t e_m - D_m$ is linear in $t$, by $-D_m$ and, at $t = 1$, by $e_m(\eta_m) + w_m a_m$. Or
#    $D_m = (b_m \pm h_m) a_m^2$ and $\sum_m (|K_m| h_m - K_m b_m) a_m^2 \le \rho^2 \lambda$, $\lambda \ge 0$ above all eigenvalues of that
#    form; then a row in $S$ adds $t K_m e_m$ to it. So the most over all $S$ is a sum over all rows and the $k$ largest of what rows
#    in $S$ can add. For $v = \pm u_n$ this gives $a_n$ a new interval, in $S$ or not.
# 1. *Ranges.* $D_m' = w_m(\eta_m + a) - w_m(\eta_m)$ vanishes at $0$ and, for logistic losses, at $-2\eta_m$. By Taylor
#    $D_m / a^2 = \ell_m^{(3)} / 2 + \bar\ell_m^{(4)} a / 6$ with a mean of fourth derivatives at $\eta_m + sa$, weighted by $3 (1 - s)^2$.
#    They are at most $w_m e^{s|a|}$, the mean at most $w_m (3 + e^{|a|}) / 4$, and $1/8$ of the row's weight if losses are logistic.
# 1. *The ball.* Multiply by $\delta$. Slopes rise by chords, $a_m w_m a_m + a_m D_m = \kappa_m a_m^2$; let $0 \le c_m \le \kappa_m$ in the
#    interval, and $\kappa$ be below the eigenvalues of $H - \sum_m (w_m - c_m) u_m u_m^\top$. Then
#    $\kappa \rho^2 \le \nu\rho + \sum_S p_m$, where $p_m = t a_m e_m(\eta_m + a_m)$ $- (\kappa_m - c_m) a_m^2$ is linear in $t$: at $t = 1$
#    it is $a_m e_m(\eta_m) + c_m a_m^2$, largest at an end, at $t = 0$ it is at most $0$. By step 3 such a $c_m$ is $w_m$ less the most
#    that $D_m / a$ falls.
# 1. *The barrier.* Steps 2 and 4 map a region to intervals and a radius that its path points satisfy. If all of these are
#    strictly within the region's own, a path point in it is inside it: the times at which the path is in the region are closed and
#    open, and one of them is the start, $\delta = 0$. No path leaves. Nor are there several refits: they would be a line of solutions,
#    which leaves. The map may then be repeated, to shrink the region.
# 1. *The slice.* Suppose a path point has $c^\top\delta = s > 0$. Write $\delta = s c / |c|^2 + \epsilon$, so that $c^\top\epsilon = 0$ and
#    $|\epsilon|^2 \le \rho^2 - s^2 / |c|^2$. Count $a_m = u_m^\top\epsilon$ and $D_m$ from the point $s c / |c|^2$, with gradient $G$ and
#    Hessian $H_s$ there; let $v \approx H_s^{-1} c$. The equation reads $v^\top G = t\sum_S K_m e_m$ $- \sum_m K_m D_m$
#    $+ (1 - \tau) v^\top g$ $- (H_s v - c)^\top\epsilon$. If the bound of step 2 by the form is less than $v^\top G$ there is no such
#    point, and as paths begin at $0$ none goes beyond $s$.
# 1. *Splits.* Where no region is found, sets of one row are bounded by [certified](11_certified.ipynb) Newton steps, and refitted
#    where these leave it open whether they do most. Then take the rows that do most, $r_1, \dots, r_m$. A larger set has none of
#    them, or a first one, $r_j$: refit without $r_j$, keep $r_1, \dots, r_{j-1}$, and add what $k - 1$ other rows can do to that.
#
# Rounding is bounded as in that chapter. $K_m$ is off by $\gamma |v| |B| |z_m|$ at most, $B$ being the change of coordinates; sums by
# $\gamma_n$ of their terms; scores, slopes and $D$ by some units of what they are differences of, which counts where $a$ is small;
# eigenvalues are above what a Cholesky factor proves, $q$ is computed, and $\nu$ takes the gradient as it is. It covers rows that
# are left out or weighed down, $k$ of them; not a little weight taken from all. A $\phi$ with an operation not known as linear is refused.
# Sentences of a CRF have no such bound: a sentence's loss is a function of many scores, so that no interval of step 3 holds its slope,
# and its third derivatives are bounded by cubes of features' norms summed over tokens alone: far too much to prove anything.
#
# How close is it? Regressions with an intercept and five regressors, two of them skewed as incomes are, and {given}`4,000` rows; and
# the breast cancer data of scikit-learn at ridge one, of which few rows decide much, by its first slope.

# %%
proofs = influence.proofs(rng, 20 if paper else 1)
cancer, sick = influence.breast_cancer(3 if paper else 2)
attacks = influence.attacks(rng, 20 if paper else 2)
pd.concat([proofs, sick]).groupby(["data", "k"]).median().round(4)

# %% tags=["remove-cell"]
for (family, k), rows in proofs.groupby(["data", "k"]):
    name = "ratio" if family == "logistic" else family
    ledger.record_draws(f"beyond.any_k.{name}_{k}", rows.ratio)
ledger.record_draws("beyond.any_k.seconds", proofs.seconds[proofs.data == "logistic"])
packaged = SimpleNamespace(provenance="real", sha256=None)
ledger.record("beyond.any_k.cancer_finite", np.isfinite(sick.bound).all(), packaged)
ledger.record("beyond.any_k.breast_cancer", float(sick.ratio.iloc[-1]), packaged)
sums = attacks.drop(columns="data").sum()
about = {"baseline": sums.beyond_linear, "draws": len(attacks)}
ledger.record("beyond.any_k.violations", sums.beyond, **about)
ledger.record("beyond.any_k.tried", sums.tried)

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 3.4))
for (name, rows), mark in zip(pd.concat([proofs, sick]).groupby("data"), "ov^"):
    ax.plot(rows.k, rows.ratio, mark, label=name, mfc="none")
ax.axhline(1.0, color="black", ls="--", lw=0.8)
figures.by_size(ax, [*sick.k, *proofs.k.unique()]).set_yscale("linear")
ax.set(xlabel="rows left out, $k$", ylabel="proved over attained")
figures.save(fig, "any_k")

# %% [markdown]
# ```{figure} figures/any_k.svg
# :name: fig-any-k
# :alt: Marks over the number of rows left out. At a dashed line at one or a little above, but for triangles at ten rows, up to a third above.
# What no set of $k$ rows exceeds, as a multiple of what a set that was found does to the coefficient by a refit. At 1 nothing is open.
# {verdict}`beyond.any_k.ratio_10`
# ```
#
# The bound is {value}`beyond.any_k.ratio_10 | .4f` times what is attained at ten rows and {value}`beyond.any_k.ratio_50 | .4f` times at
# fifty ({value}`beyond.any_k.ratio_50 low | .3f` to {value}`beyond.any_k.ratio_50 high | .3f`, the middle eight tenths of the draws), after
# {value}`beyond.any_k.seconds | .1f` seconds of one core. Of Poisson regressions it is {value}`beyond.any_k.poisson_10 | .3f` times at ten,
# {verdict}`beyond.any_k.poisson_10`, of breast cancer's first slope {value}`beyond.any_k.breast_cancer | .4f` times. Each row more takes
# ten times as long there: sets are split, and again. Is any set beyond its bound? We attack: proofs that know of no set, against refits of
# what one shot, greed and ten rounds of swaps find. Of {value}`beyond.any_k.tried` sets {value}`beyond.any_k.violations` are beyond what is
# proved, and {value}`beyond.any_k.violations baseline` beyond the sum of the largest $\psi$. {verdict}`beyond.any_k.violations`
# `acv.robustness_interval` asks for the sign alone. We take the slope with the fewest standard errors.

# %%
wages = influence.wages(rng, 4000 if paper else 1000)
for name, fit in {"simulated": wages, "breast cancer": cancer}.items():
    weak = influence.weakest(fit)
    proved, flips = acv.robustness_interval(fit, lambda p, j=weak: p[j], 100)
    print(f"{name}: no {proved} rows change the sign; {flips} are found that do")

# %% [markdown]
# And which model wins? `acv.same_choice` proves of two regressions which one leave-one-out prefers.
#
# 1. *Scores.* Drop the rows of $S$, and then one more, $n$: the barrier for $k + 1$ rows bounds all scores, slopes and curvatures on
#    the way. Let $a$ be the score of $n$ with it, $b$ without it, $L_n$ its loss and $H$ a mean Hessian of the others on the way.
# 1. *One row.* As $b - a = L_n'(a)\, u_n' H^{-1} u_n$ and $L_n$ is convex, $L_n(b) - L_n(a)$ is at least
#    $L_n'(a)^2\, u_n' H^{-1} u_n$ and at most $L_n'(a)\, L_n'(b)\, u_n' H^{-1} u_n$.
# 1. *All rows.* For the model that wins, the sum of $L_n(a)$ over kept rows is at most the sum at the fit and what the ridge gains, as
#    the refit is an optimum. For the one that loses it is at least that of tangents at the fit; those of all rows add up to the
#    ridge's alone, as the gradient vanishes there.
# 1. *The worst set.* So the gap is a sum over all rows, less what each dropped row takes from it: the $k$ that take most are taken.

# %%
less = acv.fit(replace(wages.model, X=np.delete(wages.model.X, 1, axis=1)))
kept, lost = acv.same_choice(wages, less, 100 if paper else 20)
ledger.record("beyond.any_k.choice", kept)
print(f"no {kept} rows change the choice; {lost or 'none'} are found that do")

# %% [markdown]
# ## Do this
# - Ask `acv.most_influential(fit, phi, k)` before you rely on a conclusion. Read `exact`; `linear` is a search direction only.
# - With hidden states, or where `linear` and `exact` differ, take `method="greedy"`: $k$ refits.
# - Both are searches: another set may do more. Of logistic and Poisson regressions `certify=True` says how much more, at most.
# - Look at the sites. A handful of misread counts is a finding about the data; of honest ones, about the conclusion.
# - *Nearest work.* In least squares only greedy search that refits passes all tests of {cite:t}`huang2024`; {cite:t}`hu2024` say why one
#   shot fails. For one regressor the worst set can be had exactly {cite:p}`konrad2026`. For other losses we know no such search: hence bounds.
