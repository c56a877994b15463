# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Leave the future out, at every origin
#
# A forecast is judged by what comes next. So the honest score of a model of a series is $\log p(x_t \mid x_1 \dots x_{t-1})$ with
# parameters $\theta_t$ fitted to the past of $t$ alone, for every origin $t$. That is one refit an origin. In practice the model is
# refitted once a week, or a sampler's draws are reweighted until their weights degrade {cite:p}`burkner2020`. Must it be so?
#
# ## The idea
# The gradient of every prefix, $\nabla \log p(x_1 \dots x_t; \theta)$ for all $t$, comes out of *one* forward pass: the filter carries along,
# for each state, the expected score of all that it has seen. Refit at a few origins only. Between refits at $a$ and $b$, one Newton step from
# either side gives $\theta_t$; the Hessian is interpolated, and so is what the two steps say. They agree where both are right. Where they do
# not, the next refit goes. Scores are expanded in the same way, so that no origin needs a pass of its own.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
import warnings

import numpy as np
from acvbook import datasets, figures, ledger
from acvbook.studies import future, records

import acvlib as acv

ledger.begin("12_future", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% [markdown]
# ## Five-minute counts
# The series of the [traffic chapter](01_traffic.ipynb), all observed counts after four weeks. (Quick scale has five weeks in all.)

# %%
data = datasets.load_or_simulate("dodgers", rng)
series = future.traffic(data if paper else data.head(10_000))
model, fit, starts = series
with warnings.catch_warnings(action="ignore"):
    scores = acv.leave_future_out(fit, starts, anchors=16)
unsure = np.mean(scores.errors > 0.5)
print(f"{len(starts):,} origins, {scores.evaluations['refit']} refits", end="; ")
print(f"{unsure:.0%} may be off by half a standard error")

# %% [markdown]
# Was it right? Refit a random sample of the origins for real, and compare. *nothing*: the full fit, which has
# seen the future. *weekly*: each week is scored with a refit at its first origin.

# %%
n_sampled = 400 if paper else 60
rows = np.sort(rng.choice(len(starts), n_sampled, replace=False))
exact = future.refitted(series, rows)
schemes = {
    "nothing": future.doing_nothing(series),
    "weekly": future.one_refit_a_week(series),
    "2 refits": future.in_one_pass(series, 2),
    "ours": future.in_one_pass(series, 16),
}
errors = future.errors(series, schemes, rows, exact)
table = future.summary(errors, schemes, exact)

# %% [markdown]
# *loss*: median error of a score, in nats; *params*: median distance from the refit, in standard errors of the full fit; *in SE*: error of
# the mean score, in standard errors of that of all origins, as if scores were independent; *ahead*: how many times the seconds of refits (by the sampled ones).

# %%
table.round(5)

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(7.5, 4.6))
figures.errors_by_price(ax, table, exact.seconds)
figures.save(fig, "future", data)

# %% [markdown]
# ```{figure} figures/future.svg
# :name: fig-future
# :alt: Four marks over logarithmic axes: leave_future_out lowest, no adjustment highest and leftmost, a refit at each origin a dotted line far right.
# Median errors against wall-clock seconds. Low and left is good; the dotted line is the price of a refit at every origin.
# {verdict}`beyond.lfo.traffic.error` {verdict}`beyond.lfo.traffic.share`
# ```

# %% tags=["remove-cell"]
drawn = future.by_draw(errors, exact, 20 if paper else 3, rng)
records.record_future("beyond.lfo.traffic", drawn, data)
ratio = drawn["loss"].ours / drawn["loss"].weekly
ledger.record_draws("beyond.lfo.traffic.weekly", ratio, data)
ours, idle = table.in_se[["ours", "nothing"]]
ledger.record("beyond.lfo.traffic.in_se", ours, data, baseline=idle)
ledger.record("beyond.lfo.traffic.speed", table.ahead["ours"], data)

# %% [markdown]
# The median error of a score is {value}`beyond.lfo.traffic.error | .2g` of the spread of the scores. That alone would prove little: doing
# nothing errs by {value}`beyond.lfo.traffic.error baseline | .2g`. Of that error {value}`beyond.lfo.traffic.share | .1%` remain, and the
# parameters are {value}`beyond.lfo.traffic.theta | .2f` standard errors from the refit's, where the full fit's are
# {value}`beyond.lfo.traffic.theta baseline | .1f`. The mean score is {value}`beyond.lfo.traffic.in_se | .2g` of its own standard errors off; of
# doing nothing, whose errors nearly cancel, {value}`beyond.lfo.traffic.in_se baseline | .2f`. The error is {value}`beyond.lfo.traffic.weekly | .1%` of that with one refit a
# week, at a price of the same order. Medians: of how many origins the method itself is unsure, the first output says. Refitting each
# origin takes {value}`beyond.lfo.traffic.speed | .0f` times as long. What the method costs beside its refits, [benchmarks](benchmarks.md) say.

# %% [markdown]
# ## Do this
# - Judge a model of a series by `acv.leave_future_out(fit, starts)`: all origins for the price of a few refits.
# - Heed `UnreliableOrigins`: raise `anchors` until it is silent, or look at `errors` and at the origins they belong to.
# - Check a dozen origins yourself: `acv.exact(fit, scores.folds(rows))`.
# - Scores of one step ahead need no joint score beside them: each is given all that came before, and so are its parameters, so that
#   their sum is the joint log density of the stretch. Steps further ahead do not add up: score them jointly {cite:p}`cooper2023`.
# - Do not score the future with the full fit, and mistrust one refit a week while parameters still move.
# - *Nearest work.* {cite:t}`wood2024` leaves neighbourhoods of points out of penalised regressions, by a Newton step each;
#   [others](https://arxiv.org/abs/2605.30292) leave a window out. In short series folds are biased even where errors are martingale
#   differences {cite:p}`lusompa2025`: one more reason to ask of the future.
