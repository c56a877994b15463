# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # What is a standard error of cross-validation worth?
#
# Two models differ by 3 nats in cross-validation, with a standard error of 2. Is the first one better? Usually that error comes from pairs of
# losses, as if both fits were fixed. They were made of the same rows: where models are close, most of the uncertainty comes from there.
#
# ## The idea
# Leave row $i$ out, and the fit moves by $H^{-1} J_i$, $J_i$ the gradient of its loss. The loss rises by $K_{ii}$, with
# $K_{ij} = J_i^\top H^{-1} J_j$: that is the optimism, which cross-validation takes away. But the fit is where it is because of *all*
# rows. Expand about the best parameters there are: the fit's losses on as many fresh rows and on these differ by $\sum_{ij} K_{ij}$ more.
# Without the $K_{ii}$ its mean is 0, and no single loss shows it. Its terms are uncorrelated but for $K_{ij} = K_{ji}$, so that the
# difference of two models, with matrices $K$ and $L$, has a variance of
#
# $$ 2 \sum_{i \ne j} (K_{ij} - L_{ij})^2 $$
#
# on top of that of the pairs. Of nested models that are both true it is twice the number of surplus parameters: a difference by one surplus
# parameter has an error of {given}`1.4` nats that no sum over rows shows. `acv.compare_models` adds it to `dse`; `dse_paired` is without it, and
# `acv.choose` takes the simplest model within one `dse`. It costs one product of $H^{-1}$ with $J$ for each model.

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
# Data are drawn anew, {given}`200` rows each time; two models are fitted and cross-validated by exact refits; and on {given}`20000` fresh
# rows ten models without a fold show what the difference should have been. A {given}`95` % interval has to cover that in nineteen of
# twenty draws. The sum above takes sites for independent. Sequences are; frames of one sequence are not: hidden Markov models of
# {given}`200` frames ask what it is worth there. *loss*: of one model, by `se`, about the held-out (*dse*) and about the training loss.

# %%
n_draws = 200 if paper else 10
shares = standard_errors.coverage(n_draws, rng)
shares.rename(columns={"dse": "with what fits share", "dse_paired": "pairs alone"})

# %% tags=["remove-cell"]
found = shares.set_axis(shares.index.map(".".join))
for draws, part in found.groupby("draws"):
    for id in ("beyond.se", "beyond.se_one"):
        ledger.record_table(id, part.dse, nothing=part.dse_paired, draws=int(draws))

# %% tags=["hide-input", "remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(10, 4.2), sharex=True, sharey=True)
kinds = {"dse_paired": ("pairs alone", "#999999"), "dse": ("what fits share", "#2e7d32")}
for ax, (folds, title) in zip(axes, standard_errors.SCHEMES.items(), strict=True):
    families = shares.xs(folds, level="folds").groupby("family", sort=False)
    for marker, (family, part) in zip("osD^", families, strict=True):
        pairs = part.index.get_level_values("pair").map(standard_errors.WORDS)
        for column, (label, colour) in kinds.items():
            name = f"{standard_errors.FAMILIES[family]}, {label}"
            ax.plot(part[column], pairs, marker, color=colour, mfc="none", label=name)
    ax.axvline(0.95, color="black", lw=0.8, ls=":")
    ax.set(title=title, xlabel="share of draws covered")
figures.save(fig, "standard_errors")

# %% [markdown]
# ```{figure} figures/standard_errors.svg
# :name: fig-standard-errors
# :alt: Two panels, four pairs of models and a single one: grey marks mostly left of a dotted line at 95 per cent, green ones nearer to it or to its right.
# Coverage of intervals of {given}`95` % (dotted) for the difference of two models: from pairs of losses alone (grey), and with what both fits
# share (green); in the upper row for one loss, about the training loss (grey) and the held-out one (green). {verdict}`beyond.se`
# ```
#
# One column of noise more, leave-one-out of a logistic regression: pairs alone cover
# {value}`beyond.se.logistic.loo.noise baseline | .0%`, with what the fits share it is {value}`beyond.se.logistic.loo.noise | .0%`. For models
# that differ by their ridge alone pairs nearly suffice: {value}`beyond.se.logistic.loo.ridge baseline | .0%`. Where models are close the
# interval is too wide, as the difference is not normal there; it errs to the side of not choosing.
#
# Hidden Markov models ask more than was derived, as frames depend on each other. Measured, the interval holds: with one parameter too many it
# covers {value}`beyond.se.hmm.ten.noise | .0%` where frames are left out, pairs alone {value}`beyond.se.hmm.ten.noise baseline | .0%`; of sequences
# {value}`beyond.se.hmm.loo.noise | .0%` and {value}`beyond.se.hmm.loo.noise baseline | .0%`. One loss is another matter. Its `se`, too, takes the
# fit for fixed, and misses the sum with $L = 0$: it covers {value}`beyond.se_one.logistic.ten.loss | .0%` in ten folds of a logistic regression,
# and of frames of a series, whose losses depend on each other, {value}`beyond.se_one.hmm.ten.loss | .0%`. {verdict}`beyond.se_one`
#
# ## What to take away
# - Do not choose between models whose cross-validated losses differ by less than `dse`. Do not trust an error from pairs of losses where
#   models are nested or nearly so, whoever computes it. Where no Hessian is formed, `dse` is that of pairs.
# - More data do not tell apart models that are both true: a variance of two for each surplus parameter stays. A real difference grows.
# - Theory of intervals from pairs asks that the *comparison* is stable, not each model alone {cite:p}`bayle2025`. Of close models it is not.
