"""Law 7: theirs = ours: what the fitted object's own library answers, with every setting of it.

A setting that is not honoured is refused. Their refits are the truth, to what their optimisers do.
"""

import copy
import logging
import sys
import warnings
from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
import sklearn_crfsuite
from hmmlearn import hmm
from hmmlearn.base import ConvergenceMonitor
from scipy.sparse import coo_array, csr_array
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn import linear_model, model_selection
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, LogisticRegressionCV, Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import acvlib as acv

from .doors import folds_of, names_of, real_frames, rows, sentences, words
from .law import LIBRARY, RNG, Refused, ask, cases, hold, refused

logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)
TIGHT = {"tol": 1e-9, "max_iter": 2000}
NEWTON = TIGHT | {"solver": "newton-cholesky"}
BY_RIDGE = {"l1_ratios": (0,), "use_legacy_attributes": False, "scoring": "neg_log_loss"}
CV = KFold(4, shuffle=True, random_state=0)
Clipped = type("Clipped", (Pipeline,), {"predict": lambda m, X: Pipeline.predict(m, X).clip(1)})

# scikit-learn


def plain(rng, family="gaussian", n=40):
    data = rows(rng, family, n)
    return data["X"], data["y"]


def score_cases(rng):
    """{what: (estimator, X, y, settings)} whose scores are scikit-learn's."""
    X, y = plain(rng)
    _, label = plain(rng, "logistic")
    _, count = plain(rng, "poisson")
    frame = pd.DataFrame(X, columns=["x", "exposure"])
    rare = count * (X[:, 0] > 5)  # a line through these is below 0 where they are 0

    def scaled(A):  # the other steps of a Pipeline stay as they are for all rows
        return make_pipeline(FrozenEstimator(StandardScaler().fit(A)), Ridge(1.0))

    def weighed(m, A, b):
        return -np.average((m.predict(A) - b) ** 2, weights=np.asarray(A)[:, 1] ** 2 + 1.0)

    def by_name(m, A, b):
        return -np.average((m.predict(A) - b) ** 2, weights=A["exposure"] + 1.0)

    def steps(m, A, b):
        return 1.0 * len(m.steps)

    logits, counts = LogisticRegression(C=0.1, **NEWTON), linear_model.PoissonRegressor(**NEWTON)
    line, ridge = LinearRegression(), Ridge()
    logits_cv = LogisticRegressionCV(Cs=[0.1], cv=3, **BY_RIDGE, **TIGHT)
    by_auc = GridSearchCV(logits, {"C": [0.1]}, scoring="roc_auc")
    by_squares = GridSearchCV(ridge, {"alpha": [1.0]}, scoring="neg_mean_squared_error")
    deviance = {"scoring": "neg_mean_poisson_deviance"}
    several = {"scoring": ["r2", "neg_mean_squared_error"]}
    y_column, label_column, count_column = (pd.DataFrame({"y": own}) for own in (y, label, count))
    return {
        "score of a ...CV": (logits_cv, X, label, {}),
        "score of a search": (by_auc, X, label, {}),
        "score of a search of Ridge": (by_squares, X, y, {}),
        "deviance outside its domain": (line, X, rare, deviance | {"cv": LeaveOneOut()}),
        "deviance of negative targets": (line, X, y - y.mean(), deviance),
        "scorer that reads X": (scaled(X), X, y, {"scoring": weighed}),
        "scorer that reads X by name": (scaled(frame), frame, y, {"scoring": by_name}),
        "scorer that reads the steps": (scaled(X), X, y, {"scoring": steps}),
        "y as a column": (ridge, X, y_column, {}),
        "labels as a column": (logits, X, label_column, {}),
        "counts as a column": (counts, X, count_column, {}),
        "a Pipeline that clips": (Clipped([("ridge", ridge)]), X, y, several),
        "several scorers": (ridge, X, y, several),
    }


@cases("theirs", score_cases(np.random.default_rng(0)))
def test_scores_are_scikit_learns(name):
    @hold(3, rng=RNG)
    def check(rng):
        m, X, y, settings = score_cases(rng)[name]
        settings = {"cv": CV} | settings
        with warnings.catch_warnings(action="ignore"):
            want = cross_validate(m, X, y, **settings)
            m = m.fit(X, y)
            got = ask(acv.approx_cross_validate, m, X, y, method="exact", **settings)
        for key in (key for key in want if key.startswith("test_")):
            assert np.allclose(got[key], want[key], rtol=1e-5, atol=1e-5, equal_nan=True)


def prediction_cases(rng):
    """{what: (estimator, X, y, settings)} whose predictions are those of scikit-learn's refits."""
    X, y = plain(rng)
    _, label = plain(rng, "logistic")
    year = np.repeat(np.arange(2012, 2020), 5).astype(float)
    panel = np.column_stack([year, X[:, 1]])
    twice = np.r_[:40, :20]
    small = rng.normal(size=(40, 60))
    wide, sums = np.column_stack([X[:, :1] * 1e9, small]), small[:, :9].sum(axis=1)
    far = np.column_stack([X, X[:, 0] * 1e6 + rng.normal(size=40) * 1e6])
    turned = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0]
    near = turned * [1.0, 1.01e-6]  # LinearRegression drops what is less than 1e-6 of the largest
    cities = pd.DataFrame({"city": np.array(list("abcd") * 10), "x": X[:, 0]})
    dummies = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    w = np.ones(40)
    w[[3, 10]] = 0.0
    by_year = {"cv": model_selection.LeaveOneGroupOut(), "groups": year}
    weighed = {"params": {"sample_weight": w}}
    no_fold = {"params": {"sample_weight": (np.arange(40) >= 10) * 1.0}, "cv": KFold(4)}
    line, ridge, logits = LinearRegression(), Ridge(1.0), LogisticRegression(**NEWTON)
    # by svd: the default solver loses .5 of a coefficient of .7 here, by 40-digit arithmetic
    by_svd = Ridge(1.0, solver="svd")
    less_wide = wide / np.append(1e4, np.ones(60))  # in larger ones no solver of theirs ends
    by_city = make_pipeline(dummies, LinearRegression())
    squares = make_pipeline(PolynomialFeatures(2), LinearRegression())
    return {
        "years": (line, panel, y, {}),
        "years, left out": (line, panel, y, by_year),
        "columns of all sizes": (line, far, y, {}),
        "wide, one column in large units": (by_svd, wide, sums, {}),
        "wide, one column in large units, of logits": (logits, less_wide, (sums > 0) * 1, {}),
        "a direction near tol": (line, near, y, {"cv": LeaveOneOut()}),
        "a sparse column twice": (line, csr_array(X[:, [0, 1, 0]]), y, {}),
        "sparse flags, some twice": (ridge, coo_array(([True] * 60, (twice, twice % 2))), y, {}),
        "a column for each city": (by_city, cities, y, {}),
        "a column of ones": (squares, X, y, {}),
        "weights of 0, row by row": (ridge, X, y, weighed | {"cv": LeaveOneOut()}),
        "weights of 0": (ridge, X, y, weighed),
        "a fold of weight 0": (ridge, X, y, no_fold),
        "a Pipeline that clips": (Clipped([("ridge", ridge)]), X, y, {}),
        "a buffer": (ridge, X, y, {"cv": type("Own", (LeaveOneOut,), {"split": CV.split})()}),
    }


@cases("theirs", prediction_cases(np.random.default_rng(0)), "predicted")
def test_predictions_are_those_of_refits(name):
    @hold(3, rng=RNG)
    def check(rng):
        m, X, y, settings = prediction_cases(rng)[name]
        settings = {"cv": CV} | settings
        fitting = settings.get("params", {})
        with warnings.catch_warnings(action="ignore"):
            want = model_selection.cross_val_predict(clone(m), X, y, **settings)
            m = m.fit(X, y, **fitting)
            got = ask(acv.approx_cross_val_predict, m, X, y, method="exact", **settings)
        assert np.allclose(got, want, atol=1e-4 * np.std(want))


BY_ACCURACY = BY_RIDGE | NEWTON | {"scoring": "accuracy", "Cs": [0.01, 0.1, 10.0]}
BY_ACCURACY["cv"] = [(np.arange(30), np.arange(30, 40))]
CHOOSE = {
    "RidgeCV": (linear_model.RidgeCV([0.01, 1.0, 100.0]), lambda m: Ridge(m.alpha_)),
    "LogisticRegressionCV": (
        LogisticRegressionCV(**BY_ACCURACY),
        lambda m: LogisticRegression(C=m.C_, **NEWTON),
    ),
}


@cases("theirs", CHOOSE, "that chose")
def test_what_was_chosen_stays_where_scikit_learn_refits(name):
    """A fold of weight 0, or one that holds a class; elsewhere our model has what was chosen."""
    X, y = plain(np.random.default_rng(0))
    w = np.ones(40)
    own, fixed = CHOOSE[name]
    if name == "RidgeCV":
        w[30:] = 0.0
        y[8:20] = np.cos(9.0 * np.arange(12))  # noise, of which it would choose another
    else:
        y = np.where(np.arange(40) < 6, 2, (y > np.median(y)) * 1)
    settings = {"params": {"sample_weight": w}, "cv": [(np.arange(8, 20), np.arange(30, 40))]}
    settings["cv"] += [(np.arange(8, 40), np.arange(8)), (np.arange(30), np.arange(30, 40))]
    own = clone(own).fit(X, y, w)
    with warnings.catch_warnings(action="ignore"):
        want = cross_validate(fixed(own), X, y, **settings)["test_score"]
        got = ask(acv.approx_cross_validate, own, X, y, method="exact", **settings)["test_score"]
    assert np.allclose(got, want, atol=1e-5)


@cases("theirs", ["approx_tune"], "with weights of 0")
def test_rows_of_weight_zero_choose_nothing(name):
    X, y = plain(np.random.default_rng(0))
    w = np.ones(40)
    w[[3, 10]] = 0.0
    kept, values = w > 0, [0.1, 10.0]
    found = ask(acv.approx_tune, Ridge().fit(X, y, w), X, y, values, params={"sample_weight": w})
    expected = acv.approx_tune(Ridge().fit(X[kept], y[kept]), X[kept], y[kept], values)
    assert np.allclose(found.scores, expected.scores)


@cases("theirs", ["approx_cross_validate", "kfold", "treecv"], "folds of ours")
def test_folds_made_here_are_taken_at_every_door(name):
    X, y = plain(np.random.default_rng(0))
    folds = acv.folds.k_fold(40, 4, rng=0)
    if name == "approx_cross_validate":
        folds = acv.folds.leave_future_out(40, [25, 32], horizon=4, gap=2)
        each = zip(folds.omitted, folds.scored, strict=True)
        pairs = [(np.setdiff1d(np.arange(40), omitted), scored) for omitted, scored in each]
        found, want = (
            ask(acv.approx_cross_validate, Ridge().fit(X, y), X, y, cv=cv)["test_score"]
            for cv in (folds, pairs)
        )
    else:
        forms, asked = (folds, list(folds)), (acv.learners.lsqsgd(2, 0.01), acv.Examples(X, y))
        found, want = (ask(getattr(acv, name), *asked, form).pointwise for form in forms)
    assert np.array_equal(found, want)


LEARNERS = {
    "GaussianNB": GaussianNB(),
    "MLPClassifier": MLPClassifier((3,), random_state=0, shuffle=False),
    "SGDClassifier": linear_model.SGDClassifier(random_state=0, shuffle=False),
}


@cases("theirs", LEARNERS, "learnt in part")
def test_partial_fit_is_called_by_name(name):
    """Its arguments stand in another order in every estimator."""
    X, y = plain(np.random.default_rng(0), "logistic")
    est = LEARNERS[name]
    want = np.empty(40)
    for test in acv.folds.k_fold(40, 4):
        train = np.setdiff1d(np.arange(40), test)
        m = clone(est).partial_fit(X[train], y[train], classes=[0, 1])
        want[test] = m.predict(X[test]) != y[test]
    learner = acv.learners.PartialFit(est, classes=(0, 1))
    found = ask(acv.kfold, learner, acv.Examples(X, y), list(acv.folds.k_fold(40, 4)))
    assert np.array_equal(found.pointwise, want)


# hmmlearn

PRIORS = {"startprob_prior": 2.0, "transmat_prior": 2.0}
MIXED, FULL = {"n_mix": 2, "weights_prior": 2.0}, {"covariance_type": "full"}
MATRIX = np.ones((2, 2)) + 20 * np.eye(2)
SETTINGS = {
    "as it is": (hmm.GaussianHMM, {}),
    "covars_prior": (hmm.GaussianHMM, {"covars_prior": 4.0, "covars_weight": 3.0}),
    "means_prior": (hmm.GaussianHMM, {"means_prior": 0.0, "means_weight": 5.0}),
    "transmat_prior": (hmm.GaussianHMM, {"transmat_prior": MATRIX}),
    "params without transmat": (hmm.GaussianHMM, {"params": "smc", "init_params": "mc"}),
    "params without means": (hmm.GaussianHMM, {"params": "stc"}),
    "full": (hmm.GaussianHMM, {"covariance_type": "full", "covars_prior": 0.0}),
    "spherical": (hmm.GaussianHMM, {"covariance_type": "spherical"}),
    "tied": (hmm.GaussianHMM, {"covariance_type": "tied", "covars_prior": 0.0}),
    "min_covar": (hmm.GaussianHMM, {"min_covar": 9.0}),
    "GMM": (hmm.GMMHMM, MIXED),
    "GMM covars_prior": (hmm.GMMHMM, MIXED | {"covars_prior": 1.0, "covars_weight": 2.0}),
    "GMM spherical covars": (hmm.GMMHMM, MIXED | {"covariance_type": "spherical"}),
    "GMM spherical": (hmm.GMMHMM, MIXED | {"covariance_type": "spherical", "covars_prior": -1.5}),
    "GMM full covars_prior": (hmm.GMMHMM, MIXED | FULL | {"covars_prior": np.eye(1)}),
    "full covars_prior": (hmm.GaussianHMM, {"covariance_type": "full", "covars_prior": 3.0}),
    "flat emissionprob": (hmm.CategoricalHMM, {"emissionprob_prior": 1.0}),
    "GMM means_prior": (hmm.GMMHMM, MIXED | {"means_weight": 20.0}),
    "Poisson lambdas_prior": (hmm.PoissonHMM, {"lambdas_prior": 3.0, "lambdas_weight": 2.0}),
    "Categorical": (hmm.CategoricalHMM, {"emissionprob_prior": 2.0}),
    "algorithm": (hmm.GaussianHMM, {"algorithm": "map"}),
}
HONOURED = {"transmat_prior"}  # a kind of setting that ours have, so that it is no use to refuse it


def em(h, X, lengths, n=100):
    """EM that goes on from the parameters that h has."""
    h.init_params, h.n_iter, h.tol = "", n, -np.inf
    h.monitor_ = ConvergenceMonitor(-np.inf, n, False)
    return h.fit(X, lengths)


@cases("theirs", SETTINGS, "of hmmlearn")
def test_refits_are_hmmlearns_or_the_setting_is_refused(name):
    kind, settings = SETTINGS[name]
    rng = np.random.default_rng(1)
    lengths, fold = [40] * 6, np.arange(6) % 3
    z = np.arange(240) // 10 % 2
    X = real_frames(rng, z)[:, :1] / 4.0
    if kind is hmm.PoissonHMM:
        X = rng.poisson(1 + 9 * z)[:, None]
    elif kind is hmm.CategoricalHMM:
        X = np.where(rng.random(240) < 0.8, z, 2)[:, None]
    elif kind is hmm.GMMHMM:
        X = np.where(z, rng.choice([0.0, 9.0], 240), rng.choice([20.0, 32.0], 240))[:, None]
        X = X + rng.normal(size=(240, 1))
    theirs = kind(2, random_state=0, **PRIORS | settings)
    if "init_params" in settings:
        theirs.startprob_ = np.array([0.5, 0.5])
        theirs.transmat_ = np.array([[0.7, 0.3], [0.4, 0.6]])
    with warnings.catch_warnings(action="ignore"):
        em(theirs.fit(X, lengths), X, lengths)
        try:
            model, params = ask(acv.from_hmmlearn, theirs, X, lengths)
        except Refused as error:
            words = str(error)
            assert name.split()[-1].split("_")[0] in words
            assert name not in HONOURED
            return
        fit = ask(acv.fit, model, start=params, tolerance=1e-8)
        found = ask(acv.exact, fit, folds_of(fold)).pointwise
    parts = np.split(X, np.cumsum(lengths)[:-1])
    for k in range(3):
        kept = np.flatnonzero(fold != k)
        h = em(copy.deepcopy(theirs), np.concatenate([parts[i] for i in kept]), [40] * len(kept))
        want = [-h.score(parts[i]) for i in np.flatnonzero(fold == k)]
        assert np.allclose(found[fold == k], want, rtol=1e-4)


@cases("theirs", ["masked", "nan"], "in hmmlearn")
def test_missing_frames_of_hmmlearn_are_missing(name):
    """Masked or nan: the losses are those of the other frames, with hmmlearn's parameters."""
    rng = np.random.default_rng(0)
    X = real_frames(rng, np.arange(60) // 10 % 2)[:, :1]
    h = hmm.GaussianHMM(2, random_state=0, **PRIORS).fit(X)
    gone = (np.arange(60) >= 5) & (np.arange(60) < 20)
    given = np.where(gone[:, None], np.nan, X)
    if name == "masked":
        given = np.ma.masked_array(np.where(gone[:, None], -999.0, X), gone[:, None])
    model, params = ask(acv.from_hmmlearn, h, given)
    dense = norm.logpdf(X, h.means_[:, 0], np.sqrt(h.covars_[:, 0, 0]))
    dense[gone] = 0.0
    alpha = np.log(h.startprob_) + dense[0]
    for own in dense[1:]:
        alpha = logsumexp(alpha[:, None] + np.log(h.transmat_), axis=0) + own
    assert np.isclose(model.sequence_losses(params)[0], -logsumexp(alpha))


# crfsuite

CRF = {"c2": 1.5, "min_freq": 8, "all_possible_states": False, "c1": 0.1, "algorithm": "ap"}
CRF |= {"values below 0": None}


@cases("theirs", CRF, "of crfsuite")
def test_refits_are_crfsuites_or_the_setting_is_refused(name):
    """What crfsuite counts anew without a fold (`min_freq`) is counted anew."""
    data = sentences(np.random.default_rng(2), n=24)
    X, y, fold = words(data["scores"]), names_of(data["tags"]), np.arange(24) % 4
    settings = {"algorithm": "lbfgs", "c1": 0.0, "c2": 0.5, "max_iterations": 2000}
    settings |= {"epsilon": 1e-12, "delta": 1e-12, "period": 3000}
    settings |= {"all_possible_states": True, "all_possible_transitions": True, name: CRF[name]}
    if settings.pop("values below 0", "") is None:
        X = [[token | {"h": -1.0} for token in own] for own in X]
    if name == "algorithm":
        settings = {"algorithm": "ap"}

    def theirs(rows_):
        crf = sklearn_crfsuite.CRF(**settings)
        return crf.fit([X[i] for i in rows_], [y[i] for i in rows_])

    if refused(acv.from_crfsuite, theirs(range(24)), X, y, words=name.split("_")[0]):
        return
    model, params = ask(acv.from_crfsuite, theirs(range(24)), X, y)
    found = acv.exact(acv.fit(model, start=params), folds_of(fold)).pointwise
    for k in range(4):
        crf = theirs(np.flatnonzero(fold != k))
        for i in np.flatnonzero(fold == k):
            crf.tagger_.set(X[i])
            assert np.isclose(found[i], -np.log(crf.tagger_.probability(y[i])), rtol=1e-3)


# Settings of all of them: read, or refused, or one of these for a reason.

HIDDEN, LOGITS, LINE = ["GaussianHMM", "GMMHMM", "CategoricalHMM", "PoissonHMM"], [], ["Ridge"]
LOGITS += ["LogisticRegression", "LogisticRegressionCV"]
LINE += ["LinearRegression", "PoissonRegressor", "RidgeCV"]
HARMLESS = {  # how a fit begins and goes on: one that ends far from the optimum is warned of
    "copy_X implementation init_params max_iter min_covar n_iter n_jobs random_state": "effort",
    "delta epsilon linesearch max_iterations max_linesearch num_memories period": "effort",
    "dual solver tol verbose warm_start": "effort",
    "n_components n_mix n_features": "the shapes of what was fitted are read",
    "means_prior": "nothing without a means_weight, which is refused",
    "intercept_scaling": "of liblinear with an intercept, which is refused",
    "Cs alphas cv gcv_mode l1_ratios scoring store_cv_results use_legacy_attributes": "had chosen",
    "alpha_per_target": "several alpha_ are refused",
    "averaging c calibration_candidates calibration_eta calibration_max_trials": "not of lbfgs",
    "calibration_rate calibration_samples error_sensitive gamma pa_type variance": "not of lbfgs",
    "keep_tempfiles model_filename trainer_cls": "its log and its model file are read and compared",
    "all_possible_states all_possible_transitions": "the model file has what there is; refits keep"
    " that, as the docstring says",
}


@cases("theirs", ["CRF", *HIDDEN, *LOGITS, *LINE], "of each setting")
def test_every_setting_is_read_or_has_a_reason_not_to_be(name, monkeypatch):
    """By the library's own lines: what theirs read of themselves is no matter."""
    rng, read, settings = np.random.default_rng(1), set(), {}
    kind, door = getattr(linear_model, name, None), partial(acv.approx_cross_validate, cv=CV)
    given = plain(rng, "logistic")
    if name == "CRF":
        kind, door, settings = sklearn_crfsuite.CRF, acv.from_crfsuite, {"c1": 0.0}
        scores, tags, *_ = sentences(rng).values()
        given = words(scores), names_of(tags)
    elif name in HIDDEN:
        kind, door, settings = getattr(hmm, name), acv.from_hmmlearn, PRIORS | {"n_components": 2}
        given = (rng.integers(0, 9, (80, 1)),)
    elif name == "LogisticRegressionCV":
        settings = BY_RIDGE
    fitted = kind(**settings).fit(*given)
    usual = kind.__getattribute__

    def seen(self, key):
        if sys._getframe(1).f_code.co_filename.startswith(LIBRARY):
            read.add(key)
        return usual(self, key)

    monkeypatch.setattr(kind, "__getattribute__", seen)
    with warnings.catch_warnings(action="ignore"):
        door(fitted, *given)
    assert fitted.get_params().keys() - read <= {*" ".join(HARMLESS).split()}


# Functions of JAX and torch: checked at every site that they stand for.


def functions(xp):
    """{what is wrong: (loss, heldout)} of a logistic regression, in a library of arrays."""
    X = np.column_stack([np.ones(20), np.random.default_rng(0).normal(size=(20, 2))])
    y, early = np.arange(20) % 2 * 1.0, (np.arange(20) < 10) * 1.0

    def terms(params, sites):  # JAX makes arrays of its own precision, which it sets when it calls
        eta = xp.asarray(X)[sites] @ params
        return xp.logaddexp(0.0 * eta, eta) - xp.asarray(y)[sites] * eta

    def loss(params, weights):
        return (weights * terms(params, slice(None))).sum() + 0.5 * (params**2).sum()

    def ordered(values):
        return xp.sort(values).values if xp.__name__ == "torch" else xp.sort(values)

    def noisy(params, weights):
        return loss(params, weights) + float(np.random.default_rng().normal()) * params.sum()

    return {
        "nothing": (loss, terms),
        "half of the weights unread": (
            lambda p, w: loss(p, 1 + xp.asarray(early) * (w - 1)),
            terms,
        ),
        "losses sorted": (loss, lambda p, s: ordered(terms(p, s))),
        "losses of the sites in order": (loss, lambda p, s: terms(p, ordered(s))),
        "losses of clamped sites": (loss, lambda p, s: terms(p, s.clip(0, 9))),
        "one number for all": (loss, lambda p, s: 0.0 * terms(p, s) + terms(p, s).mean()),
        "noise": (noisy, terms),
    }


LIBRARIES = {"from_jax": "jax.numpy", "from_torch": "torch"}


@cases("theirs", [f"{name} {wrong}" for name in LIBRARIES for wrong in functions(np)])
def test_wrong_functions_are_refused(name):
    """Wherever the sites are at which they go wrong; right ones are taken."""
    door, wrong = name.split(" ", 1)
    adapter, ways = getattr(acv, door), functions(import_module(LIBRARIES[door]))

    def used():
        fit = acv.fit(adapter(*ways[wrong], 20, np.zeros(3)))
        return acv.exact(fit, acv.Folds([np.array([15, 2, 11]), np.array([19, 3, 12])]))

    if wrong == "nothing":
        assert np.isfinite(used().loss)
    else:
        assert refused(used)
