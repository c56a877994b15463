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
# # Regression, and the Swiss Army infinitesimal jackknife
#
# Leave-one-out on a regression with thousands of rows is the case everyone meets first. {cite:t}`giordano2019` replace
# the thousands of refits by one linear step each, the *infinitesimal jackknife* (IJ), for any scheme of weights
# $w$: with $g_n$ the gradient of row $n$'s loss and $H$ the Hessian of the whole,
#
# $$ \hat\theta_{\mathrm{IJ}}(w) = \hat\theta - H^{-1} \sum_n (w_n - 1)\, g_n(\hat\theta). $$ (eq-glm-ij)
#
# Here are their claims for generalised linear models, what became of them on our data, and one thing they did not try:
# a Newton step for each fold, which for regression costs the same and errs far less.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %%
import numpy as np
import pandas as pd
from acvbook import datasets, figures, ledger
from acvbook.studies import glm_errors, glm_rates, glm_timing, gradient_norms

import acvlib as acv

paper = scale == "paper"
rng = np.random.default_rng(seed)
authors = datasets.load_giordano_results()

# %% tags=["remove-cell"]
ledger.begin("03_glm", scale, seed)

# %% [markdown]
# ## What you would type
# A fitted scikit-learn estimator goes in, what `cross_validate` returns comes out, and nothing is refitted.

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut
from sklearn.preprocessing import StandardScaler

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
model = LogisticRegression().fit(X, y)
scores = acv.approx_cross_validate(model, X, y, cv=LeaveOneOut(), scoring="accuracy")
print(
    f"leave-one-out accuracy {scores['test_score'].mean():.3f}, on the training data {model.score(X, y):.3f}"
)

# %% [markdown]
# ## Claim: a little below exact leave-one-out, and both near the truth
# Figure 1 of the paper: 50 simulated data sets of $N = 1{,}000$ rows and $D = 100$ Gaussian covariates. For each, four
# estimates of the error on new data, minus the error on 100,000 new rows. The code that generated the paper's data was
# never published, but its results were. The levels of these tell that the errors are rates of wrong labels for
# logistic regression and mean squares for Poisson regression, and that the linear predictor had a standard deviation
# near 1.9 and near 0.35; probit regression is in the authors' files and not in the paper. All exact folds are
# refitted to convergence.

# %%
n, dim, n_test, n_sets = (1000, 100, 100_000, 50) if paper else (300, 30, 10_000, 8)
families = ("logistic", "poisson", "probit")
errors = glm_errors.figure1(families, n_sets, n, dim, n_test, rng)
table = glm_errors.summary(errors)
table.round(3)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 3, figsize=(10, 3.6))
for ax, family in zip(axes, families, strict=True):
    ours = errors[errors.family == family]
    theirs = None if authors is None else authors.errors[authors.errors.family == family]
    figures.error_differences(ax, ours, theirs).set_title(family)
axes[0].set_ylabel("estimate minus test error")
figures.save(fig, "glm_errors")

# %% [markdown]
# ```{figure} figures/glm_errors.svg
# :name: fig-glm-errors
# :alt: Three panels of boxes; training error far below zero, the jackknife slightly below, Newton and exact at zero.
# Estimates of the error minus the error on test data, one box for all data sets. Filled: ours; hollow: the authors'
# published numbers (at paper scale the two are of the same size). The training error, which makes no adjustment, is far
# too low. The jackknife recovers most of it, and always stays below exact leave-one-out. The Newton step cannot be told
# from exact.
# ```

# %% tags=["remove-cell"]
for family in ("logistic", "poisson"):
    row = table.loc[family]
    ledger.record(f"giordano.fig1.{family}.ij_below_exact", row.ij_below_exact)
    ledger.record(f"giordano.fig1.{family}.ij_to_test", row.ij / row.test)
    ledger.record(f"giordano.fig1.{family}.exact_to_test", row.exact / row.test)
    ledger.record(f"giordano.fig1.{family}.gap_to_gain", row.gap_to_gain)

# %% [markdown]
# A mean error can hide compensating errors, so here is how far each rung's parameters are from the exact refit's, fold
# by fold, in standard errors of the full fit (medians over folds, then means over data sets).

# %%
theta = errors.groupby("family")[["theta_train", "theta_ij", "theta_ns"]].mean()
ledger.record("giordano.fig1.ns_to_ij", (theta.theta_ns / theta.theta_ij).max())
theta.assign(ij_over_ns=theta.theta_ij / theta.theta_ns).round(4)

# %% [markdown]
# Both need one factorisation of $H$ for all folds: leaving out row $n$ takes $\kappa_n x_n x_n^\top$ from $H$, and by Sherman
# and Morrison the Newton step is the jackknife's divided by $1 - \kappa_n\, x_n^\top H^{-1} x_n$. That denominator, the
# *leverage*, is all that the jackknife forgets. It is why the jackknife sits below: it moves too little.
#
# ## What it is for: choosing a penalty
# One data set, a path of ridge penalties, the mean log loss by each rung and on new rows.

# %%
penalties = np.geomspace(0.1, 1000, 17 if paper else 9)
path = glm_errors.penalty_path(penalties, n, dim, n_test, rng)
path.idxmin().rename("penalty chosen").to_frame().T.round(2)

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 4))
figures.estimates_against(ax, path, "mean log loss", logy=False)
fig.legend(loc="outside upper center", ncols=3)
figures.save(fig, "glm_path")

# %% [markdown]
# ```{figure} figures/glm_path.svg
# :name: fig-glm-path
# :alt: Five curves of log loss against the penalty; the training error rises throughout, the others have a minimum.
# Log loss along the path. The training error rises with the penalty and would choose none at all. The jackknife sees
# the minimum, and is the more optimistic the weaker the penalty, as leverages are larger there. The Newton step lies on
# exact leave-one-out.
# ```
#
# ## Claim: an order of magnitude faster than exact leave-one-out
# Figure 2 of the paper. Exact leave-one-out here is done properly, all folds at all sizes, and also well: from each
# fold's Newton step by chord steps, with all folds' gradients in two matrix products. Ratios are of one run.

# %%
sizes = (1000, 2500, 5000, 10_000, 20_000, 35_000, 50_000) if paper else (500, 1000, 2000)
seconds = glm_timing.figure2(sizes, dim, rng)
seconds[["ratio", "with_fit", "unconverged"]].round(1)

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 3.8))
figures.estimates_against(ax, seconds[["exact", "ns", "ij"]], "seconds").legend()
if authors is not None:
    figures.authors_estimates(ax, authors.seconds.loc[sizes[0] :])
figures.save(fig, "glm_seconds")

# %% [markdown]
# ```{figure} figures/glm_seconds.svg
# :name: fig-glm-seconds
# :alt: Seconds against n on logarithmic axes; exact leave-one-out rises about twice as steeply as the two approximations.
# Seconds for all folds, after the fit. Hollow: the authors', on their machine and with autograd, in 2019. Exact
# leave-one-out grows as $N^2$, the approximations as $N$; the distance between the curves is what matters, and it
# grows. The Newton step costs what the jackknife does.
# ```

# %% tags=["remove-cell"]
growth = np.polyfit(np.log(seconds.index), np.log(seconds.ratio), 1)[0]
ledger.record("giordano.fig2.ratio", seconds.ratio.iloc[0])
ledger.record("giordano.fig2.with_fit", seconds.with_fit.iloc[-1])
ledger.record("giordano.fig2.growth", growth)
ledger.record("giordano.fig2.unconverged", seconds.unconverged.sum())

# %% [markdown]
# ## Claim: the error is bounded, by constants that can be computed
# Theorem 1 of the paper bounds the distance of the jackknife's parameters from the refit's by
# $2\,C_{op}^2\,C_{IJ}\,\delta^2$, provided that $\delta \le \Delta_\delta$. The constants are suprema over a set of
# parameters around $\hat\theta$. For a GLM and a ball they can be computed and not only assumed; we take the smallest ball
# that the theorem allows. Every leave-one-out fold of every data set below is refitted and compared.

# %%
grid = [
    (size, 2)
    for size in ((500, 1000, 2000, 5000, 10_000, 20_000) if paper else (500, 1000, 2000))
]
more = [(1000, 5), (20_000, 5), (1000, 100)] if paper else [(1000, 5), (1000, 30)]
bounds = glm_rates.theorem1_on_data(grid + more, rng)
bounds[["n", "dim", "delta", "limit", "applies", "violated", "bound", "actual", "ratio"]]

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 3.6))
figures.bound_and_actual(ax, bounds[bounds.dim == 2]).legend()
figures.save(fig, "glm_theorem1")

# %% [markdown]
# ```{figure} figures/glm_theorem1.svg
# :name: fig-glm-theorem1
# :alt: Two parallel falling lines on logarithmic axes, the bound some hundred times above the actual error.
# Theorem 1 at $D = 2$: the bound and the largest actual error over all folds (hollow where the condition fails for some
# fold). Both fall as $1/N^2$; the bound is a few hundred times too large.
# ```
#
# The bound holds on every fold, and its rate is right. As a certificate for one's own data it is of little use: the
# constants grow so fast with $D$ that the condition fails for all folds at the size of Figure 1.

# %% tags=["remove-cell"]
ledger.record("giordano.thm1.violated", int(bounds.violated.sum()))
ledger.record("giordano.thm1.below_formula", int(bounds.unconditional.sum()))
ledger.record("giordano.thm1.applies", bounds.applies[len(grid) - 1])
ledger.record("giordano.thm1.tightness", bounds.ratio[len(grid) - 1])

# %% [markdown]
# ## Claim: leaving out k sites, the error falls as 1/N² or at least as 1/N
# Corollary 1: $1/N^2$ where gradients are bounded, $1/N$ where only their averages are. Logistic regression with
# covariates of $\pm 1$ (bounded) and with Student's $t_5$ tails (not). The largest error is taken over folds of one site,
# and of the five that pull in the same direction.

# %%
sizes = (500, 1000, 2000, 4000, 8000, 16_000) if paper else (250, 500, 1000, 2000)
repeats = 8 if paper else 4
studied = {(design, k): None for design in glm_rates.DESIGNS for k in (1, 5)}
for design, k in studied:
    studied[design, k] = glm_rates.leave_k_out(design, sizes, k, 3, repeats, rng)

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 3.6))
figures.rates(
    ax, {f"{design}, k = {k}": table for (design, k), table in studied.items()}
).legend()
figures.save(fig, "glm_rates")

# %% [markdown]
# ```{figure} figures/glm_rates.svg
# :name: fig-glm-rates
# :alt: Four falling lines on logarithmic axes; those of bounded covariates are the steeper ones.
# The largest Euclidean error of the jackknife over folds, several data sets at each $N$. Bounded covariates: slope
# $-2$. Heavy tails: shallower, and steeper than the $-1$ that is guaranteed.
# ```

# %%
slopes = {key: glm_rates.slopes(table) for key, table in studied.items()}
pd.DataFrame(slopes).T.rename_axis(["design", "k"]).round(2)

# %% tags=["remove-cell"]
for (design, k), slope in slopes.items():
    name = "bounded" if design == "bounded" else "general"
    ledger.record(f"giordano.cor1.{name}.{k}", slope["ij"])

# %% [markdown]
# ## Claim: any weights will do, the bootstrap's too
# The same linear step with multinomial weights stands in for the bootstrap's refits. Below, 90 % percentile intervals
# from the same resamples, once by {eq}`eq-glm-ij` and once refitted, on logistic data sets with ten covariates whose true
# parameters are known. The paper points out that the linear step gives the delta method's normal intervals and no
# more; where $N/D$ is large, as here, little is lost.

# %%
n_sets, n_resamples = (200, 400) if paper else (30, 200)
covered = glm_rates.coverage("logistic", n_sets, 1000, 10, n_resamples, 0.9, rng)
covered.mean().to_frame("mean").T.round(3)

# %% tags=["remove-cell"]
ledger.record("giordano.boot.glm.ij", covered.ij.mean())
ledger.record("giordano.boot.glm.bootstrap", covered.bootstrap.mean())
ledger.record(
    "giordano.boot.glm.difference", abs(covered.ij.mean() - covered.bootstrap.mean())
)
ledger.record(
    "giordano.boot.glm.width", covered.ij_width.mean() / covered.bootstrap_width.mean()
)

# %% [markdown]
# ## A claim that does not hold as printed
# Proposition 5 of {cite:t}`ghosh2020` says of logistic regression that the mean norm of the gradients,
# $\frac1N \sum_n \lVert \nabla f(\hat\theta, x_n) \rVert$, is within $t$ of $\sqrt D$ but for a probability of
# $\exp(-C N t^2 / c_x^2)$, if the covariates are independent and sub-Gaussian with constant $c_x$. Four laws of variance 1,
# with $c_x$ from 1.2 to 2.6, and labels that owe nothing to the covariates.

# %%
sizes, dims, repeats = (
    ((800, 1600, 3200, 6400), (5, 20), 100) if paper else ((800, 1600), (5, 10), 25)
)
settings = [(law, size, d) for law in gradient_norms.LAWS for size in sizes for d in dims]
norms = gradient_norms.tails(settings, repeats, rng)
norms.groupby(["law", "dim"])[["centre", "upper", "two_sided", "scaled_sd"]].mean().round(3)

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(5, 3.6))
figures.norm_centres(ax, norms).legend()
figures.save(fig, "glm_norms")

# %% [markdown]
# ```{figure} figures/glm_norms.svg
# :name: fig-glm-norms
# :alt: Marks at half the height of the dashed line of equality, or lower.
# Mean gradient norms against $\sqrt D$, at all $N$. The statement puts the marks on the dashed line, the nearer the
# larger $N$. They lie at half of it or lower, and do not move with $N$.
# ```
#
# A gradient is $(p_n - y_n)\, x_n$, and $|p_n - y_n|$ is well below 1. So the mean norm concentrates, but far below
# $\sqrt D$, and the two-sided tail about $\sqrt D$ is one. The proof bounds the norm by $\lVert x_n \rVert$, which is an argument
# for the upper tail only: that one holds, and so does the use the paper makes of it, a bounded constant in Proposition 2.
#
# About its own mean the norm concentrates at the stated rate, $1/\sqrt N$, or faster. Rademacher covariates all have length
# $\sqrt D$. What is left to vary is $\hat\theta$, of order $1/\sqrt N$, and it enters squared: the rate is $1/N$.

# %% tags=["remove-cell"]
ledger.record("ghosh.prop5.upper", norms.upper.max())
ledger.record("ghosh.prop5.spread", norms.scaled_sd.max())
same_length = norms.law == "Rademacher"
ledger.record("ghosh.prop5.rate_n", gradient_norms.rate(norms[~same_length]))
ledger.record("ghosh.prop5.rate_n_same_length", gradient_norms.rate(norms[same_length]))
ledger.record("ghosh.prop5.as_printed", norms.two_sided.max())

# %% [markdown]
# ## What to take away
# - For regression, take the Newton step: the price of the jackknife, the accuracy of exact leave-one-out. It is the
#   default of `approx_cross_validate`.
# - The jackknife's bias has one sign and one cause, the leverage it leaves out. It matters when $D/N$ is not small.
# - Exact leave-one-out need not be slow. What remains slow is refitting from scratch, fold by fold.
