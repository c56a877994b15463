# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Which folds to trust
#
# The chapters before this one know how far an approximation is off, because they refit. You do not want to refit. Can a
# result tell by itself which of its folds are wrong? This chapter tries `acv.check_result` on the models of all chapters,
# beside exact refits of every fold.
#
# ## The idea
# A method gives fold $o$ the parameters $\theta_o$. The fold's own objective has a gradient $g$ there. At the exact refit it
# would be 0. If $B$ is the curvature of the fold's objective, the refit is about $B^{-1} g$ away.
#
# $B$ is what a fold hides. The Hessian $H$ of the full fit is at hand, but it still holds the sites that were left out. A
# site of high leverage may make up most of the curvature in its own direction; measured with $H$, its error looks small.
# So the fold is followed to where the first estimate leads, and its gradient there tells. With $s$ the step and $y$ the change
# of the gradient along it, $H$ gets a BFGS update, after which $B s = y$. For one left-out row of a regression that is the
# fold's own Hessian, but for third derivatives.
#
# The price is two gradients a fold. Where the second is still far from 0, the fold is followed further. Where rows of a
# regression are left out one by one, most folds cost nothing: third derivatives of
# the Gaussian, logistic and Poisson losses are at most as large as the second ones, and so the error of a short step has a
# proved bound {cite:p}`bach2010`. Only folds whose bound is above the limit get a gradient. A fold is *unreliable* where its
# parameters are more than half a standard error from the refit's, or its loss more than half a standard deviation of the fold losses.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 0

# %% tags=["remove-cell"]
import numpy as np
import pandas as pd
from acvbook import figures, ledger, tables
from acvbook.studies import self_check

ledger.begin("10_which_folds", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% [markdown]
# ## Every chapter's models
# Each problem is one of a chapter's models with data like the chapter's, small enough to refit every fold, and drawn anew
# many times: simulated data are drawn, and of given data the folds or the rows. The number before a name is that of the
# chapter's notebook. Some problems are easy, and some are hard on purpose: regressions that are nearly separable, ridges close
# to zero, hidden states that overlap. At quick scale every fifth problem is judged.

# %%
n_draws, every = (20, 1) if paper else (3, 5)
draws = {
    draw: self_check.every_problem(r, every) for draw, r in enumerate(rng.spawn(n_draws))
}
judged = pd.concat(draws, names=["draw"])
self_check.summary(judged, "chapter").round(3)

# %% [markdown]
# *far*: folds of a method whose exact refit is beyond the limit. *marked*: those that the check calls unreliable. *recall*:
# the share of the far ones that are marked. *precision*: the share of the marked ones that are far. *gradients*: what the
# check cost, a fold. It is above 2 where folds were followed further, and below where bounds sufficed.

# %%
self_check.summary(judged, "method").round(3)

# %% [markdown]
# It may miss folds of a model whose optimum is nearly flat, and a fold whose objective
# has another optimum: nothing near $\theta_o$ tells of them. So one draw of data may come out worse than another. The
# approximate methods together, without the baseline, over all draws; *share far* is the precision of marking every fold, or
# folds at random:

# %%
overall = pd.DataFrame({draw: self_check.overall(table) for draw, table in draws.items()})
overall.T.rename_axis("draw").describe().loc[["50%", "min", "max"]].round(3)

# %% [markdown]
# {verdict}`beyond.check`
#
# The check finds {value}`beyond.check.recall | .1%` of the far folds (median of {value}`beyond.check.recall draws` draws; in the
# worst draw {value}`beyond.check.recall.lowest | .1%`). Of the folds that it marks, {value}`beyond.check.precision | .1%` are
# far (at worst {value}`beyond.check.precision.lowest | .1%`); of all folds, {value}`beyond.check.precision baseline | .1%` are. It
# takes {value}`beyond.check.gradients` gradients a fold, and marks {value}`beyond.check.exact` exact refits.

# %% tags=["remove-cell"]
idle = {"recall": 0.0 * overall.loc["recall"], "precision": overall.loc["share_far"]}
for name in ("recall", "precision", "gradients"):
    values = overall.loc[name]
    ledger.record_draws(f"beyond.check.{name}", values, baseline=idle.get(name))
for name in ("recall", "precision"):
    worst = overall.loc[name].min()
    ledger.record(f"beyond.check.{name}.lowest", worst, draws=n_draws)
exact = judged[judged.method == "exact"]
marked = int(exact.unreliable.sum())
ledger.record("beyond.check.exact", marked, draws=n_draws)

# %% tags=["hide-input", "remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 4))
steps = ["infinitesimal_jackknife", "newton_step"]
for ax, method in zip(axes, steps, strict=True):
    rows = judged[judged.method == method]
    figures.estimated_errors(ax, rows, self_check.LIMIT).set_title(tables.words(method))
figures.save(fig, "self_check")

# %% [markdown]
# ```{figure} figures/self_check.svg
# :name: fig-self-check
# :alt: Two panels of dots along a dashed diagonal over many decades; bands of dots lie above it; the quarter of missed folds is nearly empty.
# The larger of a fold's two estimated errors (parameters in standard errors, loss in standard deviations of the fold losses)
# against the larger true one, each cut off at $10^{-4}$ and $10^3$, where marks are grey. Look at the quarters that the dotted limits cut off: dots
# below on the right were missed, dots above on the left marked for nothing. The bands above the diagonal are proved bounds,
# which needed no gradient. {verdict}`beyond.check`
# ```
#
# ## What to take away
# - Call `acv.check_result(result)` on any approximate result, and `acv.refit_unreliable(result)` if you want
#   the bad folds done exactly. `approx_cross_validate` does both unless you tell it otherwise.
# - How large a fold may be before a step goes wrong: [which rung is enough](17_which_rung.ipynb), and a toy whose fold
#   [you can move](one_step.md). If most folds are unreliable, run `acv.exact`. The approximation saves nothing then.
# - Hidden states can have several optima. The check knows only the one that it is near.
# - Which method to check: the frozen step or a Newton step. The table by method says how many folds each leaves far from the
#   refit, and so how many must be refitted. No adjustment leaves the most, and the check marks those too.
