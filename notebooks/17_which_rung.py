# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Which rung is enough?
#
# A jackknife costs next to nothing, a Newton step a Hessian a fold, an exact refit some more. Which one a problem needs depends on two
# numbers that are known beforehand: how many parameters there are for each site, and how many sites a fold leaves out. So there is a map.
#
# ## The idea
# Leave $k$ of $n$ sites out of a model with $d$ parameters. All steps start at the fit. The jackknife takes the curvature of all
# sites, a frozen step the share of it that is left, a Newton step that of the sites which are left. For logistic regressions with
# ordinary data rates are known {cite:p}`rubinstein2026`: a Newton step ends of the order of $k d / n^2$ from the refit, the jackknife
# $(k + d) \sqrt{k d} / n^2$ from the Newton step. A score is another question: what cross-validation adds to the training loss is its
# *correction*, and a rung is enough where it misses at most {given}`5 %` of that. Doing nothing misses all of it.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
import numpy as np
from acvbook import figures, ledger
from acvbook.studies import phase

ledger.begin("17_which_rung", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% [markdown]
# ## The map
# Logistic regressions of {given}`400` rows, by their number of parameters (rows of the table) and the number of rows that a fold
# leaves out (columns): the cheapest rung that is enough, in the median of several data sets.

# %%
many = 10 if paper else 3
dims = [2, 4, 8, 20, 40, 80] if paper else [2, 8, 40]
left_out = [0.0025, 0.01, 0.03, 0.1, 0.2, 0.33, 0.5]
cells = phase.regressions(400, dims, left_out, many, rng)
needed = phase.needed(cells)
short = dict(zip(list(phase.RUNGS)[1:], ("IJ", "frozen", "Newton")))
needed.replace(short).unstack("size")

# %% tags=["remove-cell"]
left, span = phase.spreads(cells, 400)
ledger.record_table("beyond.phase", left, nothing=span)
dims = [5, 20, 100] if paper else [5]
larger = phase.regressions(1000, dims, [0.01, 0.1, 0.33], many, rng)
ledger.record("beyond.phase.transfer", phase.transferred(needed, 400, larger, 1000))

# %% [markdown]
# Other models? Hidden Markov models with seven parameters, their steps left out at random: the shares of the correction missed.

# %%
lengths = [100, 400, 1600] if paper else [100, 400]
series = phase.of_series(lengths, [0.005, 0.05, 0.1, 0.2], many, rng)
series[list(phase.RUNGS)].droplevel("dim").round(3)

# %% tags=["hide-input", "remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True)
figures.phases(axes[0], needed, 400).set_title("regressions")
figures.phases(axes[1], phase.by_ratios(series), 1).set_title("hidden Markov models")
for ax in axes:
    ax.get_legend().remove()
figures.save(fig, "phases")

# %% [markdown]
# ```{figure} figures/phases.svg
# :name: fig-phases
# :alt: Two panels of squares over logarithmic axes. Regressions: jackknife lower left, frozen steps lower right, Newton steps above, refits upper right. Series: frozen steps, and refits in the shortest.
# The cheapest rung that is enough, median of data sets: regressions of $n$ = {given}`400` rows, and hidden Markov models of three lengths. Find your
# problem by its two ratios. {verdict}`beyond.phase` {verdict}`beyond.phase.series.frozen`
# ```

# %% tags=["remove-cell"]
ledger.record_table("beyond.phase.series", series.loc[400, 7, 40], nothing=1.0)
ledger.record("beyond.phase.series.frozen", series.frozen_newton.max(), baseline=1.0)

# %% [markdown]
# The map carries over to other sizes: in such data of {given}`1000` rows the rung that it names for the same ratios misses at most a tenth of the
# correction in {value}`beyond.phase.transfer | .0%` of the cells. And the rates hold: over the cells with at most a tenth of either ratio the
# distances span factors of {value}`beyond.phase.newton baseline | .0f` (Newton step to refit) and {value}`beyond.phase.jackknife baseline | .0f`
# (jackknife to Newton step); divided by their rates, factors of {value}`beyond.phase.newton | .1f` and {value}`beyond.phase.jackknife | .1f` are
# left. {verdict}`beyond.phase.newton` {verdict}`beyond.phase.jackknife`
#
# A series is another matter. Without a tenth of {given}`400` steps the jackknife misses {value}`beyond.phase.series.infinitesimal_jackknife | .1%`
# of the correction, a Newton step {value}`beyond.phase.series.newton_step | .1%`: the jackknife is not enough even where the map of regressions
# names it. A frozen step, for a gradient a fold, misses {value}`beyond.phase.series.frozen | .1%` in its worst cell.
#
# ## TreeCV or the jackknife?
# The papers do not compare the two families that they bring. A logistic regression can be had in two ways: by stochastic gradient
# descent, whose folds share work in TreeCV, or at its optimum, from which the jackknife steps to all folds. Errors are distances
# from exact folds of the optimum, in standard errors of the score: the jackknife's yardstick.

# %%
sizes = [400, 1600, 6400] if paper else [400, 1600]
both = phase.study(sizes, [1, 4, 16], 10, 20 if paper else 3, rng)
medians = both.groupby(["folds", "n", "way"], sort=False).median()
medians.unstack("n")

# %% tags=["hide-input", "remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9.5, 4), sharey=True)
for ax, folds in zip(axes, ("10", "n"), strict=True):
    table = medians.loc[folds].reset_index()
    figures.errors_by_seconds(ax, table)
    ax.set_title({"10": "ten folds", "n": "leave-one-out"}[folds])
axes[0].set_ylabel("error of the score (standard errors)")
figures.save(fig, "tree_jackknife")

# %% [markdown]
# ```{figure} figures/tree_jackknife.svg
# :name: fig-tree-jackknife
# :alt: Two panels with grey levels of doing nothing: the jackknife's line falls steeply as data grow, and lowest at right; TreeCV's lines are nearly flat, lower for fewer epochs.
# Error of the score against time, a dot for each number of rows; dotted, doing nothing, a level for each.
# {verdict}`beyond.tree_ij.error`
# ```

# %% tags=["remove-cell"]
for place, folds, n in (("", "n", -1), (".ten", "10", -1), (".small", "10", 0)):
    rows, nothing = phase.beside(both, folds, sizes[n])
    ledger.record_table(f"beyond.tree_ij{place}", rows, nothing=nothing)

# %% [markdown]
# Leave-one-out of the largest data sets: the jackknife is {value}`beyond.tree_ij.error | .0e` standard errors from exact folds, TreeCV at
# its best {value}`beyond.tree_ij.tree | .2f`, the training loss, which does nothing, {value}`beyond.tree_ij.tree baseline | .2f`. Fit and
# jackknife take {value}`beyond.tree_ij.price | .1f` times the seconds of TreeCV's single epoch. With ten folds the errors are
# {value}`beyond.tree_ij.ten.error | .2f`, {value}`beyond.tree_ij.ten.tree | .2f` and {value}`beyond.tree_ij.ten.tree baseline | .2f`. {verdict}`beyond.tree_ij.ten.error`
# Where does each break? The jackknife with large folds of few rows: with ten folds of the smallest data sets it errs by
# {value}`beyond.tree_ij.small.error | .2f`, more than TreeCV's {value}`beyond.tree_ij.small.error baseline | .2f`. There the map asks for a frozen step, at
# the same price: {value}`beyond.tree_ij.small.frozen | .2f`, and {value}`beyond.tree_ij.ten.frozen | .0e` of the largest. {verdict}`beyond.tree_ij.ten.frozen`
# TreeCV breaks with more epochs, and stays where it is with more rows: it learns a chunk once, all epochs in a row, so that the descent
# ends near the optimum of its last chunk. TreeCV gives the score of the descent; of the optimum of many rows a step knows more.
#
# ## What to take away
# - Look up the map before you choose a rung for a regression, start with a frozen step for a series, and run `check_result` after.
# - A learner with an optimum: take a step from it. A learner that only ever passes once over its rows: TreeCV, there is nothing to step from.
# - Do not rank predictions of rows that were left out one by one: each leans away from its own class {cite:p}`austin2025`, and
#   `approx_cross_val_predict` warns of it.
