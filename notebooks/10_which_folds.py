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
# So $H$ gets a BFGS update. With $s = \theta_o - \hat\theta$ and $y$ the change of the fold's gradient along $s$, the updated
# $B$ satisfies $B s = y$. For one left-out row of a regression that is the fold's own Hessian, but for third derivatives.
#
# The price is one gradient a fold. Where the estimate lies near the limit, the fold is looked at again, from the point that
# the estimate leads to. Where rows of a regression are left out one by one, most folds cost nothing: third derivatives of
# the Gaussian, logistic and Poisson losses are at most as large as the second ones, and so the error of a short step has a
# proved bound {cite:p}`bach2010`. Only folds whose bound is above the limit get a gradient. A fold is *unreliable* where its parameters are more than half a standard error from the refit's,
# or its loss is more than half a standard deviation of the fold losses away.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 0

# %%
import numpy as np
import pandas as pd
from acvbook import figures, ledger
from acvbook.studies import self_check
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TimeSeriesSplit, cross_validate

import acvlib as acv

paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% tags=["remove-cell"]
ledger.begin("10_which_folds", scale, seed)

# %% [markdown]
# ## Every chapter's models
# Each problem is one of a chapter's models with data like the chapter's, small enough to refit every fold, and drawn anew
# three times. Some are easy,
# and some are hard on purpose: regressions that are nearly separable, ridges close to zero, hidden states that overlap.

# %%
draws = {draw: self_check.every_problem(r, paper) for draw, r in enumerate(rng.spawn(3))}
judged = pd.concat(draws, names=["draw"])
self_check.summary(judged, "chapter").round(3)

# %% [markdown]
# *far*: folds and methods whose exact refit is beyond the limit. *marked*: those that the check calls unreliable. *recall*:
# the share of the far ones that are marked. *precision*: the share of the marked ones that are far. *gradients*: what the
# check cost, a fold. It is above 1 where folds were looked at twice, and below where bounds sufficed.

# %%
self_check.summary(judged, "method").round(3)

# %% [markdown]
# The check never marks an exact refit. It may miss folds of a model whose optimum is nearly flat, and a fold whose objective
# has another optimum: nothing near $\theta_o$ tells of them. So one draw of data may come out worse than another. The
# approximate methods together, without the baseline, draw by draw:

# %%
overall = pd.DataFrame({draw: self_check.overall(table) for draw, table in draws.items()})
overall.T.rename_axis("draw").round(3)

# %% tags=["remove-cell"]
for name in ("recall", "precision", "gradients"):
    ledger.record(f"beyond.check.{name}", overall.loc[name].median())
ledger.record("beyond.check.recall.lowest", overall.loc["recall"].min())
ledger.record("beyond.check.precision.lowest", overall.loc["precision"].min())
exact = judged[judged.method == "exact"]
ledger.record("beyond.check.exact", int(exact.unreliable.sum()))

# %% tags=["hide-input", "remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 4))
steps = ["infinitesimal_jackknife", "newton_step"]
for ax, method in zip(axes, steps, strict=True):
    rows = judged[judged.method == method]
    figures.estimated_errors(ax, rows, self_check.LIMIT).set_title(method)
figures.save(fig, "self_check")

# %% [markdown]
# ```{figure} figures/self_check.svg
# :name: fig-self-check
# :alt: Two panels of dots along a dashed diagonal over many decades; a few dots leave it, most above the limit.
# The larger of the estimated errors of a fold (parameters, loss) against the true one. Look at the quarters that the dotted
# lines cut off: dots below on the right were missed, dots above on the left were marked for nothing. The bands far above the
# diagonal are proved bounds, which needed no gradient.
# ```
#
# ## With scikit-learn
# `approx_cross_validate` checks what it returns and refits what it cannot trust. Splits along time are hard for any
# approximation, as the first training set holds few of the rows that the full fit saw:

# %%
X = rng.standard_normal((120, 4))
y = X @ [2.0, -1.0, 0.5, 0.0] + rng.standard_normal(120) > 0
estimator = LogisticRegression(C=10.0).fit(X, y)
settings = {"cv": TimeSeriesSplit(5), "scoring": "neg_log_loss"}
refits = cross_validate(estimator, X, y, **settings)["test_score"]
scores = {"scikit-learn's refits": refits}
for unreliable in ("ignore", "refit"):
    ours = acv.approx_cross_validate(estimator, X, y, unreliable=unreliable, **settings)
    scores[unreliable] = ours["test_score"]
pd.DataFrame(scores).T.assign(mean=lambda table: table.mean(axis=1)).round(3)

# %%
ours["cv_result"].method, ours["unreliable"]

# %% tags=["remove-cell"]
gap = np.abs(scores["refit"] - refits).max()
ledger.record("beyond.check.splits", gap)
ledger.record("beyond.check.splits.ignored", np.abs(scores["ignore"] - refits).max())

# %% [markdown]
# ## What to do
# - Call `acv.check_result(model, result)` on any approximate result, and `acv.refit_unreliable(model, result)` if you want
#   the bad folds done exactly. `approx_cross_validate` does both unless you tell it otherwise.
# - If most folds are unreliable, run `acv.exact`. The approximation saves nothing then.
# - Hidden states can have several optima. The check knows only the one that it is near.
