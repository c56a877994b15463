# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # What is a standard error of cross-validation worth?
#
# Two models differ by 3 nats in cross-validation, with a standard error of 2. Is the first one better? Everyone computes that
# error from pairs of losses, row by row, as if both fits had fallen from the sky. They have not: both were made of the same rows.
# Where the models are close, that is what the difference is made of.
#
# ## The idea
# Leave row $i$ out, and the fit moves by $-H^{-1} J_i$. Its loss rises by $K_{ii}$, with $K_{ij} = J_i^\top H^{-1} J_j$: that is the
# optimism, which cross-validation takes away. But the fit is where it is because of *all* rows. About the best parameters there are, its
# loss on fresh rows and on these differ by $\sum_{i \ne j} K_{ij}$, a sum that has mean 0 and that no single loss shows. Its terms
# are uncorrelated, so that the difference of two models, with matrices $K$ and $L$, has a variance of
#
# $$
# 2 \sum_{i \ne j} (K_{ij} - L_{ij})^2
# $$
#
# on top of that of the pairs. Of nested models that are both true it is twice the number of surplus parameters: a difference by
# one surplus parameter has an error of {given}`1.4` nats that no sum over rows shows. `acv.compare_models` adds it to `dse`;
# `dse_paired` is without it, and `acv.choose` takes the simplest model within one `dse`. It costs one product of $H^{-1}$ with
# $J$ for each model.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 0

# %% tags=["remove-cell"]
import numpy as np
from acvbook import figures, ledger
from acvbook.studies import standard_errors

ledger.begin("16_standard_errors", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% [markdown]
# ## Does it cover?
# Data are drawn anew, {given}`200` rows each time; two models are fitted and cross-validated by exact refits; and on
# {given}`20000` fresh rows the models without each fold show what the difference should have been. A {given}`95` % interval has to cover that in
# nineteen draws of twenty.

# %%
n_draws = 200 if paper else 20
shares = standard_errors.coverage(n_draws, rng)
shares.rename(columns={"dse": "with what fits share", "dse_paired": "pairs alone"})

# %% tags=["remove-cell"]
found = shares.set_axis(shares.index.map(".".join))
ledger.record_table("beyond.se", found.dse, nothing=found.dse_paired, draws=n_draws)

# %% tags=["hide-input", "remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(10, 3.5), sharey=True)
for ax, (folds, title) in zip(axes, standard_errors.SCHEMES.items(), strict=True):
    part = shares.xs(folds, level="folds")
    for marker, (column, colour) in zip(
        "xo", {"dse_paired": "#999999", "dse": "#2e7d32"}.items()
    ):
        words = part.index.get_level_values("pair").map(standard_errors.WORDS)
        ax.plot(part[column], words, marker, color=colour)
    ax.axvline(0.95, color="black", lw=0.8, ls=":")
    ax.set(title=title, xlabel="share of draws covered")
figures.save(fig, "standard_errors")

# %% [markdown]
# ```{figure} figures/standard_errors.svg
# :name: fig-standard-errors
# :alt: Two panels of crosses well below and dots at or above a dotted line at 95 per cent, for four pairs of models.
# Coverage of intervals of {given}`95` % for the difference of two models: from pairs of losses alone (crosses), and with what both fits share
# (dots), in three families. Look at the crosses of the lower rows: the closer two models, the less pairs of losses know. {verdict}`beyond.se`
# ```
#
# One column of noise more, leave-one-out of a logistic regression: pairs alone cover
# {value}`beyond.se.logistic.loo.noise baseline | .0%`, with what the fits share it is {value}`beyond.se.logistic.loo.noise | .0%`. Models
# that differ by their ridge alone were covered by pairs as well: {value}`beyond.se.logistic.loo.ridge baseline | .0%`. Where models are
# close the interval is wider than it need be, since the difference is no longer normal; it errs to the side of not choosing.
#
# ## What to take away
# - Do not choose between models whose cross-validated losses differ by less than `dse`. Do not trust an error from pairs of losses
#   where models are nested or nearly so, whoever computes it.
# - A large data set does not help: what both fits share stays, a variance of two for each surplus parameter, while the sum over
#   rows of a real difference grows.
# - The theory of when intervals from pairs hold asks that the *comparison* is stable, and not each model alone
#   {cite:p}`bayle2025`. Of close models it is not.
