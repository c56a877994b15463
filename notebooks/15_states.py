# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # How many states?
#
# It is the first question about a hidden Markov model, and each package answers it in its own way: AIC, BIC or ICL, which
# charge the likelihood for its parameters; half-sampling, which fits odd time points and scores even ones
# {cite:p}`celeux2008`; cross-validation over sequences, or none at all. Which finds the number of states? Which predicts best? Is
# it the same one? And may an approximation take the place of the refits, which make cross-validation dear?

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
import pandas as pd
from acvbook import figures, ledger
from acvbook.studies import states

ledger.begin("15_states", scale, seed)
paper = scale == "paper"

# %% [markdown]
# ## Models whose number of states is known
# We draw series from hidden Markov models with Gaussian, Poisson or categorical emissions. Neighbouring states are a given
# number of standard deviations apart (for counts and categories: as far apart as Gaussians of the same Hellinger distance);
# each state stays with a probability between {given}`0.8` and {given}`0.95`. A series is one sequence, or ten. Every candidate is fitted by EM from five
# starts and polished by Newton's method. *Regret* is what the chosen candidate loses, on {given}`10,000` fresh frames, against the best one.
#
# Four schemes of folds: *within* leaves out a tenth of the time points, at random; *half* is half-sampling; *sequence* leaves out whole sequences;
# *future* fits up to an origin and predicts the next tenth, step by step. *training* takes the likelihood as it is: doing nothing.

# %%
rows = states.simulated(paper, seed)
found = states.choices(rows)
table = states.summary(found)
states.main(table)[["models", "recovery", "too_few", "too_many", "regret"]].round(3)

# %% tags=["remove-cell"]
measures = states.of_choices(found)
states.record(measures)
ledger.record("beyond.states.models", len(found[found.criterion == "bic"]))
seconds = table.seconds["within"]
ledger.record("beyond.states.speed.newton", seconds["exact"] / seconds["newton"])
ledger.record("beyond.states.speed.checked", seconds["exact"] / seconds["checked"])

# %% tags=["remove-output", "hide-input"]
fig, axes = figures.subplots(1, 2, figsize=(10, 4))
difficulty = states.by_separation(found)
for ax, value in zip(axes, ("recovery", "regret"), strict=True):
    figures.by_difficulty(ax, difficulty, value)
figures.save(fig, "states")

# %% [markdown]
# ```{figure} figures/states.svg
# :name: fig-states
# :alt: Two panels, recovery and regret of seven criteria and of the training likelihood, which hardly ever finds the number, against the distance of states.
# How often the number of states is found, and the regret in nats per {given}`1,000` frames, each with its {given}`95` % interval. *CV of
# sequences* is of the models with ten sequences. Look at the left, where states are close. {verdict}`beyond.states.near.within`
# ```
#
# **Who finds the number?** Of {value}`beyond.states.models | ,` models BIC finds it in {value}`beyond.states.recovery.bic | .0%`, AIC in
# {value}`beyond.states.recovery.aic | .0%`, ICL in {value}`beyond.states.recovery.icl | .0%`. Cross-validation finds it within sequences in
# {value}`beyond.states.recovery.within | .0%`, by sequence in {value}`beyond.states.recovery.sequence | .0%`, of the future in
# {value}`beyond.states.recovery.future | .0%`, by half-sampling in {value}`beyond.states.recovery.half | .0%`. The fewest states within one
# standard error of the best, within sequences, are right in {value}`beyond.states.recovery.onese | .0%`. {verdict}`beyond.states.onese_best`
#
# **Who predicts?** The mean regret is {value}`beyond.states.regret.bic | .1f` nats per {given}`1,000` frames by BIC,
# {value}`beyond.states.regret.aic | .1f` by AIC, {value}`beyond.states.regret.icl | .1f` by ICL; {value}`beyond.states.regret.within | .1f` by
# cross-validation within sequences ({value}`beyond.states.regret.onese | .1f` with one standard error),
# {value}`beyond.states.regret.sequence | .1f` by sequence, {value}`beyond.states.regret.future | .1f` of the future,
# {value}`beyond.states.regret.half | .1f` by half-sampling. Which of these schemes predicts best is within chance
# {verdict}`beyond.states.within_half`. Where states are close, all do better than BIC: regret within sequences differs from BIC's by
# {value}`beyond.states.near.within | +.1f`, by sequence {value}`beyond.states.near.sequence | +.1f`, of the future
# {value}`beyond.states.near.future | +.1f` (training likelihood {value}`beyond.states.near.future baseline | +.1f`). {verdict}`beyond.states.near.future`
#
# ## Does the Newton step choose as refits do?
# *plain*: the Newton step of every fold; *checked*: with the folds refitted that `check_result` does not trust.

# %%
pd.DataFrame(
    {
        scheme: {
            "checked": measures[f"same.{scheme}"][0].mean(),
            "plain": measures[f"plain.{scheme}"][0].mean(),
        }
        for scheme in states.SCHEMES
    }
).round(3)

# %% [markdown]
# Checked, it makes the choice of exact refits in {value}`beyond.states.same.within | .1%` of the models within sequences and in
# {value}`beyond.states.same.sequence | .1%` by sequence (training likelihood {value}`beyond.states.same.within baseline | .0%` and {value}`beyond.states.same.sequence baseline | .0%`).
# {verdict}`beyond.states.same.within` Alone it does so in {value}`beyond.states.plain.within | .0%` and {value}`beyond.states.plain.sequence | .0%`,
# {value}`beyond.states.speed.newton | .1f` times as fast as exact refits. {verdict}`beyond.states.plain.within` Surplus states have flat directions, along
# which a single step goes far; so many of their folds are refitted that all exact refits take {value}`beyond.states.speed.checked | .2f` of the time
# of the checked step. To choose between models asks more of an approximation than to score one.
#
# ## What a fold brings along
# Every approximation of this book, and the refit that it approximates, continues from the full fit. That fit has seen the fold.
# Where there is one optimum nothing remains of it. A surplus state, though, settles on whatever looks like a state in these very
# data, the fold's points among them, and in the refit it stays there. Here `acv.from_scratch` refits each fold from new starts
# that have not seen its points, as somebody would who had never had them: one further model each, of a third of the designs.

# %%
scratch = states.from_scratch(paper, seed)
scratch[
    ["right_continued", "right_scratch", "regret_continued", "regret_scratch"]
].mean().to_frame("mean").round(3)

# %% tags=["remove-cell"]
states.record(states.of_scratch(scratch))
price = scratch.seconds_scratch.sum() / scratch.seconds_continued.sum()
ledger.record("beyond.states.scratch.price", price)

# %% [markdown]
# With one state too many, a fold of the refit that continues is too good by {value}`beyond.states.scratch.optimism.surplus | .2f` nats; with the
# right number, by {value}`beyond.states.scratch.optimism.true | .2f`. That is enough to choose by: of further models, cross-validation within sequences
# finds the number in {value}`beyond.states.scratch.continued | .0%` continued and in {value}`beyond.states.scratch.recovery | .0%` from
# scratch ({value}`beyond.states.scratch.onese | .0%` with one standard error). {verdict}`beyond.states.scratch.gain` Its regret changes by
# {value}`beyond.states.scratch.regret | +.1f` nats per {given}`1,000` frames ({value}`beyond.states.scratch.regret low | +.1f` to
# {value}`beyond.states.scratch.regret high | +.1f`), for {value}`beyond.states.scratch.price | .1f` times the
# processor time. {verdict}`beyond.states.scratch.regret` It is no flaw of an approximation: the checked Newton step chooses as refits do, and those are
# optimistic. Scored jointly, by $-\log p$ of all points of a fold given the others, in place of point by point, recovery
# changes by {value}`beyond.states.scratch.joint | +.1%` and regret by {value}`beyond.states.scratch.joint.regret | +.1f`: of
# regressions with dependent errors joint scores choose better {cite:p}`cooper2023`. Left-out data judge a model only as far as the fit has forgotten them. AIC asks for no refit at all, and found
# {value}`beyond.states.recovery.aic | .0%` above: but there one of the candidates was the truth.
#
# ## Do this
# - Where you trust the model, its emissions and its chain, AIC finds the number most often in series of some hundred frames, without
#   a refit. BIC and ICL err towards too few states where these are close, and predict worse for it.
# - Where you do not, call `acv.choose(models, folds)` with folds as you will predict: days, sequences, the future. It refits folds of
#   hidden states from scratch. Keep fewer states where one standard error allows it.
# - Score a model of a given size by an approximation; do not choose the number of states by one, nor by refits that continue.
# - Fit from several starts, and raise `n_starts` where one alone reached a fit.
# - *Nearest work.* The marginal likelihood is consistent for the number of states of Gaussian chains {cite:p}`chen2025`. It supposes,
#   as BIC does, that the model is true.
