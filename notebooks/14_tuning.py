# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Tune many hyperparameters at once
#
# A ridge for each group of columns, a concentration for each state, the coupling of a map: models have more knobs than a
# grid can turn. Five knobs at three values are {given}`243` cross-validations. So most people turn one knob, or draw at random.
# But the cross-validated loss is a smooth function of the knobs. What does its gradient cost, and what does it buy?
#
# ## The idea
# With refits $\theta_o$ and held-out losses $\ell_o$ of folds $o$,
#
# $$\frac{d\,\mathrm{CV}}{d\alpha} = \sum_o \Big[ \frac{\partial \ell_o}{\partial \alpha}
#   - \nabla_\theta \ell_o^\top H(w_o)^{-1} \frac{\partial^2 F}{\partial\theta\,\partial\alpha} \Big].$$
#
# A knob $\alpha$ acts twice: on the loss itself, and through the refit that it moves. One solve for each fold gives the slope along
# all knobs. Then any optimiser may walk downhill in $\log \alpha$, and each refit goes on from the last one {cite:p}`bengio2000`.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
import numpy as np
from acvbook import datasets, figures, ledger
from acvbook.studies import tuning

ledger.begin("14_tuning", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% [markdown]
# ## Is it right, and what does it cost?
# Three problems. Is a forest cell spruce, by a logistic regression with a ridge for each of five groups of columns? Hourly
# counts of cars, by a hidden Markov model of three states with a concentration for each row and the prior of the rates. Crime
# in Philadelphia, by a map whose neighbours are coupled. *error*: distance of the gradient from differences of fully converged
# cross-validations, over its size. *price*: processor time of loss and gradient, over that of a fit with exact cross-validation.

# %%
cells = datasets.load_or_simulate("covtype", rng)
cars = datasets.load_or_simulate("dodgers", rng)
june = datasets.load_or_simulate("philadelphia", rng)
tracts = tuning.crime(june, 32 if paper else 4, rng)
first = [tuning.forest(cells, 400, rng), tuning.traffic(cars, 14, rng), tracts]
checks = tuning.checks(first, 5 if paper else 1)
checks.map("{:.3g}".format)

# %% tags=["remove-cell"]
ledger.record("beyond.tune.gradient", checks.error.max(), [cells, cars, june])
ledger.record("beyond.tune.price", checks.price.max(), [cells, cars, june])

# %% [markdown]
# The largest error is {value}`beyond.tune.gradient | .0e`, and the dearest gradient makes a cross-validation
# {value}`beyond.tune.price | .2f` times as dear; two at most was our mark, and so near to it few timings decide nothing. {verdict}`beyond.tune.gradient`
#
# ## Five ridges
# Training sets of {given}`400` cells, ten folds each. *start*, which does nothing, has all ridges at one; each search may go a
# thousandfold up or down. *random* may do two cross-validations for each value with gradient, which is near what one costs: its
# price is measured above. *grid* may do as many or, where that is no grid at all, up to twice as many. *one* moves all five
# together, on a fine grid. Test losses are those of {given}`20,000` other cells. Losses in standard errors of the cross-validated
# loss; *loss* and *test* count from tune's.

# %%
n_draws = 20 if paper else 3
sets = [tuning.forest(cells, 400, each) for each in rng.spawn(n_draws)]
most = 30 if paper else 8
forest, tried = tuning.draws(sets, most, rng)
forest.groupby("search", sort=False).median().round(2)

# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6, 3.8))
paid = {name: max(len(f[name].losses) for f, _ in tried) for name in tuning.METHODS}
paid["tune"] *= tuning.EACH
figures.search_progress(ax, tuning.progress(tried, 60), paid)
figures.save(fig, "tuning", cells)

# %% [markdown]
# ```{figure} figures/tuning.svg
# :name: fig-tuning
# :alt: Four falling lines with bands against the price; tune's begins late, passes the others after a few evaluations and ends lowest.
# The least loss that each search has found so far, above the least of all, by price (grids in random order): median and middle half.
# Dotted: the start, which does nothing.
# {verdict}`beyond.tune.forest.random`
# ```

# %% tags=["remove-cell"]
by, id = forest.unstack("search"), "beyond.tune.forest"
ledger.record_table(id, by.loss[["random", "grid", "one"]], cells)
ahead = np.mean(by.loss["random"] > 0.0)
ledger.record(f"{id}.ahead", ahead, cells, draws=n_draws)
by_test = by.test[["one", "random"]]
ledger.record_table(id, by_test, cells, names={"one": "test", "random": "test_random"})
ledger.record_draws(f"{id}.gap", by.gap["tune"], cells, baseline=by.gap["start"])
ledger.record_draws(f"{id}.regret", by.regret["tune"], cells)

# %% [markdown]
# At about equal cost random search stays {value}`beyond.tune.forest.random | .2f` standard errors above tune (in
# {value}`beyond.tune.forest.ahead | .0%` of the sets it is above), a grid {value}`beyond.tune.forest.grid | .2f`, one ridge {value}`beyond.tune.forest.one | .2f`.
#
# ## Does it overfit the folds?
# A loss that was chosen for being low is too low: chance helps to choose, more so of more knobs. So look at data that no fold has.

# %%
days = 14
fortnights = [
    tuning.traffic(cars, days, each) for each in rng.spawn(n_draws if paper else 3)
]
traffic, _ = tuning.draws(fortnights, most if paper else 4, rng)
traffic.groupby("search", sort=False).median().round(2)

# %% tags=["remove-cell"]
by = traffic.unstack("search")
ledger.record_draws("beyond.tune.traffic.random", by.loss["random"], cars)
ahead = np.mean(by.loss["random"] > 0.0)
ledger.record("beyond.tune.traffic.ahead", ahead, cars, draws=len(fortnights))
ledger.record_draws("beyond.tune.traffic.test", by.test["start"], cars)
ledger.record_draws("beyond.tune.traffic.test_random", by.test["random"], cars)

# %% [markdown]
# {verdict}`beyond.tune.forest.test` *Forest*: on new cells the loss of one common ridge is {value}`beyond.tune.forest.test | .2f`
# standard errors above that of tune's five, that of random search {value}`beyond.tune.forest.test_random | .2f`. Tune's test loss is
# {value}`beyond.tune.forest.gap | .2f` above its cross-validated one, the start's {value}`beyond.tune.forest.gap baseline | .2f`: the
# difference is what choosing by the folds promised too much. With the best alpha that any search met, the test loss would have
# been {value}`beyond.tune.forest.regret | .2f` lower.
#
# *Traffic*: random search stays {value}`beyond.tune.traffic.random | .2f` above in the folds, and tune is ahead in
# {value}`beyond.tune.traffic.ahead | .0%` of the fortnights. {verdict}`beyond.tune.traffic.random` But even the start is near (the table's
# *loss*), and new days repay nothing: there it is {value}`beyond.tune.traffic.test | .2f` above tune, random search
# {value}`beyond.tune.traffic.test_random | .2f`. Below zero, tune was the worse choice.
#
# ## Do this
# - Build your model by a function of its knobs, and call `acv.tune(model_of, start, folds)`.
# - Start where every knob matters: far out the loss is flat, and so is its gradient.
# - Read `at_bound`: a ridge that runs to its bound says that its columns may go; a knob that the data do not mind says nothing.
# - Do not report the loss that tuning found. Keep data that no fold has, or wrap an outer split around it.
# - Keep the start where tuning gains a small part of a standard error of the loss: chance gives as much.
# - *Nearest work.* {cite:t}`wood2024` chooses smoothing parameters by the gradient of neighbourhood cross-validation.
