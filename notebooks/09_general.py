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
# # Unlabelled points and pairs
#
# Most of what one can measure has no label. Manifold regularisation {cite:p}`belkin2006` uses it all the same: points that are alike should be
# predicted alike. Contrastive learning goes further and knows only pairs. {cite:t}`zhu2021` cross-validate both without
# refitting. With $s$ labelled points of $p$, a fold of $v$ labelled ones left out, and weights $w$ of 0 and 1,
#
# $$ F(w, \theta) = \frac{\gamma_S}{s - v} \sum_i w_i\, \ell_s(z_i; \theta)
#    + \frac{\gamma_P}{(p - v)^2} \sum_{i,j} w_i w_j\, \ell_p(z_i, z_j; \theta) + \gamma_I\, R(\theta). $$ (eq-general)
#
# Their Theorem 3.1 moves $\hat\theta$ by $-H^{-1}$ times the gradients of what the fold takes away. It treats $s - v$ and
# $p - v$ as constants. They are not: they are sums of weights, and change with the fold. This chapter runs the theorem
# as printed and the *infinitesimal jackknife* of {eq}`eq-general`, which differentiates the normalisers too.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %%
import numpy as np
import pandas as pd
from acvbook import datasets, figures, ledger
from acvbook.neural import Adam
from acvbook.studies import general, general_choice, general_rates, general_timing, siamese
from joblib import parallel_config

import acvlib as acv
from acvlib.models import PairwiseLinear

parallel_config("threading", n_jobs=2)
paper = scale == "paper"
rng = np.random.default_rng(seed)
RUNGS = ["as_printed", "infinitesimal_jackknife", "frozen_newton"]

# %% tags=["remove-cell"]
ledger.begin("09_general", scale, seed)

# %% [markdown]
# ## Claim: predicted and actual loss agree, for regression
# Figure 1 of the paper: least squares with a manifold term (LapRLS) on *cpusmall*, 90 % of the labels hidden, 20 folds.
# The paper leaves open how the data are scaled and how wide the affinity $W_{ij} = \exp(-\lVert x_i - x_j \rVert^2 / 2\sigma)$
# is. Ours: features in $[-1, 1]$ beside a constant one, a response of variance 1, and $\sigma$ the median squared distance of
# two points. $\gamma_P$ and $\gamma_I$ are those of the paper's Table 2. No matrix of all pairs is ever held: it is worked
# out in blocks.

# %%
cpu = general.load("cpusmall", rng, None if paper else 1000)
model = general.semi_supervised(cpu, rng, gamma_p=1.0, gamma_i=0.1)
results = general.every_rung(model, rng)
figure1 = general.agreement(model, results)
figure1.drop(columns="seconds").round(5)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 4))
figures.both_panels(axes, results, RUNGS[:2])
axes[0].legend(markerscale=3)
figures.save(fig, "general_regression", data=cpu)

# %% [markdown]
# ```{figure} figures/general_regression.svg
# :name: fig-general-regression
# :alt: Left, all marks on the diagonal; right, jackknife on the diagonal, the theorem as printed scattered about it.
# LapRLS, one mark a left-out point. Left: every method lies on the diagonal, and so does no adjustment at all; this panel
# shows nothing. Right: what leaving out adds to a loss. The jackknife is on the diagonal. The theorem as printed is not.
# ```
#
# The printed theorem leaves out a first-order term, the same for every fold:
# $H^{-1} \bigl[\tfrac{v}{s}\, \gamma_S \overline{\nabla \ell_s} + \tfrac{2v}{p}\, \gamma_P \overline{\nabla \ell_p}\bigr]$. At the
# optimum the means of the gradients balance the regulariser and are not zero.
# `theta_error` counts the parameters' error in standard errors.

# %% tags=["remove-cell"]
for name, value in general.parts(figure1).items():
    ledger.record(f"zhu.fig1.{name}", value, cpu)

# %% [markdown]
# Eq. 11 of the paper goes one step further and expands the evaluation loss as well, in place of putting the
# predicted parameters into it. It is hardly cheaper, and loses a little where the step is right.

# %%
expanded = general.expansions(model, results)
for rung in RUNGS[:2]:
    gaps = expanded.loc[rung, "error of the mean loss"].abs()
    ledger.record(f"zhu.eq11.{rung}", gaps["linearised"] / gaps["plugged in"], cpu)
expanded.round(6)

# %% [markdown]
# ## Claim: the same for classification
# Figure 2: logistic loss (LapRLR) on *w2a*. That file could not be had; these are as many random rows of w8a, of which
# w2a is a random part too.

# %%
web = general.load("w2a_standin", rng, None if paper else 800)
model = general.semi_supervised(web, rng, gamma_p=0.1, gamma_i=0.1)
results = general.every_rung(model, rng)
figure2 = general.agreement(model, results)
figure2.drop(columns="seconds").round(5)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 4))
figures.both_panels(axes, results, RUNGS[:2])
axes[0].legend(markerscale=3)
figures.save(fig, "general_classification", data=web)

# %% [markdown]
# ```{figure} figures/general_classification.svg
# :name: fig-general-classification
# :alt: As before, for logistic loss; the printed theorem moves most losses too far.
# LapRLR, as in {numref}`fig-general-regression`. Look at the printed theorem on the right: with its missing term, nearly all
# its losses are moved to one side of the diagonal.
# ```

# %% tags=["remove-cell"]
for name, value in general.parts(figure2).items():
    ledger.record(f"zhu.fig2.{name}", value, web)

# %% [markdown]
# ## Claim: the squared hinge and a kernel change nothing
# Corollary 6.1 covers the Laplacian SVM with its squared hinge, and the text says that kernels work likewise. Both on
# *svmguide3*: the SVM linear, then on a Gaussian kernel with 60 of the points as centres.

# %%
guide = general.load("svmguide3", rng, None if paper else 600)
linear = general.semi_supervised(guide, rng, "squared_hinge", gamma_p=0.1, gamma_i=0.01)
sigma = linear.energy.affinity.sigma
kernel = general.in_kernel_form(linear, sigma, 60, rng)
models = {"lapsvm": linear, "kernel": kernel}
svm = {name: general.agreement(m, general.every_rung(m, rng)) for name, m in models.items()}
pd.concat(svm, names=["model"]).drop(columns="seconds").round(5)

# %% [markdown]
# For the linear SVM the correlation is lower. The second derivative of its loss jumps at the margin, $y f = 1$, where a point
# that crosses is not in a Hessian taken before. But hardly any point crosses. It is the labels that are few, six a parameter:
# a fold takes most of what is known in some direction, and a linear step is too short there. With more labels it is not:

# %%
shares = (0.1, 0.3, 0.9)
by_labels = general.by_labels(
    guide, rng, shares, "squared_hinge", gamma_p=0.1, gamma_i=0.01
)
by_labels.round(4)

# %% tags=["remove-cell"]
ledger.record("zhu.svm.most_labels", by_labels.infinitesimal_jackknife.iloc[-1], guide)
ledger.record("zhu.svm.crossings", by_labels.crossings.iloc[0], guide)

# %% [markdown]
# ## Claim: pairs alone
# Corollary 6.2: a linear score with the contrastive loss of Example 3, every pair of points in one class or in two.
# The loss has a kink where two scores coincide, which happens to some pairs at any $\theta$; it is smoothed there, as
# Section 5.1 of the paper proposes.

# %%
rows = general.points_and_response(guide)
contrastive = PairwiseLinear(*rows, "contrastive", gamma_i=0.01)
results = general.every_rung(contrastive, rng)
svm["pairwise"] = general.agreement(contrastive, results)
svm["pairwise"].drop(columns="seconds").round(5)

# %% tags=["remove-cell"]
for name, table in svm.items():
    for rung in RUNGS:
        ledger.record(f"zhu.svm.{name}.{rung}", table.r_difference[rung], guide)
        ledger.record(f"zhu.svm.{name}.theta.{rung}", table.theta_error[rung], guide)

# %% [markdown]
# ## Claim: the error falls as $1/(t-1)^2$
# Theorems 4.4 to 4.6 bound $\lvert t\text{-ACV} - t\text{-CV} \rvert$ by $m^2/(s-m)^2$ and its like for $p$. First the smallest folds of
# ever more points, of which the theorems say that the error falls as $1/s^2$; simulated, with folds of one point, or of two
# where only pairs count.

# %%
sizes = {
    kind: (100, 200, 400, 800) if paper else (40, 80, 160) for kind in general_rates.KINDS
}
sizes["pairwise"] = (50, 100, 200, 400) if paper else (16, 32, 64)
repeats = 10 if paper else 2
small = {k: general_rates.smallest_folds(k, n, rng, repeats) for k, n in sizes.items()}
pd.DataFrame({kind: general_rates.slopes(table) for kind, table in small.items()}).round(2)

# %% [markdown]
# Then more and more folds of the same points, each fold of points that are alike, so that what it takes away adds up.

# %%
counts = (3, 5, 9, 17, 33) if paper else (3, 5, 9, 17)
points = {"supervised": 20_000, "semi_supervised": 2000, "pairwise": 1500}
points = points if paper else {"supervised": 1000, "semi_supervised": 300, "pairwise": 150}
large = {k: general_rates.by_folds(k, n, counts, rng) for k, n in points.items()}
pd.DataFrame({kind: general_rates.slopes(table) for kind, table in large.items()}).round(2)

# %% tags=["remove-output"]
fig, axes = figures.subplots(2, 3, figsize=(10, 6))
for (above, below), kind in zip(axes.T, small, strict=True):
    figures.error_rates(above, small[kind]).set_title(kind.replace("_", "-"))
    figures.error_rates(below, large[kind])
figures.plt.setp(axes[:, 0], ylabel="error of the mean loss")
figures.shared_legend(fig, axes)
figures.save(fig, "general_rates")

# %% [markdown]
# ```{figure} figures/general_rates.svg
# :name: fig-general-rates
# :alt: Six panels of falling lines; the printed theorem's fall at half the slope of the jackknife's.
# Errors of approximate CV, by Eq. 11. Above: against the number of points. The jackknife and the frozen step fall twice as
# steeply as the printed theorem and as no adjustment. Below: against the number of folds.
# ```
#
# The rate is that of the jackknife. As printed, the theorem's own step has an error of first order, $1/s$, and the proof of
# the rate does not apply to it: see the slopes of the parameters' errors (`theta`). Its error of the mean loss has parts of
# either sign and may vanish on its way, so that its slope over a few sizes says little. Against $t$ with the points fixed the lines are bent.
# With a third or a fifth of the points left out the error's parts of higher order are as large as the leading one. From nine
# folds on the jackknife's falls nearly as the theorem says, and a slope over all numbers of folds mixes the two.

# %% tags=["remove-cell"]
for kind in general_rates.KINDS:
    by_size, by_count = (general_rates.slopes(tables[kind]) for tables in (small, large))
    for rung in ["no_adjustment", *RUNGS]:
        ledger.record(f"zhu.thm.{kind}.points.{rung}", by_size[rung])
        ledger.record(f"zhu.thm.{kind}.theta.{rung}", by_size[f"theta {rung}"])
        ledger.record(f"zhu.thm.{kind}.folds.{rung}", by_count[rung])

# %% [markdown]
# ## Claim: nearly $t$ times faster than $t$-fold CV
# Table 1 of the paper, with every cell measured. `cv` builds and fits a model for every fold from nothing; `acv` is one
# fit and the jackknife; `shared` are exact refits that take their sums over pairs from those of the full fit. For the
# songs (simulated, as the set could not be had) all pairs are too many, $2 \cdot 10^{11}$: their affinity keeps ten near
# neighbours of each, and is taken as given.

# %%
limit = {"msd": 463_715} if paper else {"msd": 1500}
names = ["abalone", "cpusmall", "msd", "svmguide3", "w2a_standin", "a9a"]
sets = {
    name: general.load(name, rng, limit.get(name, None if paper else 500)) for name in names
}
fitted = {
    name: general.model_of(data, rng, gamma_p=0.1, gamma_i=0.1)
    for name, data in sets.items()
}
seconds = {name: general_timing.table1(m, rng) for name, m in fitted.items()}
table1 = pd.concat(seconds, names=["data"])
table1.round(4)

# %% tags=["remove-output"]
fig, axes = figures.subplots(2, 3, figsize=(10, 6))
for ax, name in zip(axes.flat, names, strict=True):
    figures.seconds_by_folds(ax, seconds[name]).set_title(name)
figures.shared_legend(fig, axes)
figures.save(fig, "general_seconds", data=sets["msd"])

# %% [markdown]
# ```{figure} figures/general_seconds.svg
# :name: fig-general-seconds
# :alt: Six panels; one curve rises with the number of folds, one lies flat below it, and one in between.
# Seconds against the number of folds. $t$-fold CV rises in proportion; its approximation is flat. Exact refits that share
# their sums over pairs lie near it: they cost one to three times as much.
# ```

# %% tags=["remove-cell"]
for name, table in seconds.items():
    for t in (5, 10, 20):
        ledger.record(f"zhu.tab1.{name}.ratio.{t}", table.ratio[t], sets[name], table.cv[t])
    ledger.record(f"zhu.tab1.{name}.flat", table.acv[20] / table.acv[5], sets[name])
    ledger.record(f"zhu.tab1.{name}.acv", table.acv[20], sets[name])
ledger.record("zhu.tab1.gap", float(table1.gap.max()), sets["msd"])
ledger.record("zhu.tab1.memory", general_timing.peak_gigabytes(), sets["msd"])

# %% [markdown]
# ## Claim: the same hyperparameters
# Table 2: $\gamma_P$ and $\gamma_I$ from a grid, by 20-fold CV and by its approximations. `regret` is by how much the exact criterion of
# a choice exceeds its least value.

# %%
gammas = general_choice.GAMMAS if paper else (1e-2, 1.0)
grids = {name: general_choice.grid(m, rng, gammas) for name, m in fitted.items()}
table2 = pd.concat(
    {name: general_choice.chosen(g) for name, g in grids.items()}, names=["data"]
)
table2.unstack("criterion")[["gamma_p", "gamma_i"]].T.swaplevel().sort_index()

# %%
table2.regret.unstack().drop(columns="exact").map("{:.2%}".format)

# %% tags=["remove-output"]
fig, axes = figures.subplots(2, 3, figsize=(10, 6))
for ax, name in zip(axes.flat, names, strict=True):
    figures.criteria(ax, grids[name]).set_title(name)
figures.plt.setp(axes[:, 0], ylabel="criterion")
figures.shared_legend(fig, axes)
figures.save(fig, "general_choice", data=sets["msd"])

# %% [markdown]
# ```{figure} figures/general_choice.svg
# :name: fig-general-choice
# :alt: Six panels of marks near the diagonal; the grey ones fall below it at the lower left.
# The criterion of every pair of hyperparameters against exact CV. A choice is the lowest mark. No adjustment falls
# short where the fit is close, which is where choices are made. With few labels for many parameters, and hardly a
# penalty, no linear step follows the exact refit.
# ```

# %% tags=["remove-cell"]
for name in names:
    rows, data = table2.loc[name], sets[name]
    for rung in ["no_adjustment", *RUNGS]:
        ledger.record(f"zhu.tab2.{name}.{rung}", bool(rows.same[rung]), data)
    ledger.record(f"zhu.tab2.{name}.regret", rows.regret["infinitesimal_jackknife"], data)
    ledger.record(f"zhu.tab2.{name}.gamma_p", rows.gamma_p["exact"], data)
    ledger.record(f"zhu.tab2.{name}.gamma_i", rows.gamma_i["exact"], data)

# %% [markdown]
# ## Claim: it works for a network that is far from converged
# Figure 3. Its left panel, by its caption, is semi-supervised regression; here on *abalone*.

# %%
shells = sets["abalone"]
model = fitted["abalone"]
results = general.every_rung(model, rng)
left = general.agreement(model, results)
left.drop(columns="seconds").round(5)

# %% [markdown]
# The right one is a Siamese network, two convolutions and a linear layer, on the AT&T faces: the contrastive loss of all
# pairs of images, Adam from random weights, and an early stop. Two people are left out. The network that never saw them is
# trained anew, from the same weights and for as many steps. The prediction solves with $H + \lambda I$. How large $\lambda$ is, how
# deep the network, and how long it was trained, the paper does not say; ours are in the cell.

# %%
faces = datasets.load_or_simulate("att_faces", rng)
faces = faces if paper else faces.take(np.arange(0, 60, 2))
network = siamese.network(faces, gamma_i=1e-4)
training = Adam(steps=100 if paper else 30, learning_rate=3e-3)
folds = acv.folds.by_class(faces.person, 2, rng)
losses, moves = siamese.one_split(network, training, seed, folds[0])
pd.Series(siamese.agreement(losses, moves)).to_frame("first split").T.round(3)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 3, figsize=(11, 3.8))
figures.both_panels(axes[:2], results, RUNGS[:2])
axes[0].legend(markerscale=3)
figures.pair_differences(axes[2], losses, RUNGS).legend(markerscale=3)
figures.save(fig, "general_faces", data=faces)

# %% [markdown]
# ```{figure} figures/general_faces.svg
# :name: fig-general-faces
# :alt: Two panels of marks along the diagonal; in the third they rise, but far less steeply than the diagonal.
# Left and middle: LapRLS on abalone. Right: the Siamese network, one mark a pair of images of the two people left out. The
# sign and the order are predicted, the size is not: it hangs on $\lambda$, and on how far away the retrained network is.
# ```
#
# One split proves little. Here are several, each with several seeds.

# %%
splits, seeds = (5, (1, 2, 3)) if paper else (2, (1,))
spread = siamese.over_splits(network, training, seeds, splits, rng)
spread.filter(like="r_").describe().loc[["min", "50%", "max"]].T.round(3)

# %% [markdown]
# The step is as long as $\lambda$ lets it be. Above, $H + \lambda I$ has a smallest eigenvalue of 0.1 times the largest of $H$. Here is the
# first split with other shares: `size` is the slope of the jackknife's differences on the actual ones.

# %%
damped = siamese.by_damping(network, training, seed, folds[0], (0.3, 0.1, 0.05))
damped.round(3)

# %% tags=["remove-cell"]
for share, row in damped.iterrows():
    ledger.record(
        f"zhu.fig3.faces.size.{share}", row["size.infinitesimal_jackknife"], faces
    )
for rung in ["no_adjustment", *RUNGS]:
    ledger.record(f"zhu.fig3.left.{rung}", left.r_loss[rung], shells)
    ledger.record(f"zhu.fig3.faces.loss.{rung}", spread[f"r_loss.{rung}"].median(), faces)
    ledger.record(f"zhu.fig3.faces.theta.{rung}", spread[f"theta.{rung}"].median(), faces)
    if rung != "no_adjustment":
        difference = spread[f"r_difference.{rung}"]
        ledger.record(f"zhu.fig3.right.{rung}", difference.median(), faces)
        ledger.record(f"zhu.fig3.right.least.{rung}", difference.min(), faces)

# %% [markdown]
# The paper solves by LiSSA {cite:p}`agarwal2017`, a recursion on sampled Hessians. Conjugate gradients need no step size and no sample. Below,
# the recursion with ever larger samples of images, against conjugate gradients: `distance` is relative.

# %%
network_fit = siamese.fitted(network, training, seed)
samples, depth = ((40, 100, None), 400) if paper else ((10, None), 40)
lissa = siamese.solvers(network, network_fit, folds[0], samples, rng, depth)
lissa

# %% tags=["remove-cell"]
ledger.record("zhu.lissa.full", float(lissa.distance.iloc[-1]), faces)
ledger.record("zhu.lissa.sampled", float(lissa.distance.iloc[0]), faces)

# %% [markdown]
# Tables 1 and 2 for the faces: folds of whole people, the network trained again for each of them.

# %%
seconds_faces = siamese.seconds(
    network, training, seed, rng, (5, 10, 20) if paper else (2, 4)
)
seconds_faces.round(3)

# %%
choices = siamese.choices(network, training, seed, folds, gammas)
choices.round(4)

# %% tags=["remove-cell"]
first, *_, last = seconds_faces.index
ledger.record(
    "zhu.tab1.faces.ratio", seconds_faces.ratio[last] / last, faces, seconds_faces.cv[last]
)
ledger.record(
    "zhu.tab1.faces.flat", seconds_faces.acv[last] / seconds_faces.acv[first], faces
)
ledger.record("zhu.tab2.faces.gamma_i", float(choices.exact.idxmin()), faces)
for rung in ["no_adjustment", *RUNGS]:
    ledger.record(
        f"zhu.tab2.faces.{rung}",
        bool(choices[rung].idxmin() == choices.exact.idxmin()),
        faces,
    )

# %% [markdown]
# ## What to take away
# - Differentiate the normalisers. It costs nothing, and turns an error of first order into one of second.
# - A plot of losses against losses shows nothing here: no adjustment passes it. Plot what leaving out adds, and report
#   the error of the parameters.
# - Where features are few, exact refits that share their sums over pairs cost little more than the approximation.
# - For a network that has not converged, the order of the changes can be predicted, and their size cannot.
