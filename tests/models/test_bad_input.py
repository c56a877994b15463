"""What models refuse, and say so: each a clear error, never a number."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from oracles.wrappers import raises, raises_no_fit
from scipy.sparse import csr_matrix
from test_mrf import LINKS, LISTED
from test_sums_over_pairs import half_labelled, of_pairs

import acvlib as acv
from acvlib.models import GLM, GLMHMM, HMM, CategoricalHMM, GaussianHMM, HiddenMRF, PoissonTraffic
from acvlib.models.hmm.emissions import Categorical
from acvlib.models.semisupervised.energy import GraphAffinity, ManifoldEnergy, RBFAffinity
from acvlib.trials import NoFiniteOptimum, UnconvergedFit, separated

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.tile([0.0, 1.0, 1.0], 10)
FREE = np.nan
OPEN = [FREE, FREE]
NAMED = pd.DataFrame(np.full((3, 2), 0.5), list("sab"), list("ab"))  # initial, then two states
ROWS = np.array([[0.0, 1], [np.nan, 2], [3, 3]])
glm = partial(GLM, X=X, y=Y)
SCORES = [np.zeros((2, 3)), np.zeros((1, 3))]
STEEP = [np.zeros((2, 3)), np.array([[0.0, 0.0, 400.0]])]
crf = partial(acv.models.LinearChainCRF, emissions=SCORES, labels=[[0, 1], [2]])
of_words = partial(acv.FeatureCRF, sentences=[[["a"]], [["b"]]], labels=[["A"], ["B"]])
mrf = partial(HiddenMRF, counts=LISTED, edges=LINKS, coupling=0.5)
hmm = partial(HMM, [np.arange(9.0)], 2)
full = GaussianHMM(X, 2, covariance="full")
REFUSED = [
    (lambda: glm(y=np.c_[Y, Y]), "several targets are of the gaussian family alone"),
    (lambda: glm(y=np.ones(30)), "y has responses of one class alone"),
    (lambda: glm(y=np.zeros(30), family="poisson"), "y has counts of 0 alone"),
    (lambda: glm(y=Y[:, None]), r"of the gaussian family alone: pass y.ravel\(\)"),
    (lambda: glm(y=np.eye(2)[Y.astype(int)], family="multinomial"), r"y.argmax\(axis=1\) of ones"),
    (lambda: glm(X=NAMED, y=Y[:3], penalty=pd.Series([1.0, 2.0])), "that of the columns: if"),
    (lambda: glm(X=X[:, [0, 1, 0]]), "collinear, column [13] among them"),
    (lambda: glm(X=np.column_stack([X, np.ones(30)])), "collinear, column [03]"),
    (lambda: glm(X=RNG.normal(size=(30, 40))), "collinear"),
    (lambda: crf(labels=[[0, 3], [0]]), "sentence 0: labels must be whole numbers from 0 to 2"),
    (lambda: crf(emissions=STEEP), "1: .* 300 nats"),
    (lambda: crf(ridge=np.ones(3)), r"must be one number or \(n_params,\), n_params = 15"),
    (lambda: crf(scheme=acv.weighting.keep_latents), "scheme must be"),
    (lambda: of_words(sentences=[[[{3: 1.0}], [["b"]]]]), "names of attributes must be strings"),
    (lambda: of_words(free=[0, 0]), "free must be rising"),
    (lambda: of_words(free=[99]), "free must be whole numbers from 0 to 7"),
    (lambda: CategoricalHMM([0, 1, 2, 1], 2, 2), "x holds 2: only 0, 1 .* give n_categories=3"),
    (lambda: full.unpack(np.full(full.n_params, 800.0)), "a covariance .* is infinite"),
    (lambda: crf(labels=[np.ma.masked_equal([0, 1], 1), [0]]), "or leave these out"),
    (lambda: CategoricalHMM(np.eye(9), 2), "9 channels of codes"),
    (lambda: GLMHMM([0, 1, 2.0, 1], np.arange(4.0), 2), "x holds 2: only 0 ... 1"),
    (lambda: GaussianHMM(ROWS, 2, covariance="full"), "frame 1 of sequence 0: a frame is finite"),
    (lambda: GaussianHMM((np.ones((9, 2)), [4, 4]), 2), r"lengths, \[4, 4\], sum to 8"),
    (lambda: GaussianHMM((np.arange(9.0), [4, 5]), 2), "takes a 2-d X"),
    (lambda: GaussianHMM(np.array([2**63, 2**63 + 5, 9], np.uint64), 2), r"beyond 2\^53"),
    (lambda: GaussianHMM(np.array([0.0, 1.0, 2.0, 1e200]), 2), r"beyond 1e\+100: rescale"),
    (lambda: GaussianHMM(np.arange(9) * 1e-200, 2), "rescale it"),
    (lambda: GaussianHMM(np.ones(9), 2), "channel 0 is 1 in every frame of every sequence"),
    (lambda: hmm(fixed=np.ones((2, 2))), r"fixed \(2, 2\): must be \(3, 2\), nan where free"),
    (lambda: hmm(fixed=[OPEN, [0.5, 0.4], OPEN]), "fixed row 1"),
    (lambda: hmm(fixed=[OPEN, OPEN, [1.2, FREE]]), "fixed row 2"),
    (lambda: hmm(fixed=[[-0.1, FREE], OPEN, OPEN]), "fixed row 0"),
    (lambda: hmm(fixed=pd.DataFrame(np.ones((3, 2)) / 2, columns=[1, 0])), r"not \[1, 2\]: if"),
    (
        lambda: hmm(Categorical(fixed=pd.DataFrame(OPEN, ["b", "a"])), fixed=NAMED),
        "'b', 'a'.*'a', 'b",
    ),
    (lambda: hmm(Categorical(fixed=pd.DataFrame(OPEN, [1, 0]))), r"\[1, 0\], and not \[0, 1\]"),
    (lambda: hmm(Categorical(symbols=range(9), fixed=NAMED[1:])), r"\['a', 'b'\], and not \[0, 1"),
    (lambda: hmm(Categorical(symbols=(1, 0))), "must be several codes, in rising order"),
    (lambda: hmm(known_states=np.zeros(8)), r"known_states of shape \(8,\) must be \(9,\)"),
    (lambda: hmm(known_states=[np.zeros(8)]), r"known_states\[0\] of shape \(8,\) must be"),
    (lambda: hmm(known_states=[None] * 2), "known_states are of 2 sequences, not 1: give"),
    (lambda: hmm(known_states=[0, 1, 2] * 3), "known_states is 2 at frame 2: .* from 0 to 1, nan"),
    (lambda: hmm(known_states=[np.arange(9.0) / -2]), r"known_states\[0\] is -0.5 at frame 1"),
    (lambda: hmm(known_states=np.full(9, np.inf)), "known_states is inf at frame 0"),
    (lambda: hmm(known_states=["wake", "rem", FREE] * 3), r"map\({'rem': 0, 'wake': 1}\), which"),
    (lambda: hmm(known_states="wake"), "give an array of states for each sequence"),
    (lambda: mrf(counts=[0] * 7), "all 7 counts are 0"),
    (lambda: mrf(sample_weight=[0, 0, 0, 0, 1, 0, 0]), "all 1 counts are 0 where sample_weight"),
    (lambda: mrf(n_states=9), "9 of 7 distinct counts: .* from 1 to 7"),
    (lambda: replace(of_pairs("ranking"), y=np.zeros(30)), "every y is 0.0: no two points differ"),
    (lambda: replace(half_labelled(), y=np.full(40, np.nan)), "0 points have a label"),
    (lambda: replace(half_labelled(), y=np.zeros(40), loss="logistic"), r"1 or \+1; found \[0.\]"),
    (lambda: GraphAffinity([[0.0, 1.0], [2.0, 0.0]]), r"W\[0, 1\] = 1 and W\[1, 0\] = 2"),
    (lambda: GraphAffinity(csr_matrix([[0.0, 1.0], [0.0, 0.0]])), "not symmetric"),
    (lambda: ManifoldEnergy(X, RBFAffinity(X[:2], 1.0)), "a row for each of 2 points"),
    (lambda: PoissonTraffic([-1, -1, -1], [0, 1, 2]), "0 of 3 counts are observed"),
]
BEYOND = "counts must be whole numbers from -1 to 10000"
for count in (10_001, 1e19, 2**64 - 1, np.nan):  # 1e19 must not wrap to a missing one
    REFUSED.append((lambda n=count: PoissonTraffic([3, n, 2, 4], [0, 0, 1, 1]), BEYOND))


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_bad_input_is_named(make, message):
    raises(message, make)


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_separable_classes_have_no_fit_nor_a_fold_that_leaves_a_group_of_one_class(family, rng):
    """In any unit of the linear predictor: scores of probit are half as far apart."""
    x, y = np.sort(X[:, :1], axis=0), (np.arange(30) >= 15) * 1.0
    raises_no_fit("separates the responses", acv.fit, GLM(x, y, family))
    x[15] = x[14]  # quasi-separation: both classes at one x
    raises_no_fit("separates the responses", acv.fit, GLM(x, y, family))
    group, y = np.repeat([0.0, 1.0], 15), np.where(np.arange(30) < 15, Y, 1.0)
    counts, group = np.where(group == 1, 0, rng.poisson(3.0, 30)), group[:, None]
    raises_no_fit("poisson likelihood", acv.fit, GLM(group, counts, "poisson"))
    raises_no_fit("separates the responses", acv.fit, GLM(group, y, family))
    y[15] = 0.0
    with pytest.warns(UnconvergedFit, match=f"without fold 1 the {family} likelihood"):
        refits = acv.exact(acv.fit(GLM(group, y, family)), acv.Folds([[0], [15]]))
    assert np.isfinite(refits.fold_losses).tolist() == [True, False]
    assert refits.diagnostics["converged"].tolist() == [True, False]


@pytest.mark.parametrize("family", ["logistic", "probit", "poisson"])
def test_fits_are_refused_just_where_a_linear_program_separates_their_responses(family):
    """Which is asked only where the rows that still pull leave a direction free."""
    refused = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 3, (20, 2)) + (0.0 if seed % 2 else rng.normal(size=(20, 2)))
        eta = 10.0 ** rng.uniform(-0.5, 1.0) * (x - 1.0) @ rng.normal(size=2)
        mean = np.exp(np.clip(eta - 2.0, -8.0, 2.0))
        y = rng.poisson(mean) if family == "poisson" else rng.logistic(size=20) < eta
        if len(np.unique(y)) == 1:
            continue
        model = GLM(x, 1.0 * y, family)
        rows = model.columns.standard[:, model.columns.free]
        refused.append(separated(*model.family.gains(rows, model.responses)))
        try:
            acv.fit(model)
            assert not refused[-1]
        except NoFiniteOptimum:
            assert refused[-1]
    assert 3 < sum(refused) < len(refused) - 3


def test_no_linear_program_is_solved_where_rows_on_both_sides_pull(rng, monkeypatch):
    x = rng.normal(size=(200, 3))
    y = 1.0 * (4.0 * x[:, 0] + rng.normal(size=200) > 0)
    monkeypatch.setattr("acvlib.models.glm.columns.separated", None)
    fit = acv.fit(GLM(x, y, "probit"))
    assert fit.model.family.certainty(fit.model.predictors(fit.params[None]), y).max() > 50.0
    for folds in (acv.folds.leave_one_out(200), acv.folds.k_fold(200, 5)):
        assert acv.exact(fit, folds).diagnostics["converged"].all()


@pytest.mark.parametrize("cuts", [[0.0], [-0.5, 0.5]])
def test_a_direction_with_a_penalty_separates_nothing(cuts):
    y = np.digitize(X[:, 0], cuts)
    free, tiny = (GLM(X, y, "multinomial", penalty=[0.01, least]) for least in (0.0, 1e-9))
    np.testing.assert_allclose(acv.fit(free).params, acv.fit(tiny).params, atol=1e-5)
    raises_no_fit("separates the responses", acv.fit, GLM(X, y, "multinomial", penalty=[0.0, 0.01]))


def test_what_a_penalty_identifies_is_fitted_and_a_singular_fit_names_no_fold():
    groups = np.arange(30) // 10
    x = np.column_stack([X[:, 0], np.eye(3)[groups]])  # collinear, but for the penalty
    models = [GLM(x, Y, penalty=[least, 1.0, 1.0, 1.0]) for least in (0.0, 1e-9)]
    folds = acv.folds.leave_group_out(groups)
    free, tiny = (acv.exact(acv.fit(model), folds).fold_losses for model in models)
    np.testing.assert_allclose(free, tiny, rtol=1e-7)
    model = GLM(np.column_stack([X, X[:, 0] + 1e-8 * X[:, 1]]), Y, "logistic", penalty=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="all but collinear") as singular:
        acv.fit(model)
    assert "fold" not in str(singular.value)


RUNGS = [acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step, acv.exact]


@pytest.mark.parametrize("family", ["gaussian", "logistic", "multinomial", "poisson", "probit"])
def test_a_large_penalty_is_that_of_a_small_unit(family):
    models = GLM(X, Y, family, penalty=1e12), GLM(1e-6 * X, Y, family, penalty=np.ones(2))
    for method in RUNGS:
        ours, theirs = (method(acv.fit(model), acv.folds.k_fold(30, 5)) for model in models)
        np.testing.assert_allclose(ours.fold_losses, theirs.fold_losses, rtol=1e-8)


@pytest.mark.parametrize("method", RUNGS)
def test_a_fold_that_leaves_one_class_or_alone_identifies_a_column_is_named(method, rng):
    y = np.zeros(30)
    y[[4, 9]] = 1.0
    classes, pairs = GLM(X, y, penalty=1.0), [np.array([0, 1]), np.array([4, 9])]
    column = GLM(np.column_stack([X, np.arange(30) == 7]), rng.normal(size=30), "gaussian")
    one_class = "fold 1: NoFiniteOptimum: fold 1 leaves responses of one class alone"
    for model, folds, why in (
        (classes, pairs, one_class),
        (classes, np.array(pairs), one_class),
        (column, [[3], [7]], "fold 1: LinAlgError: .* singular without fold 1"),
    ):
        with pytest.warns(UnconvergedFit, match=why):
            result = method(acv.fit(model), folds)
        assert np.isfinite(result.fold_losses).tolist() == [True, False]
    raises_no_fit("fold 0 leaves responses of one class", method, acv.fit(classes), pairs[1:])


@pytest.mark.parametrize("family", ["gaussian", "logistic"])
def test_a_column_that_a_fold_only_shares_is_fitted_without_it(family):
    """Two rows hold the column: either may go, and both together may not."""
    model = GLM(np.column_stack([X, np.isin(np.arange(30), [3, 7])]), Y, family)
    fit = acv.fit(model)
    pair = np.array([[3, 7]])
    with pytest.raises(np.linalg.LinAlgError, match="singular without fold 0"):
        acv.infinitesimal_jackknife(fit, pair)
    if family == "gaussian":
        left = np.delete(np.arange(30), 3)
        refit = np.linalg.lstsq(model.design[left], Y[left], rcond=None)[0]
        np.testing.assert_allclose(acv.newton_step(fit, [[3]]).params[0], refit, atol=1e-10)
    penalised = GLM(model.X, Y, family, penalty=0.1)
    assert np.isfinite(acv.infinitesimal_jackknife(acv.fit(penalised), pair).loss)


def test_well_fitted_but_inseparable_classes_have_a_fit_and_folds_that_separate_them_none():
    x = np.concatenate([np.linspace(-300, 300, 60), [1.0, -1.0]])[:, None]
    y = np.concatenate([(np.linspace(-300, 300, 60) > 0) * 1.0, [0.0, 1.0]])
    model = GLM(x, y)
    fit = acv.fit(model)
    assert abs(x @ fit.params[1:]).max() > 15
    assert fit.newton_decrement <= 1e-6
    x = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 0.5, -0.5])[:, None]
    model = GLM(x, np.array([0, 0, 0, 1, 1, 1, 0, 1]), "logistic")
    fit = acv.fit(model)
    folds = acv.Folds([[0, 5], [6, 7]])
    with pytest.warns(UnconvergedFit, match="without fold 1 the logistic likelihood"):
        refits = acv.exact(fit, folds)
    assert np.isfinite(refits.fold_losses).tolist() == [True, False]
    assert refits.diagnostics["converged"].tolist() == [True, False]
    result = acv.newton_step(fit, folds)
    assert acv.check_result(result).unreliable[1]
    with pytest.warns(UnconvergedFit, match="1 of 1 folds are nan|fold 1"):
        assert np.isnan(acv.refit_unreliable(result).fold_losses[1])
    assert acv.exact(fit, folds[:1]).diagnostics["converged"].all()
