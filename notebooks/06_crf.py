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
# # A neural CRF, stopped before its optimum
#
# Neural networks are rarely trained to an optimum, and every formula so far was derived at one. {cite:t}`ghosh2020`
# ask what happens when the infinitesimal jackknife (IJ) starts from a parameter $\theta^{(s)}$ that training has merely
# reached by epoch $s$. Their test bed is named-entity recognition. A bidirectional LSTM reads a sentence $x$ of $T$ words
# and gives every word $t$ a score for each of $K = 9$ tags. A *conditional random field* (CRF) makes of them
#
# $$ \log p(z \mid x; \theta) = a_{z_1} + \sum_{t=1}^{T} \mathrm{score}_t(z_t) + \sum_{t=1}^{T-1} A_{z_t z_{t+1}} + b_{z_T} - \log Z(x; \theta). $$ (eq-crf)
#
# The network is trained once and then kept as it is. What is cross-validated is the CRF layer,
# $\theta = (a, A, b)$: $9 + 81 + 9 = 99$ parameters. A fold leaves out one sentence.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %%
import numpy as np
import pandas as pd
from acvbook import datasets, figures, ledger, neural
from acvbook.studies import crf_epochs, entities, hidden_labels, inexact

import acvlib as acv

paper = scale == "paper"
rng = np.random.default_rng(seed)
names = {"conll": "CoNLL-2003", "wnut": "WNUT-17"}

# %% tags=["remove-cell"]
ledger.begin("06_crf", scale, seed)

# %% [markdown]
# ## Data
# CoNLL-2003 is newswire, the paper's own set. Its text is not open, so nothing of it is shown here, only numbers.
# WNUT-17 (CC BY 4.0, {cite:t}`derczynski2017`) is user-generated text, four times smaller and much harder. We merge
# its six types into CoNLL's four, so that both have nine tags and $D = 99$. As in the paper, lines that only mark the start
# of a document count as sentences. Where a set is not on this machine a stand-in of made-up words takes its place, and
# says **simulated**.

# %%
texts = {
    "conll": datasets.load_or_simulate("conll2003", rng),
    "wnut": datasets.load_or_simulate("wnut17", rng),
}
if not paper:
    texts = {name: text.head(600, 200, 200) for name, text in texts.items()}
texts

# %% [markdown]
# ## The network
# Appendix L.2 of the paper: characters through a convolution with 30 filters, two bidirectional LSTM layers of 50,
# variational dropout of 0.25, Adam, batches of 31 sentences, early stopping on the validation loss. The paper starts from
# GloVe vectors; we learn 100-dimensional word embeddings from scratch instead, so that nothing has to be downloaded. With a
# file of vectors, pass `neural.read_word_vectors(path)` as `vectors`. Training writes a checkpoint after every epoch
# and goes on from it when interrupted; the scores it ends with are kept, and the rest of this chapter starts from them.
# At quick scale the network is a tiny one.

# %%
small = neural.Sizes(word=32, character=16, filters=16, hidden=32, layers=1)
training = (
    neural.Training()
    if paper
    else neural.Training(sizes=small, epochs=6, learning_rate=0.01)
)
emissions = {name: neural.encoded(text, training) for name, text in texts.items()}

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 3.4))
for ax, name in zip(axes, names):
    figures.training_losses(ax, emissions[name].history).set_title(names[name])
axes[0].legend()
figures.save(fig, "crf_training", texts["conll"])

# %% [markdown]
# ```{figure} figures/crf_training.svg
# :name: fig-crf-training
# :alt: Two panels; the training loss falls steadily, the validation loss flattens and turns up; a ring marks its minimum.
# Losses of the whole network by epoch. Look for the gap: validation turns where training still falls, and the ring marks the
# epoch that is kept.
# ```
#
# Entities on the test set, counted by `seqeval`: one is found when its type and both its ends are right.

# %%
models = {
    name: acv.models.LinearChainCRF(e.scores["train"], e.tags["train"])
    for name, e in emissions.items()
}
found = {}
for name, e in emissions.items():
    predicted = models[name].predict(e.crf, e.scores["test"])
    found[names[name]] = entities.entity_scores(e.tags["test"], predicted, texts[name].tags)
pd.concat(found).round(3)

# %% tags=["remove-cell"]
for name in names:
    ledger.record(f"ghosh.fig2.{name}.f1", found[names[name]].F1["micro avg"], texts[name])

# %% [markdown]
# {cite:t}`mahovy2016` report an F1 of 0.808 on CoNLL-2003 for a network of this kind with random initial embeddings, and
# 0.912 with GloVe. The paper does not report its own.
#
# What the CRF says about a sentence, here the shortest one of WNUT-17's validation set with at least two entities:

# %%
valid, e = texts["wnut"].valid, emissions["wnut"]
n = entities.example(valid, 2)
marginals = models["wnut"].marginals(e.crf, [e.scores["valid"][n]])[0]
predicted = models["wnut"].predict(e.crf, [e.scores["valid"][n]])[0]
labels, tags = e.tags["valid"][n], texts["wnut"].tags
entities.sentence_table(valid.words[n], tags, labels, predicted, marginals).round(3)

# %% [markdown]
# ## The layer alone
# With the scores fixed, $-\log p(z \mid x; \theta)$ is convex in $\theta$. It has no minimum without help: adding a constant
# to all transitions changes nothing, and a transition that never occurs wants $-\infty$. The paper adds $10^{-5}$ to the
# diagonal of the Hessian. We read that as a ridge in the objective,
#
# $$ F(\theta, w) = \sum_n w_n \bigl[-\log p(z_n \mid x_n; \theta)\bigr] + \tfrac12 10^{-5} \lVert\theta\rVert^2, $$ (eq-crf-objective)
#
# so that there is one optimum to be exact about. Starting from the network's own layer, 60 epochs of Adam, all iterates
# kept; and at epochs 1, 5, 20 and 60, every rung for the same sentences, drawn at random.

# %%
epochs, n_folds = (1, 5, 20, 60), 500 if paper else 50
studies = {
    name: crf_epochs.layer_study(emissions[name], n_folds, epochs, rng) for name in names
}
{name: round(study.seconds, 1) for name, study in studies.items()}

# %%
crf_epochs.progress(studies["conll"]).round(4)

# %% [markdown]
# Distances are in *standard errors*: $\sqrt{(\theta^{(s)} - \hat\theta)^\top H (\theta^{(s)} - \hat\theta)}$, with $H$ the
# Hessian at the optimum $\hat\theta$. A sentence moves the optimum by a tiny part of one standard error, the typical fold by
# less than a thousandth. Training, after 60 epochs, is still farther away than that.
#
# ## Figure 2: held-out probabilities
# **The paper's claim.** At each epoch the points $p(z_n \mid x_n)$ lie close to the diagonal, exact CV against IJ.
# *Exact* here is what the paper's Equation 6 says: the optimum without sentence $n$, reached from $\theta^{(s)}$ and
# converged to a Newton decrement of $10^{-6}$. As the objective is convex, it is the same from every epoch, and the
# ledger checks that.

# %% tags=["remove-output"]
fig, axes = figures.subplots(2, 4, figsize=(10, 5.4), sharex=True, sharey=True)
for row, (name, study) in zip(axes, studies.items()):
    for ax, (epoch, (_, results)) in zip(row, study.ladders.items()):
        rung = results["infinitesimal_jackknife"]
        figures.probabilities(ax, study.reference, rung).set_title(f"epoch {epoch}")
    row[0].set_ylabel(f"{names[name]}\nIJ")
fig.supxlabel("exact CV, probability of the left-out sentence's labels")
figures.save(fig, "crf_scatter", texts["conll"])

# %% [markdown]
# ```{figure} figures/crf_scatter.svg
# :name: fig-crf-scatter
# :alt: Eight scatter plots near the diagonal; the first epoch's points scatter most, the last epoch's lie on the line.
# Figure 2 of the paper, with WNUT-17 below. One point a left-out sentence. Look at how far the points of epoch 1 stray, and
# how the cloud closes on the diagonal as training goes on.
# ```

# %%
columns = ["correlation", "mean_error", "max_error", "theta_error"]
rungs = ["no_adjustment", "infinitesimal_jackknife", "frozen_newton"]
table = pd.concat({names[n]: s.table[columns] for n, s in studies.items()})
table[table.index.get_level_values("rung").isin(rungs)].round(4)

# %% [markdown]
# Read the table by rung. `no_adjustment` does not leave anything out: it scores the sentence by $\theta^{(s)}$ itself. Its
# points lie as near the diagonal as the IJ's, until the last epochs. What the scatter shows early on is the distance of
# $\theta^{(s)}$ from the optimum, and the IJ does nothing about that. It adds $-H^{-1} J (w_o - 1)$, a step
# that belongs to the fold, and keeps the rest of the error.
#
# The frozen step, $\theta^{(s)} - H^{-1} \nabla F(\theta^{(s)}, w_o)$, has the same price and takes the *whole* gradient, so it
# also makes the step that training has not made yet. That is a Newton step without a safeguard. Near the optimum
# it beats everything; far away it can overshoot, most of all along transitions that hardly ever occur, where
# the Hessian is nearly the ridge alone. One gradient of the fold's objective tells:

# %%
flags = {
    epoch: {
        name: acv.check_result(study.model, results[name]).unreliable.mean()
        for name in rungs
    }
    for study in [studies["conll"]]
    for epoch, (_, results) in study.ladders.items()
}
pd.DataFrame(flags).T.rename_axis("epoch").round(3)

# %% [markdown]
# Shares of folds that `acv.check_result` calls unreliable, without any refit: the gradient that is left there is worth more
# than half a standard error, or the loss would still change by more than half a standard deviation.
#
# To see what the IJ is for, take away what all rungs share. At the optimum itself:

# %%
study = studies["conll"]
here, at_optimum = crf_epochs.at_iterate(
    study.model, study.full.params, study.folds, crf_epochs.ALL_RUNGS
)
optimum_table = crf_epochs.errors(here, at_optimum, study.reference, study.full)
optimum_table[columns].round(6)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 3.8))
late = study.ladders[60][1]
for ax, at, title in zip(axes, (late, at_optimum), ("epoch 60", "optimum")):
    others = [at[name] for name in rungs[1:]]
    figures.differences(ax, study.reference, at["no_adjustment"], *others)
    ax.set_title(title)
axes[0].legend()
figures.save(fig, "crf_differences", texts["conll"])

# %% [markdown]
# ```{figure} figures/crf_differences.svg
# :name: fig-crf-differences
# :alt: Two panels of loss differences; at epoch 60 points stray from the diagonal, at the optimum they lie along it.
# How far each rung moves a sentence's loss from the baseline, against how far exact CV does (CoNLL-2003). Left, at epoch 60:
# moves are blurred by the part of the way that training still owes, the jackknife's most. Right, at the optimum: both follow
# the line until the largest moves, where they, being linear, move too little.
# ```

# %% tags=["remove-cell"]
for name, study in studies.items():
    text = texts[name]
    for epoch in epochs:
        value = study.table.correlation[epoch, "infinitesimal_jackknife"]
        ledger.record(f"ghosh.fig2.{name}.epoch{epoch}", value, text)
    ledger.record(f"ghosh.fig2.{name}.unconverged", study.unconverged, text)

# %% tags=["remove-cell"]
study, conll, fig2 = studies["conll"], texts["conll"], "ghosh.fig2.conll"
last, theta = study.table.correlation[60], optimum_table.theta_error
ledger.record(f"{fig2}.folds", len(study.folds), conll)
ledger.record(f"{fig2}.disagreement", study.disagreement, conll)
ledger.record(f"{fig2}.epoch60.none", last["no_adjustment"], conll)
ledger.record(f"{fig2}.epoch60.frozen", last["frozen_newton"], conll)
ledger.record(f"{fig2}.optimum.theta_none", theta["no_adjustment"], conll)
share = theta["infinitesimal_jackknife"] / theta["no_adjustment"]
ledger.record(f"{fig2}.optimum.theta_ij", share, conll)
ledger.record("ghosh.fig2.seconds", study.seconds, conll, seconds=study.seconds)
cost = crf_epochs.hessian_in_gradients(study.model, study.full.params)
ledger.record("ghosh.fig2.hessian_in_gradients", cost, conll)

# %% [markdown]
# ### Does it hang on the ridge?
# The paper's $10^{-5}$ could also belong to the *mean* loss, which is what training code usually minimises. Then it is
# $N \cdot 10^{-5}$ on the sum, the never-seen transitions are held closer to zero, and training has less far to go:

# %%
n_sentences = len(conll.train.words)
other = crf_epochs.layer_study(
    emissions["conll"], n_folds, (1, 60), rng, 1e-5 * n_sentences
)
other.table[columns].drop("exact", level="rung").round(4)

# %% tags=["remove-cell"]
for epoch in (1, 60):
    value = other.table.correlation[epoch, "infinitesimal_jackknife"]
    ledger.record(f"ghosh.fig2.conll.mean_ridge.epoch{epoch}", value, conll)

# %% [markdown]
# ## Figure 5: error against training time and gradient norm
# **The paper's claim.** The mean absolute error of the held-out probabilities decays as training goes on, and gradually so.
# Every few epochs, the same folds:

# %%
every = (
    range(61) if paper else (0, 1, 2, 3, 4, 5, 8, 12, 16, 20, 25, 30, 36, 42, 48, 54, 60)
)
paths = {
    name: crf_epochs.error_path(s.model, s.iterates, every, s.folds, s.reference, s.full)
    for name, s in studies.items()
}

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 3.8), sharey=True)
xlabels = "seconds of training", "gradient norm"
for ax, x, xlabel in zip(axes, (study.iterate_seconds, "grad_norm"), xlabels):
    figures.error_against(ax, paths["conll"], x, "mean_error", xlabel, "mean |error| of p")
axes[0].set_xscale("linear")
axes[1].set_ylabel("")
axes[1].legend()
figures.save(fig, "crf_errors", texts["conll"])

# %% [markdown]
# ```{figure} figures/crf_errors.svg
# :name: fig-crf-errors
# :alt: Two panels with three curves each; jackknife and baseline fall together, the frozen step lies apart.
# Figure 5 of the paper, CoNLL-2003: mean absolute error of $p(z_n \mid x_n)$ over folds, against the time that the optimiser
# took and against $\lVert\nabla F(\theta^{(s)})\rVert$. Look at how long the jackknife runs along the baseline: it
# separates once $\theta^{(s)}$ is nearer to the optimum than a sentence's influence is.
# ```

# %%
decays = {
    names[name]: {rung: crf_epochs.decay(path, rung)[0] for rung in rungs}
    for name, path in paths.items()
}
pd.DataFrame(decays).T.round(2)

# %% tags=["remove-cell"]
for name, path in paths.items():
    slope, rank = crf_epochs.decay(path)
    ledger.record(f"ghosh.fig5.{name}.slope", slope, texts[name])
    ledger.record(f"ghosh.fig5.{name}.rank_correlation", rank, texts[name])
slope_none, _ = crf_epochs.decay(paths["conll"], "no_adjustment")
ledger.record("ghosh.fig5.conll.slope_none", slope_none, conll)

# %% [markdown]
# On a path far from the optimum the error need not fall all the time. The single sentences' errors differ in sign, some grow
# while training passes them by, and the mean of few sentences can rise for a while before it falls.
#
# These are slopes of log error on log gradient norm. Proposition 2 bounds the error by a constant times the *distance* to
# the optimum, and where curvature is even the distance is proportional to the gradient: slope 1. Here curvatures
# differ by many orders of magnitude.
#
# ## Proposition 2, with its constants
# **The claim.** For the mean loss over folds, $|L_{\mathrm{IJ}}(\theta^{(s)}) - L_{\mathrm{CV}}| \le C\,
# \lVert\theta^{(s)} - \hat\theta\rVert + \varepsilon_{\mathrm{IJ}}$, where $\varepsilon_{\mathrm{IJ}}$ is the IJ's error at
# the optimum and
#
# $$ C = L_p + \frac{L_p L_g}{\lambda_{\min}} + L_p L_{H^{-1}} \frac{1}{|O|} \sum_{o} \lVert g_o(\hat\theta) \rVert. $$ (eq-crf-prop2)
#
# $L_p$, $L_g$ and $L_{H^{-1}}$ are Lipschitz constants of the folds' losses, of the columns $g$ of $J$ and of the inverse
# Hessian; $\lambda_{\min}$ is the least curvature. We take the smallest constants that the proof can live with, those on the
# way from $\hat\theta$ to $\theta^{(s)}$. (For a fold of several sites $L_g$ must be that of their sum; as printed, a
# factor $|o|$ is missing.) The statement holds in any linear coordinates, so we give it in two: the parameters as
# they are, and standard errors. The traffic model of the first chapter goes the same way with L-BFGS.

# %%
bounds = {
    "conll": inexact.proposition2(
        study.model,
        study.full,
        dict(zip(epochs, study.iterates[list(epochs)])),
        study.folds,
        study.reference,
        crf_epochs.own_slopes(study.model, study.folds),
    )
}
bounds["conll"][["error", "bound", "bound_se", "lambda_min", "lambda_min_se"]]

# %%
data = datasets.load_or_simulate("dodgers", rng).head(10_000 if paper else 5000)
traffic = acv.models.PoissonTraffic(data.counts, data.day)
optimum = acv.fit(traffic)
blocks = acv.folds.contiguous(traffic.n_sites, 2, 10, rng, observed=traffic.observed)
reference = acv.exact(traffic, optimum, blocks)
steps = inexact.convex_iterates(traffic, acv.fit_path(traffic), 8)
bounds["traffic"] = inexact.proposition2(traffic, optimum, steps, blocks, reference)
bounds["traffic"][["error", "bound", "bound_se", "lambda_min", "lambda_min_se"]]

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 3.8))
for ax, name in zip(axes, bounds):
    figures.bound_along(ax, bounds[name]).set_title(names.get(name, "traffic"))
axes[0].legend()
figures.save(fig, "crf_bound", texts["conll"])

# %% [markdown]
# ```{figure} figures/crf_bound.svg
# :name: fig-crf-bound
# :alt: Two panels; the error lies below both bounds, by several orders of magnitude; the bound in standard errors is the lower one.
# Proposition 2 at iterates of the optimiser: the error of the mean held-out loss, and its bound in two coordinate systems.
# Look at the distance between error and bounds, and at which bound is the lower.
# ```
#
# The bound holds, and in the parameters' own coordinates it says nothing: $\lambda_{\min}$ is the ridge. In standard errors it
# says more. As a description of how the error falls with the distance it is right; as a number it is not of use.

# %% tags=["remove-cell"]
for name, at in (("conll", conll), ("traffic", data)):
    for part, value in inexact.summary(bounds[name]).items():
        ledger.record(f"ghosh.prop2.{name}.{part}", value, at)

# %% [markdown]
# ## Algorithm 4: leaving out labels within sentences
# The paper derives CV within the sequences of a CRF and does not run it. A fold hides the *labels* of some words; the words
# stay. A hidden label is summed out, a known one is clamped, and a weight $w_t$ between 0 and 1 goes smoothly from one to
# the other (scheme C, Equation 13): label $k$ at word $t$ gets the factor 1 if it is the true one and $1 - w_t$ if
# not. At weights of 0 and 1 that is the likelihood of partially labelled data; here against enumeration of all label
# sequences, on short sentences with random labels hidden:

# %%
tokens, token_fit = hidden_labels.within(study.model, study.full)
gap = hidden_labels.enumeration_gap(tokens, token_fit.params, rng)
ledger.record("ghosh.alg4.enumeration", gap, conll)
f"largest difference {gap:.1e}"

# %% [markdown]
# The objective is not linear in $w$ now, so the IJ and the frozen step part ways. For a single word one can see
# how. With $p = p(z_t \mid x, \text{all other labels})$, working out Equation 13 gives at the optimum
#
# $$ \text{IJ step} = \frac{1}{p}\; \text{frozen step}. $$ (eq-crf-one-label)
#
# The derivative of $F$ in $w_t$ at 1 is the *odds* against the label, $(1 - p)/p$, while hiding it altogether costs $-\log p$.
# For the easy words the two agree. For a label that the model finds surprising the IJ overshoots by
# the factor $1/p$: exactly for the words that matter.

# %%
singles, hidden = {}, {}
for name, s in studies.items():
    within = hidden_labels.within(s.model, s.full)
    drawn = rng.choice(within[0].n_sites, n_folds, replace=False)
    singles[name] = hidden_labels.ladder(*within, np.sort(drawn)[:, None])
    hidden[names[name], "all"] = hidden_labels.summary(singles[name])
    worst = hidden_labels.hardest(singles[name])
    hidden[names[name], "hardest tenth"] = hidden_labels.summary(singles[name], worst)
pd.concat(hidden).map("{:.2g}".format)

# %% tags=["remove-output"]
fig, axes = figures.subplots(1, 2, figsize=(9, 3.8))
for ax, name in zip(axes, names):
    errors = hidden_labels.table(singles[name])
    figures.hidden_label_errors(ax, errors, rungs).set_title(names[name])
axes[0].legend()
figures.save(fig, "crf_hidden", texts["conll"])

# %% [markdown]
# ```{figure} figures/crf_hidden.svg
# :name: fig-crf-hidden
# :alt: Two scatter plots; on the right of each, where labels are surprising, the jackknife's errors rise above the baseline's.
# One label a fold: the error of each rung's parameters against the label's exact held-out loss. Look to the right, at
# surprising labels: the jackknife crosses the baseline and ends far above it, the frozen step stays far below.
# ```
#
# Hiding a tenth of all labels at once, in ten random folds:

# %%
tenth = hidden_labels.ladder(tokens, token_fit, acv.folds.iid(tokens.n_sites, 10, 10, rng))
tenth_table = hidden_labels.summary(tenth)
hidden_labels.table(tenth).round(3)

# %% [markdown]
# A row is a fold: its exact loss, how far the refit moves, and how far each rung's parameters stay from the refit's, in
# standard errors. Look for rows that move by several: the labels hidden there were all that kept some transition from
# becoming impossible, or certain. The fold's Hessian at $\hat\theta$ is then indefinite, no single step follows the refit,
# and the frozen step is hardly better than nothing. In the other rows it takes most of the error away. The jackknife
# is worse than nothing in most.

# %% tags=["remove-cell"]
over_none = hidden_labels.over_none
for name, text in texts.items():
    stuck = (~singles[name]["exact"].diagnostics["converged"]).sum()
    if name == "conll":
        stuck = stuck + (~tenth["exact"].diagnostics["converged"]).sum()
    ledger.record(f"ghosh.alg4.{name}.unconverged", int(stuck), text)
    for rung, value in over_none(hidden[names[name], "all"]).items():
        ledger.record(f"ghosh.alg4.{name}.{rung}_over_none", value, text)
for part, at in (
    ("worst", hidden["CoNLL-2003", "hardest tenth"]),
    ("percent10", tenth_table),
):
    for rung, value in over_none(at).items():
        ledger.record(f"ghosh.alg4.conll.{part}.{rung}_over_none", value, conll)

# %% [markdown]
# ## What to take away
# - Stopping early costs more than leaving out a sentence. A scatter of held-out probabilities near the diagonal is no evidence
#   that the jackknife works: the baseline's lies there too. Compare it with doing nothing.
# - For a convex layer on frozen scores there is no need to stop early. The optimum, and hundreds of exact refits, take
#   seconds to minutes.
# - If you must start from an inexact optimum, let the frozen step make up for it, and check the result.
# - To hide labels within sentences, use the frozen step. The jackknife fails where labels are surprising.
