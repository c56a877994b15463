# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Which data decide a conclusion?
#
# A coefficient is positive; a night lasts so long; crime is so high in the bad tracts. How many data points would have to
# go for you to say otherwise, and which? {cite:t}`broderick2020` answer to first order: for a conclusion $\phi(\theta)$ leaving
# out site $n$ adds $\psi_n = \nabla\phi^\top H^{-1} J_n$, and the $k$ largest $\psi$ are the set to fear. They do so for
# regressions. Weights on sites exist for hidden Markov models and for maps just as well. But is the answer to first
# order any good there?

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
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
# {value}`beyond.influence.flipped | .0%` of the {value}`beyond.influence.flipped draws` twins. Each row of a regression
# stands for itself: the prediction is nearly right. {verdict}`beyond.influence.flipped`
#
# ## Hidden states, and a map
# Which five-minute counts decide when day begins? The [traffic model](01_traffic.ipynb) calls night and day its two states. Its
# conclusions: how long night and day go on, how much more traffic the day brings, the rate of a Sunday night. And
# which tracts of the [map](05_mrf.ipynb) decide the low rate, the high rate, and their ratio? Each up and down. Sets are picked
# in one shot, or greedily: refit after each site, then linearise anew.

# %%
traffic = datasets.load_or_simulate("dodgers", rng)
june = datasets.load_or_simulate("philadelphia", rng)
series = traffic if paper else traffic.head(10_000)
settings = [
    *influence.traffic_settings(series, (5, 20, 50) if paper else (5,)),
    *influence.map_settings(june, 0.4, (3, 10) if paper else (3,)),
]
effects = influence.table(settings, 20 if paper else 10, rng)

# %% [markdown]
# All changes in standard errors of the conclusion: *linear* is the sum of the $\psi$, *newton* a Newton step without the
# set, *exact* a refit without it; *random*: sets of the same size, the median.

# %%
effects.round(2)

# %% tags=["remove-cell"]
shares = influence.shares(effects)
baseline = {"greedy": shares.random}
for name in shares.index.drop("random"):
    ledger.record(
        f"beyond.influence.{name}", shares[name], traffic, baseline=baseline.get(name)
    )

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
# :alt: Left, dots far below the diagonal, diamonds at or above triangles. Right, a map in two colours with ten tracts outlined.
# Left: the change that the sum of the $\psi$ predicts, and the change by a refit, one dot a setting. Below the dashed line a set does
# less than predicted. Right: $\psi$ of each tract for the high rate; outlined, the ten that the greedy search takes.
# {verdict}`beyond.influence.greedy`
# ```
#
# With hidden states the prediction misleads. In the series the median setting is off by a factor of
# {value}`beyond.influence.misled_traffic | .1f`, one way or the other: leave out the one count that interrupts a night, and the
# night closes over the gap, so that the $\psi$ of its neighbours are no longer what they were. Greedy sets are off by
# {value}`beyond.influence.misled_traffic_greedy | .1f`, and one-shot sets of the map, where a site has few neighbours, by
# {value}`beyond.influence.misled_map | .2f`. By refits, the greedy set does at least as much as the one-shot set in
# {value}`beyond.influence.greedy | .0%` of the settings (random sets: {value}`beyond.influence.greedy baseline | .0%`); the median
# gain is a factor of {value}`beyond.influence.gain | .2f`.
#
# Which counts are they? The five that decide whether the night goes on. In the whole series (paper scale) two of them are
# zeros between dozens of cars: no night, but a detector that failed for five minutes.

# %%
night = settings[0]
five = acv.most_influential(night.fit, night.phi, 5, "greedy").sites
around = series.counts[np.sort(five)[:, None] + np.arange(-2, 3)]
around = pd.DataFrame(
    around, series.timestamp[np.sort(five)], ["-2", "-1", "count", "+1", "+2"]
)
around.replace(-1, "missing")

# %% [markdown]
# ## Do this
# - Ask `acv.most_influential(fit, phi, k)` before you rely on a conclusion. Read `exact`; `linear` is a search
#   direction, not an answer.
# - With hidden states, or where `linear` and `exact` differ, take `method="greedy"`: $k$ refits.
# - Both are searches: what they find bounds the sensitivity from below. Another set may do more.
# - Look at the sites. A handful of misread counts is a finding about the data; a handful of honest ones is a finding
#   about the conclusion.
