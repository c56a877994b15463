# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Front doors: what you can bring
#
# Most people who want cross-validation have a fitted model already. Must they write it anew? Here is what the library takes as it
# is, each with a short example; all begin with `import acvlib as acv`. Behind each example, folded, the same is computed the long
# way: by real refits, in the package that the model comes from where there is one. Data are simulated, come with scikit-learn, or stand in the page.
#
# The table has the difference from these refits, of ours and of doing nothing, which leaves every fold with the parameters of
# the full fit. Most doors lead to an approximation: there it is the mean difference, and our rule is at most half of that of doing nothing. The others
# promise the same numbers as another call or package: there it is the largest difference. Of all rules {value}`beyond.doors`; the [GLM-HMM](#door-glmhmm) fails.
# Where nothing is left out, doing nothing has no number. Each example is drawn once: it shows the door, and is no study.
#
# | you bring | you call | example | difference from refits | doing nothing |
# | --- | --- | --- | --- | --- |
# | a fitted classifier of scikit-learn | `approx_cross_validate`, `approx_cross_val_predict` | [any number of classes](#door-iris) | {value}`beyond.doors.iris` | {value}`beyond.doors.iris baseline` |
# | balanced classes | `approx_cross_validate` | [balanced classes](#door-balanced) | {value}`beyond.doors.balanced` | {value}`beyond.doors.balanced baseline` |
# | a Pipeline, or a search | `approx_cross_validate` | [a Pipeline](#door-pipeline) | {value}`beyond.doors.pipeline` | {value}`beyond.doors.pipeline baseline` |
# | a table of targets | `approx_cross_val_predict` | [several targets](#door-targets) | largest {value}`beyond.doors.targets` | {value}`beyond.doors.targets baseline` |
# | values of C or alpha | `approx_tune` | [the choice of C or alpha](#door-tune) | {value}`beyond.doors.tune` | {value}`beyond.doors.tune baseline` |
# | a sparse `X`, wider than long | `approx_cross_val_predict` | [a sparse bag of words](#door-words) | {value}`beyond.doors.words` | {value}`beyond.doors.words baseline` |
# | symbols, or counts | `CategoricalHMM`, `PoissonHMM` | [earthquakes](#door-quakes) | {value}`beyond.doors.quakes` | {value}`beyond.doors.quakes baseline` |
# | states of any covariance | `GaussianHMM(covariance=)` | [Gaussian states with any covariance](#door-covariance) | {value}`beyond.doors.covariance` | {value}`beyond.doors.covariance baseline` |
# | states that are no single cloud | `MixtureHMM` | [Mixtures in each state](#door-mixture) | {value}`beyond.doors.mixture` | {value}`beyond.doors.mixture baseline` |
# | choices, and their inputs | `GLMHMM` | [The GLM-HMM of neuroscience](#door-glmhmm) | {value}`beyond.doors.glmhmm` | {value}`beyond.doors.glmhmm baseline` |
# | frames with nan in some columns | `GaussianHMM` | [Frames that miss some channels](#door-channels) | {value}`beyond.doors.channels` | {value}`beyond.doors.channels baseline` |
# | a fitted hmmlearn model | `from_hmmlearn` | [A fitted hmmlearn model](#door-hmmlearn) | {value}`beyond.doors.hmmlearn` | {value}`beyond.doors.hmmlearn baseline` |
# | parameters of dynamax or nemos | `pack` | [Parameters of another library](#door-pack) | – | – |
# | a label for each sequence | `folds.leave_group_out` | [Panels: individuals with several sessions](#door-panel) | {value}`beyond.doors.panel` | {value}`beyond.doors.panel baseline` |
# | a dict of features for each word | `FeatureCRF` | [A tagger's features](#door-tagger) | {value}`beyond.doors.tagger` | {value}`beyond.doors.tagger baseline` |
# | a fitted sklearn-crfsuite model | `from_crfsuite` | [A fitted sklearn-crfsuite model](#door-crfsuite) | {value}`beyond.doors.crfsuite` | {value}`beyond.doors.crfsuite baseline` |
# | a GeoDataFrame, or a graph | `HiddenMRF` | [A map](#door-map) | {value}`beyond.doors.map` | {value}`beyond.doors.map baseline` |
# | functions in JAX | `from_jax` | [A model in JAX](#door-jax) | {value}`beyond.doors.jax` | {value}`beyond.doors.jax baseline` |
# | functions in PyTorch | `from_torch` | [A model in PyTorch](#door-torch) | {value}`beyond.doors.torch` | {value}`beyond.doors.torch baseline` |
# | a Parquet file, a folder, or a frame | `Examples.of`, `treecv` | [A Parquet file, larger than memory if need be](#door-parquet) | largest {value}`beyond.doors.parquet` | – |

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 0

# %% tags=["remove-cell"]
import warnings

import numpy as np
from acvbook import ledger
from acvbook.studies import doors

import acvlib as acv

warnings.simplefilter("ignore")  # of other packages
ledger.begin("00_front_doors", scale, seed)
rng = np.random.default_rng(seed)

# %% [markdown]
# (door-iris)=
# ## scikit-learn: any number of classes
# Leave-one-out of a fitted multinomial `LogisticRegression`: scores, and the probabilities of every row without itself.
#
# {verdict}`beyond.doors.iris.ratio`

# %%
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut

X, y = load_iris(return_X_y=True)
flowers, cv = LogisticRegression(max_iter=1000, tol=1e-6).fit(X, y), LeaveOneOut()
scores = acv.approx_cross_validate(flowers, X, y, cv=cv)
shares = acv.approx_cross_val_predict(flowers, X, y, cv=cv, output="predict_proba")
print(f"accuracy on rows that were left out: {scores['test_score'].mean():.4f}")

# %% tags=["hide-input"]
from sklearn.model_selection import cross_val_predict

refits = cross_val_predict(flowers, X, y, cv=cv, method="predict_proba")
print(f"accuracy by 150 refits: {(refits.argmax(1) == y).mean():.4f}")
doors.near("iris", shares, refits, flowers.predict_proba(X))

# %% [markdown]
# (door-balanced)=
# ## scikit-learn: balanced classes
# `class_weight="balanced"` weighs each class by the inverse of its share of the *training* rows, which is another one in
# each fold. Here it is: the weights are a function of what is left out, and every method follows it.
#
# {verdict}`beyond.doors.balanced.ratio`

# %% tags=["hide-input"]
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)

# %%
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

tumours = LogisticRegression(class_weight="balanced", C=0.1, tol=1e-8, max_iter=1000)
tumours.fit(X, y)
settings = {"cv": KFold(5), "scoring": "neg_log_loss"}
scores = acv.approx_cross_validate(tumours, X, y, **settings)
print("log scores of five folds:", *scores["test_score"].round(4))

# %% tags=["hide-input"]
from sklearn.model_selection import cross_validate

refits = cross_validate(tumours, X, y, **settings)["test_score"]
none = acv.approx_cross_validate(tumours, X, y, method="no_adjustment", **settings)
print("log scores by five refits:", *refits.round(4))
doors.near("balanced", scores["test_score"], refits, none["test_score"])

# %% [markdown]
# (door-pipeline)=
# ## scikit-learn: a Pipeline
# The last step is refitted without each fold, approximately; the steps before it stay as they were fitted to all rows. The real
# refits below refit every step, so that their difference has both causes. A step that learns from `y` is refused.
#
# {verdict}`beyond.doors.pipeline.ratio`

# %%
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_wine(return_X_y=True, as_frame=True)
wines = make_pipeline(StandardScaler(), PCA(5), LogisticRegression(tol=1e-8)).fit(X, y)
scores = acv.approx_cross_validate(wines, X, y, cv=LeaveOneOut())

# %% tags=["hide-input"]
settings = {"cv": LeaveOneOut()}
ours = acv.approx_cross_val_predict(wines, X, y, output="predict_proba", **settings)
refits = cross_val_predict(wines, X, y, method="predict_proba", **settings)
print(f"accuracy {scores['test_score'].mean():.4f}", end="; ")
print(f"by 178 refits of the whole Pipeline {(refits.argmax(1) == y).mean():.4f}")
doors.near("pipeline", ours, refits, wines.predict_proba(X))

# %% [markdown]
# (door-targets)=
# ## scikit-learn: several targets
# `LinearRegression`, `Ridge` and `RidgeCV` (with the alpha that it chose) take a table of targets. All targets share one matrix.
# The loss is quadratic, so that one Newton step is the refit.
#
# {verdict}`beyond.doors.targets`

# %%
from sklearn.datasets import load_linnerud
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneOut

exercise, body = load_linnerud(return_X_y=True, as_frame=True)
men = RidgeCV([1.0, 100.0, 10_000.0]).fit(exercise, body)
predicted = acv.approx_cross_val_predict(men, exercise, body, cv=LeaveOneOut())
errors = ((predicted - body) ** 2).mean()
print("squared errors:", ", ".join(f"{name} {e:.1f}" for name, e in errors.items()))

# %% tags=["hide-input"]
from sklearn.linear_model import Ridge

same = Ridge(alpha=men.alpha_)
refits = cross_val_predict(same, exercise, body, cv=LeaveOneOut())
doors.exact("targets", predicted, refits, men.predict(exercise))

# %% [markdown]
# (door-tune)=
# ## scikit-learn: the choice of C or alpha
# `approx_tune` is `GridSearchCV` by approximate leave-one-out: one fit a value.
#
# {verdict}`beyond.doors.tune.ratio`

# %%
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

X, y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
start = LogisticRegression(max_iter=1000).fit(X, y)
values = np.array([10.0, 100.0, 1000.0])
tuned = acv.approx_tune(start, X, y, values)
print(f"C = {tuned.best:g}; log scores:", *tuned.scores.round(4))

# %% tags=["hide-input"]
from sklearn.model_selection import KFold, cross_val_predict

models = [LogisticRegression(C=C, max_iter=1000).fit(X, y) for C in values]
settings = {"cv": KFold(150), "method": "predict_proba"}
refits = [cross_val_predict(model, X, y, **settings) for model in models]
none = [model.predict_proba(X) for model in models]
refits, none = (np.log(np.array(p)[:, range(150), y]).mean(1) for p in (refits, none))
print(f"C = {values[refits.argmax()]:g} by 450 refits; log scores:", *refits.round(4))
doors.near("tune", tuned.scores, refits, none)

# %% [markdown]
# (door-words)=
# ## scikit-learn: a sparse bag of words
# Where `X` has more columns than rows, refits of any rows stay in the span of the rows: the work is that of the rows,
# not of the words there are.
#
# {verdict}`beyond.doors.words.ratio`

# %% tags=["hide-input"]
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer

topics, y = rng.dirichlet(np.full(3000, 0.02), size=2), rng.integers(0, 2, 150)
shares = [0.1 * topics[topic] + 0.9 * topics.mean(0) for topic in y]
counts = csr_array([rng.multinomial(60, share) for share in shares])
words = TfidfTransformer().fit_transform(counts)

# %%
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut

topic = LogisticRegression(C=10.0, tol=1e-6).fit(words, y)
settings = {"cv": LeaveOneOut(), "output": "predict_proba"}
shares = acv.approx_cross_val_predict(topic, words, y, **settings)
print(f"{words.shape[0]} texts, {words.shape[1]} words", end="; ")
print(f"accuracy on texts that were left out: {(shares.argmax(1) == y).mean():.3f}")

# %% tags=["hide-input"]
refits = cross_val_predict(topic, words, y, cv=LeaveOneOut(), method="predict_proba")
print(f"accuracy by 150 refits: {(refits.argmax(1) == y).mean():.3f}")
doors.near("words", shares, refits, topic.predict_proba(words))

# %% [markdown]
# (door-quakes)=
# ## Symbols and counts
# `CategoricalHMM` takes symbols: here rolls of a casino that sometimes has a loaded die. `PoissonHMM` takes counts, `NegativeBinomialHMM`
# counts that vary more than Poisson's: here the world's major earthquakes of each year from 1900 to 2006 (USGS). Leaving out every
# year in turn says how well states predict; to choose [how many](15_states.ipynb), let `acv.choose` refit from scratch.
#
# {verdict}`beyond.doors.quakes.ratio`

# %% tags=["hide-input"]
loaded, fair = doors.chain(600, 0.03, rng), rng.integers(0, 6, 600)
rolls = np.where(loaded & (rng.random(600) < 0.5), 5, fair)
years = doors.quakes()

# %%
from acvlib.models import CategoricalHMM

casino = CategoricalHMM(rolls, 2)
dice = casino.unpack(acv.fit(casino).params).emission.probability
for k in range(2):
    print(f"state {k}: P(roll)", *dice[k].round(2))

# %%
from acvlib.models import PoissonHMM

models = {k: PoissonHMM(years, k) for k in (1, 2, 3)}
fits = {k: acv.fit(model) for k, model in models.items()}
folds = acv.folds.leave_one_out(107)
results = {k: acv.newton_step(fits[k], folds) for k in models}
for k, result in results.items():
    print(f"{k} states: loss {result.loss:.4f} a year that was left out")

# %% tags=["hide-input"]
some, losses = range(0, 107, 10), {"ours": [], "refits": [], "none": []}
for k, model in models.items():
    for t in some:
        without = PoissonHMM(np.where(np.arange(107) == t, np.nan, years), k)
        refit = acv.fit(without, fits[k].params)
        losses["refits"].append(model.heldout_loss(refit.params, [t])[0])
    losses["ours"].extend(results[k].pointwise[some])
    losses["none"].extend(acv.no_adjustment(fits[k], folds).pointwise[some])
print(f"{len(some)} years, each left out of {len(models)} models")
doors.near("quakes", losses["ours"], losses["refits"], losses["none"])

# %% [markdown]
# (door-covariance)=
# ## Gaussian states with any covariance
# `covariance=` is `"diag"`, `"spherical"`, `"full"` or `"tied"`, as in hmmlearn. Leave-one-sequence-out chooses between
# them: the states below are long clouds of one shape.
#
# {verdict}`beyond.doors.covariance.ratio`

# %% tags=["hide-input"]
shape = np.array([[2.0, 0.0, 0.0], [1.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
states = [2.0 * doors.chain(60, 0.2, rng)[:, None] for _ in range(15)]
x = [state + rng.normal(size=(60, 3)) @ shape for state in states]
flat = {"mean_scale": np.inf, "variance_prior": (-1, 0), "concentration": 1}
flat["sites"] = "sequences"

# %%
from acvlib.models import GaussianHMM

kinds = ("diag", "spherical", "full", "tied")
models = {kind: GaussianHMM(x, 2, covariance=kind, **flat) for kind in kinds}
fits = {kind: acv.fit(model) for kind, model in models.items()}
folds, results = acv.folds.leave_one_out(15), {}
for kind, fit in fits.items():
    results[kind] = acv.infinitesimal_jackknife(fit, folds)
    print(f"{kind}: loss {results[kind].loss:.3f} a sequence that was left out")

# %% tags=["hide-input"]
ours, refits, none = [], [], []
for kind in ("full", "tied"):
    without = acv.no_adjustment(fits[kind], folds)
    named = models[kind].unpack(fits[kind].params)
    ours.extend(results[kind].fold_losses[:2])
    none.extend(without.fold_losses[:2])
    for n in range(2):
        peer = doors.hmmlearn_model(named, kind)
        rest = np.concatenate([one for i, one in enumerate(x) if i != n])
        refits.append(-peer.fit(rest, [60] * 14).score(x[n]))
print("two sequences, full and tied:", *np.round(ours, 3))
print("by hmmlearn's refits:", *np.round(refits, 3))
doors.near("covariance", ours, refits, none)

# %% [markdown]
# (door-mixture)=
# ## Mixtures in each state
# `MixtureHMM` is hmmlearn's GMMHMM: states that are no single cloud. Ten folds of frames are left out without a refit.
#
# {verdict}`beyond.doors.mixture.ratio`

# %% tags=["hide-input"]
state, part = doors.chain(400, 0.05, rng), rng.integers(0, 2, 400)
x = np.array([[0, 0], [3, 0], [5, 2], [5, 6]])[2 * state + part]
x = x + rng.normal(size=(400, 2))

# %%
from acvlib.models import MixtureHMM

folds = acv.folds.k_fold(400, 10, rng)
models = {c: MixtureHMM(x, 2, n_components=c) for c in (1, 2)}
fits = {c: acv.fit(model) for c, model in models.items()}
results = {c: acv.newton_step(fits[c], folds) for c in models}
for c, result in results.items():
    print(f"{c} components a state: loss {result.loss:.4f} ± {result.se:.4f} a frame")

# %% tags=["hide-input"]
refits = doors.refits(models[2], x, folds, fits[2].params)
print(f"2 components by refits: {refits.mean():.4f}")
doors.near_refits("mixture", results[2], refits)

# %% [markdown]
# (door-glmhmm)=
# ## The GLM-HMM of neuroscience
# Choices of an animal that follows the stimulus in one state and repeats itself in the other: `GLMHMM` takes choices and
# inputs of every session, and leave-one-session-out chooses the number of states.
# Three states are one too many for these data: without one of the sessions the step of that model goes much further off than doing
# nothing, and nearly all of the mean difference is that session's. `acv.check_result` marks it: refit what is [marked](10_which_folds.ipynb).
#
# {verdict}`beyond.doors.glmhmm.ratio`

# %% tags=["hide-input"]
choices, inputs = zip(*(doors.session(rng) for _ in range(12)))
choices, inputs = list(choices), list(inputs)

# %%
from acvlib.models import GLMHMM

models = {k: GLMHMM(choices, inputs, k, sites="sequences") for k in (1, 2, 3)}
fits = {k: acv.fit(model) for k, model in models.items()}
folds, results = acv.folds.leave_one_out(12), {}
for k, fit in fits.items():
    results[k] = acv.newton_step(fit, folds, damping=0.1)
    print(f"{k} states: loss {results[k].loss:.3f} a session that was left out")

# %% tags=["hide-input"]
from dataclasses import replace

ours, refits, none = [], [], []
for k, model in models.items():
    ours.extend(results[k].fold_losses)
    none.extend(acv.no_adjustment(fits[k], folds).fold_losses)
    for n in range(12):
        kept = model.sequences[:n] + model.sequences[n + 1 :]
        refit = acv.fit(replace(model, sequences=kept, sample_weight=1), fits[k].params)
        refits.append(model.heldout_loss(refit.params, [n])[0])
print("losses by refits:", *np.reshape(refits, (3, 12)).mean(axis=1).round(3))
doors.near("glmhmm", ours, refits, none)

# %% [markdown]
# (door-channels)=
# ## Frames that miss some channels
# A sensor that fails takes its own channel, not the whole frame: nan in one column, with diagonal Gaussian, Poisson and
# mixture emissions.
#
# {verdict}`beyond.doors.channels.ratio`

# %% tags=["hide-input"]
levels = np.array([[0.0, 0.0, 0.0], [2.0, -2.0, 1.0]])
x = levels[doors.chain(300, 0.05, rng)] + rng.normal(size=(300, 3))
x[rng.random((300, 3)) < 0.3] = np.nan
whole = np.isfinite(x).all(axis=1).sum()

# %%
from acvlib.models import GaussianHMM

model = GaussianHMM(x, n_states=2)
fit = acv.fit(model)
folds = acv.folds.k_fold(300, 20, rng, observed=model.observed)
result = acv.newton_step(fit, folds)
print(f"{model.observed.sum()} frames have some channel, {whole} all three", end="; ")
print(f"loss {result.loss:.4f}")

# %% tags=["hide-input"]
refits = doors.refits(model, x, folds, fit.params)
print(f"loss by refits {refits[model.observed].mean():.4f}")
doors.near_refits("channels", result, refits, model.observed)

# %% [markdown]
# (door-hmmlearn)=
# ## A fitted hmmlearn model
# `acv.from_hmmlearn` takes the model and its data; likelihood and optimum are hmmlearn's own. Then every sequence is left
# out in turn without a refit.
#
# {verdict}`beyond.doors.hmmlearn.ratio` {verdict}`beyond.doors.hmmlearn.likelihood`

# %% tags=["hide-input"]
z = [doors.chain(100, 0.1, rng, 3) for _ in range(20)]
X = np.array([0.0, 2.5, 5.0])[np.concatenate(z), None] + rng.normal(size=(2000, 1))
lengths = [100] * 20
priors = {"startprob_prior": 1.1, "transmat_prior": 1.1}

# %%
from hmmlearn.hmm import GaussianHMM

fitted = GaussianHMM(3, n_iter=200, tol=1e-6, random_state=1, **priors).fit(X, lengths)
model, params = acv.from_hmmlearn(fitted, X, lengths)
fit = acv.fit(model, params)
cv = acv.newton_step(fit, acv.folds.leave_one_out(20))
print(f"loss {cv.loss:.2f} ± {cv.se:.2f} a sequence that was left out", end="; ")
print(f"not left out: {model.sequence_losses(fit.params).mean():.2f}")

# %% tags=["hide-input"]
refits, none = [], model.sequence_losses(fit.params)[:3]
for n in range(3):  # from the optimum on
    keep = np.arange(2000) // 100 != n
    again = doors.hmmlearn_moved(fitted, model.unpack(fit.params))
    refits.append(-again.fit(X[keep], lengths[1:]).score(X[~keep]))
print("three sequences, by a Newton step:", *cv.fold_losses[:3].round(3), end="; ")
print("by hmmlearn's refits:", *np.round(refits, 3))
doors.near("hmmlearn", cv.fold_losses[:3], refits, none)
ours = -model.sequence_losses(params).sum()
print("log likelihood, ours and hmmlearn's:", end=" ")
doors.exact("hmmlearn.likelihood", ours, fitted.score(X, lengths))

# %% [markdown]
# (door-pack)=
# ## Parameters of another library
# `pack` takes named arrays in the form in which `unpack` gives them, so that parameters of any library can be brought: make
# the model of the same kind, and put them in its place. Priors are ours, so that `acv.fit` moves the parameters a little. Of a
# `GaussianHMM` of dynamax, in single precision unless it is told otherwise:
#
# ```python
# model = acv.models.GaussianHMM(list(emissions), n_states, covariance="full")
# initial = np.asarray(params.initial.probs, float)
# transition = np.asarray(params.transitions.transition_matrix, float)
# mean, covariance = (np.asarray(part, float) for part in params.emissions)
# named = model.unpack(model.initial_params(np.random.default_rng()))
# named = named._replace(
#     initial=initial / initial.sum(),
#     transition=transition / transition.sum(axis=1, keepdims=True),
#     emission=named.emission._replace(mean=mean, covariance=covariance),
# )
# fit = acv.fit(model, model.pack(named))
# ```
#
# The parameters of a GLM-HMM of nemos are weights of the inputs, intercepts, and logarithms of probabilities:
#
# ```python
# model = acv.models.GLMHMM(y, X, n_states, family="bernoulli")  # or "poisson"
# initial = np.exp(np.asarray(params.hmm_params.log_initial_prob, float))
# transition = np.exp(np.asarray(params.hmm_params.log_transition_prob, float))
# weights = np.vstack([params.glm_params.coef, params.glm_params.intercept]).astype(float)
# named = model.unpack(model.initial_params(np.random.default_rng()))
# named = named._replace(
#     initial=initial / initial.sum(),
#     transition=transition / transition.sum(axis=1, keepdims=True),
#     emission=named.emission._replace(weights=weights.T[:, None]),
# )
# fit = acv.fit(model, model.pack(named))
# ```

# %% [markdown]
# (door-panel)=
# ## Panels: individuals with several sessions
# `folds.leave_group_out` leaves out all sequences of an individual, given a label of each, or all their time steps, given a
# label of each step, as by `np.repeat(labels, lengths)`. Sequences may weigh more than once by `sample_weight`.
#
# {verdict}`beyond.doors.panel.ratio`

# %% tags=["hide-input"]
individual = np.repeat(np.arange(8), 3)  # three sessions each
states = [3.0 * doors.chain(60, 0.1, rng)[:, None] for _ in individual]
sessions = [z + 0.3 * i + rng.normal(size=(60, 1)) for i, z in zip(individual, states)]

# %%
from acvlib.models import GaussianHMM

model = GaussianHMM(sessions, 2, sites="sequences")
fit = acv.fit(model)
folds = {"session": acv.folds.leave_one_out(24)}
folds["individual"] = acv.folds.leave_group_out(individual)
for name, own in folds.items():
    cv = acv.newton_step(fit, own)
    print(f"without each {name}: loss {cv.loss:.3f} ± {cv.se:.3f} a session")

# %% tags=["hide-input"]
refits, none = acv.exact(fit, own), acv.no_adjustment(fit, own)
print(f"refits without each individual: loss {refits.loss:.3f}")
doors.near("panel", cv.fold_losses, refits.fold_losses, none.fold_losses)

# %% [markdown]
# (door-tagger)=
# ## A tagger's features
# `FeatureCRF` takes sentences as sklearn-crfsuite does, a dict of features for each word, and finds their weights. Each sentence
# is left out in turn, though there is a weight for every pair of a feature and a label.
#
# {verdict}`beyond.doors.tagger.ratio`

# %% tags=["hide-input"]
X, y = doors.sentences(rng)
print("a word of the first sentence:", ", ".join(f"{k} {v}" for k, v in X[0][0].items()))

# %%
from acvlib import FeatureCRF

model = FeatureCRF(X, y, ridge=0.5)
fit = acv.fit(model)
cv = acv.newton_step(fit, acv.folds.leave_one_out(120))
print(f"{model.n_params} weights; loss {cv.loss:.3f} ± {cv.se:.3f} a sentence", end="; ")
print(f"not left out: {cv.fitted_losses.mean():.3f}")

# %% tags=["hide-input"]
few = acv.Folds([[n] for n in range(12)])
refits = acv.exact(fit, few).fold_losses
print("three sentences, by a Newton step:", *cv.fold_losses[:3].round(3), end="; ")
print("by refits:", *refits[:3].round(3))
doors.near("tagger", cv.fold_losses[:12], refits, cv.fitted_losses[:12])

# %% [markdown]
# (door-crfsuite)=
# ## A fitted sklearn-crfsuite model
# `acv.from_crfsuite` takes the fitted CRF and its data; probabilities are crfsuite's own. The fit goes on to the optimum,
# which crfsuite stops short of, and a tenth of the sentences is left out without a refit.
#
# {verdict}`beyond.doors.crfsuite.ratio`

# %% tags=["hide-input"]
X, y = doors.sentences(rng)
settings = {"c1": 0, "c2": 0.25, "max_iterations": 1000}
settings |= {"all_possible_states": True, "all_possible_transitions": True}

# %%
import sklearn_crfsuite

fitted = sklearn_crfsuite.CRF(**settings).fit(X, y)
model, params = acv.from_crfsuite(fitted, X, y)
fit = acv.fit(model, start=params)
cv = acv.newton_step(fit, acv.folds.iid(120, 10, 1, rng))
print(f"loss {cv.loss:.3f} of a sentence that was left out")

# %% tags=["hide-input"]
left_out = np.asarray(cv.folds[0])
kept = np.setdiff1d(np.arange(120), left_out)
again = sklearn_crfsuite.CRF(**settings).fit([X[n] for n in kept], [y[n] for n in kept])
refits, none = [], acv.no_adjustment(fit, cv.folds)
for n in left_out:
    again.tagger_.set(X[n])
    refits.append(-np.log(again.tagger_.probability(y[n])))
print("three sentences, by a Newton step:", *cv.losses[0][:3].round(3), end="; ")
print("by crfsuite's own refit:", *np.round(refits[:3], 3))
doors.near("crfsuite", cv.losses[0], refits, none.losses[0])

# %% [markdown]
# (door-map)=
# ## A map
# `neighbours` makes a graph of a GeoDataFrame. Areas that share a point of their borders are neighbours;
# `contiguity="rook"` asks for a stretch. With `exposure` the rates are per head. `HiddenMRF` takes any edges, a networkx graph
# (data by node as a Series), or an adjacency matrix; a graph that is too wide for exact sums is refused, with its width.
#
# {verdict}`beyond.doors.map.ratio`

# %% tags=["hide-input"]
import geopandas
import shapely

squares = [shapely.box(x, y, x + 1, y + 1) for x in range(8) for y in range(6)]
people = rng.integers(500, 3_000, 48)
cases = rng.poisson(people * np.repeat([0.002, 0.008], 24))
columns = {"cases": cases, "people": people}
districts = geopandas.GeoDataFrame(columns, geometry=squares)

# %%
from acvlib.models import HiddenMRF
from acvlib.models.mrf.areas import neighbours

borders = neighbours(districts)
model = HiddenMRF(districts["cases"], borders, coupling=0.5, exposure=districts["people"])
cv = acv.newton_step(acv.fit(model), acv.folds.leave_one_out(48))
print(f"{len(model.edges)} borders; loss {cv.loss:.4f} of a district that was left out")

# %% tags=["hide-input"]
refits = doors.without_each(model)
print(f"loss by refits {np.mean(refits):.4f}")
doors.near_refits("map", cv, refits)

# %% [markdown]
# (door-jax)=
# ## A model in JAX
# Two functions and a start, an array or any tree of arrays: gradients, Hessians and cross derivatives are JAX's, compiled, in double precision.
#
# {verdict}`beyond.doors.jax.ratio`

# %% tags=["hide-input"]
data = rng.standard_normal((300, 2)) @ [[1.0, 0.7], [0.0, 0.3]]  # x, and y given x
start = {"level": 0.0, "slope": 0.0, "noise": 0.0}

# %%
import jax.numpy as jnp


def losses(p, sites):
    x, y = jnp.asarray(data)[sites].T
    misfit = (y - p["level"] - p["slope"] * x) ** 2
    return misfit / jnp.exp(p["noise"]) / 2 + p["noise"] / 2


model = acv.from_jax(lambda p, w: w @ losses(p, slice(None)), losses, 300, start)

# %%
cv = acv.newton_step(acv.fit(model), acv.folds.k_fold(300, 10))
print(f"loss {cv.loss:.5f} ± {cv.se:.5f} of a row that was left out")

# %% tags=["hide-input"]
from numpy.polynomial import Polynomial

refits = np.empty(300)
for fold in cv.folds:  # least squares without the fold
    x, y = np.delete(data, fold, 0).T
    line = Polynomial.fit(x, y, 1)
    noise = np.mean((y - line(x)) ** 2)
    x, y = data[fold].T
    refits[fold] = (y - line(x)) ** 2 / noise / 2 + np.log(noise) / 2
print(f"loss by least squares {refits.mean():.5f}")
doors.near_refits("jax", cv, refits)

# %% [markdown]
# (door-torch)=
# ## A model in PyTorch
# The same with functions of tensors, in double precision; `start` may be a dictionary, as here, or the named parameters of a network.
#
# {verdict}`beyond.doors.torch.ratio`

# %% tags=["hide-input"]
import torch

dose = torch.tensor(rng.uniform(-3, 3, 200))
noise = 0.3 * torch.tensor(rng.standard_normal(200))
response = 2 * torch.sigmoid(2 * dose) + noise
start = {"top": 1.0, "steepness": 1.0, "middle": 0.0}

# %%
import torch


def losses(p, sites):
    curve = p["top"] * torch.sigmoid(p["steepness"] * dose[sites] + p["middle"])
    return (response[sites] - curve) ** 2 / 0.18


model = acv.from_torch(lambda p, w: w @ losses(p, slice(None)), losses, 200, start)
cv = acv.newton_step(acv.fit(model), acv.folds.k_fold(200, 10))

# %% tags=["hide-input"]
refits = np.empty(200)
for fold in cv.folds:
    p = {name: torch.tensor(v, dtype=torch.double) for name, v in start.items()}
    weights = torch.tensor(acv.folds.weights(200, fold))
    doors.torch_minimum(lambda q, w=weights: w @ losses(q, slice(None)), p)
    refits[fold] = losses(p, torch.tensor(fold)).detach()
print(f"loss {cv.loss:.5f}; by torch's refits {refits.mean():.5f}")
doors.near_refits("torch", cv, refits)

# %% [markdown]
# (door-parquet)=
# ## A Parquet file, larger than memory if need be
# `Examples.of` takes a file, a folder of files, or a frame of pandas or polars, and the name of the column to predict; columns
# that are no numbers are refused by name. Rows beyond `memory` go to
# a scratch file and are read where they are. They were put into random order when the file was written, so that
# `shuffle=False`, which spares a copy in memory, is right: the losses are those of the array, to the bit.
#
# {verdict}`beyond.doors.parquet`

# %% tags=["hide-input"]
import tempfile

import pyarrow
import pyarrow.parquet

path, X = tempfile.mkdtemp() + "/rows.parquet", rng.normal(size=(60_000, 8)) / 3
y = X @ np.linspace(-0.3, 0.3, 8) + rng.normal(size=60_000)
table = pyarrow.table({f"x{j}": X[:, j] for j in range(8)} | {"y": y})
pyarrow.parquet.write_table(table, path, row_group_size=10_000)

# %%
data = acv.Examples.of(path, target="y", memory=2**20)
learner = acv.learners.lsqsgd(8, step=60_000**-0.5)
tree = acv.treecv(learner, data, 10, shuffle=False)
print(f"mean squared error {tree.loss:.4f}")

# %% tags=["hide-input"]
array = acv.Examples(X, y)
print(
    f"ten models trained from nothing: {acv.kfold(learner, array, 10, shuffle=False).loss:.4f}"
)
print("from the losses of the array:", end=" ")
in_memory = acv.treecv(learner, array, 10, shuffle=False)
doors.exact("parquet", tree.pointwise, in_memory.pointwise)
