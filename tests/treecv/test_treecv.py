"""TreeCV against its definition: each model is the one trained on the complement, in its order."""

import weakref

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.wrappers import raises
from sklearn.linear_model import SGDRegressor
from sklearn.model_selection import KFold

import acvlib as acv
from acvlib.treecv import Examples, FoldsFailed, kfold, learners, treecv


class Recorder:
    """Its state is the list of rows it has seen, by first feature; tested rows are logged."""

    def __init__(self):
        self.log = {}

    def init(self):
        return []

    def update(self, state, X, y):
        return state + X[:, 0].astype(int).tolist()

    def loss(self, state, X, y):
        self.log |= {row: state for row in X[:, 0].astype(int).tolist()}
        return np.zeros(len(X))


class Tracked(Recorder):
    """Learns nothing, and counts its models."""

    alive, most = weakref.WeakSet(), 0

    def init(self):
        model = Recorder()
        self.alive.add(model)
        self.most = max(self.most, len(self.alive))
        return model

    def copy(self, state):
        return self.init()

    def update(self, state, X, y):
        return state

    def loss(self, state, X, y):
        return np.zeros(len(X))


class Failing(Recorder):
    """Fails to learn, or to test on, a certain row."""

    def __init__(self, learning=None, testing=None, error=ZeroDivisionError):
        super().__init__()
        self.learning, self.testing, self.error = learning, testing, error

    def update(self, state, X, y):
        if self.learning in X[:, 0]:
            raise self.error("a bad row")
        return super().update(state, X, y)

    def loss(self, state, X, y):
        if self.testing in X[:, 0]:
            raise self.error("a bad row")
        return super().loss(state, X, y)


def options(order, seed=7):
    return {"order": order, "rng": np.random.default_rng(seed)}


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return Examples(X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0))


def numbered(n):
    return Examples(np.arange(n, dtype=float)[:, None])


def recorded(n, folds, order, method=treecv):
    """The rows that the model tested on each row had learnt, in order."""
    recorder = Recorder()
    method(recorder, numbered(n), folds, shuffle=False, **options(order))
    return recorder.log


methods = pytest.mark.parametrize("method", [treecv, kfold])
sizes = st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n)))
LEARNERS = {
    "pegasos": learners.pegasos(4, 0.01),
    "lsqsgd": learners.lsqsgd(4, 0.1),
    "k_means": learners.k_means(4, 1),
    "histogram": learners.histogram([-2] * 4, [2] * 4, 3),
}
LSQSGD = LEARNERS["lsqsgd"]


@settings(deadline=None)
@given(
    sizes,
    st.sampled_from(["fixed", "randomized"]),
    st.sampled_from([treecv, kfold]),
    st.sampled_from(sorted(LEARNERS)),
)
def test_a_loss_is_that_of_the_model_trained_on_its_complement_in_order(size, order, method, name):
    n, k = size
    data, learner = table(n, seed=n), LEARNERS[name]
    folds = np.array_split(np.random.default_rng(n).permutation(n), k)
    result = method(learner, data, folds, **options(order))
    log = recorded(n, folds, order, method)
    for fold in folds:
        for row in fold:
            assert sorted([*log[row], *fold]) == list(range(n))
            state = learner.update(learner.init(), data.X[log[row]], data.y[log[row]])
            assert result.pointwise[row] == learner.loss(state, data.X[[row]], data.y[[row]])[0]


def test_the_paper_feeds_its_figure_1_like_this_and_a_state_that_is_kept_is_copied():
    """Before it learns, where the learner keeps it."""
    assert recorded(4, 4, "fixed") == {0: [2, 3, 1], 1: [2, 3, 0], 2: [0, 1, 3], 3: [0, 1, 2]}
    kept = Recorder()
    kept.init = lambda state=[]: state  # noqa: B006
    kept.update = lambda state, X, y: state.extend(X[:, 0].astype(int)) or state
    kfold(kept, numbered(12), 4, shuffle=False)
    assert all(row not in learnt and len(learnt) == 9 for row, learnt in kept.log.items())


@given(sizes)
def test_updates_and_copies_are_those_of_the_recursion(size):
    n, k = size
    result = treecv(LSQSGD, table(n), k)

    def cost(sizes):  # T(s, e) of Theorem 3, in rows learnt
        half = (len(sizes) + 1) // 2
        return sum(sizes) + cost(sizes[:half]) + cost(sizes[half:]) if len(sizes) > 1 else 0

    chunks = np.bincount(result.fold_of).tolist()
    assert chunks == [n // k + 1] * (n % k) + [n // k] * (k - n % k)
    assert result.evaluations == {"updates": cost(chunks), "copies": k - 1}
    assert result.evaluations["updates"] <= n * np.log2(2 * k)


@pytest.mark.parametrize("k", [2, 100, 1000])
def test_the_stack_of_models_is_as_high_as_the_tree(k):
    """Section 4.1: one model a level of the branch, O(log k) in all."""
    learner = Tracked()
    treecv(learner, table(1000), k)
    assert not learner.alive
    assert learner.most == 1 + int(np.ceil(np.log2(k)))


class Plain(Recorder):
    """In Python, and sent to processes."""

    init, update, loss = LSQSGD.init, LSQSGD.update, LSQSGD.loss


BACKENDS = [("threading", 5, LSQSGD, "randomized"), ("threading", 2, Plain(), "fixed")]
BACKENDS += [("loky", 2, LSQSGD, "fixed"), ("loky", 2, Plain(), "randomized")]


@methods
@pytest.mark.parametrize(("backend", "n_jobs", "learner", "order"), BACKENDS)
def test_parallel_is_the_same_to_the_bit(method, backend, n_jobs, learner, order):
    data = table(150)
    serial = method(learner, data, 11, **options(order))
    assert serial.evaluations == method(LSQSGD, data, 11, **options(order)).evaluations
    with joblib.parallel_config(backend=backend, n_jobs=n_jobs):
        parallel = method(learner, data, 11, **options(order))
    np.testing.assert_array_equal(parallel.pointwise, serial.pointwise)
    if n_jobs == 2:  # more workers train the way to their branches more than once
        assert parallel.evaluations["updates"] == serial.evaluations["updates"]


def test_losses_are_counted_by_row_and_by_fold():
    """With unequal chunks R_k-CV, the mean of fold means, is not the mean over rows."""
    result = treecv(LSQSGD, table(11), [np.arange(8), np.array([8]), np.array([9, 10])])
    losses = [result.pointwise[:8].mean(), result.pointwise[8], result.pointwise[9:].mean()]
    np.testing.assert_allclose(result.fold_losses, losses, rtol=1e-15)
    np.testing.assert_allclose(result.fold_totals, np.array(losses) * [8, 1, 2], rtol=1e-14)
    assert result.loss == pytest.approx(result.pointwise.mean(), rel=1e-15)
    assert result.loss != pytest.approx(result.fold_losses.mean(), rel=1e-3)
    deviations = np.array([8, 1, 2]) * (np.array(losses) - result.loss)
    assert result.se == pytest.approx(np.sqrt(3 / 2 * (deviations**2).sum()) / 11, rel=1e-12)
    assert result.to_frame()["size"].tolist() == [8, 1, 2]
    assert "lsqsgd" in repr(result)


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (1, "k = 1 folds of 10 rows"),
        (11, "k = 11 folds of 10 rows"),
        (KFold(5), r"acv.folds.from_splitter\(KFold\(...\), X\)"),
        ([np.arange(5), np.arange(4, 10)], "row 4 is in 2 folds"),
        ([np.arange(5), np.arange(6, 10)], "row 5 is in 0 folds"),
        (acv.folds.leave_one_out(20), "made for 20 sites"),
        (acv.Folds([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], [[0], [5]]), "scores only part"),
    ],
)
def test_bad_folds(folds, message):
    raises(message, treecv, LEARNERS["pegasos"], table(10), folds, error=(TypeError, ValueError))


@methods
def test_rows_sorted_by_class_are_shuffled(method):
    data, learner = table(400), LEARNERS["pegasos"]
    data = data.take(np.argsort(data.y, kind="stable"))
    result = method(learner, data, 5)
    by_hand = method(learner, data, np.array_split(np.random.default_rng(0).permutation(400), 5))
    np.testing.assert_array_equal(result.pointwise, by_hand.pointwise)
    assert (result.shuffled, by_hand.shuffled) == (True, False)
    assert "shuffled" in repr(result)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@methods
def test_an_exception_names_its_folds_and_the_others_go_on_but_for_ctrl_c(n_jobs, method):
    with pytest.raises(KeyboardInterrupt):
        treecv(Failing(testing=5, error=KeyboardInterrupt), numbered(16), 8)

    def failed(learner):
        with pytest.raises(FoldsFailed) as caught:
            method(learner, numbered(16), 8, shuffle=False)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        return str(caught.value), np.isfinite(caught.value.result.fold_losses)

    with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
        message, finished = failed(Failing(testing=5))
        assert message == "fold 2 failed: ZeroDivisionError: a bad row"
        np.testing.assert_array_equal(finished, np.arange(8) != 2)
        message, finished = failed(Failing(learning=5))
        assert message == "fold 0 failed: ZeroDivisionError: a bad row (and 6 more folds)"
        np.testing.assert_array_equal(finished, np.arange(8) == 2)  # trained without row 5


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"update": lambda self, state, X, y: X.fill(0.0)}, "read-only"),
        ({"loss": lambda self, state, X, y: 0.5}, r"loss has shape \(\), not \(4,\)"),
        ({"loss": lambda self, state, X, y: X[:, 0] + np.nan}, "loss of row 0 is nan"),
        ({"copy": lambda self, state: state.missing}, "failed: AttributeError"),
        ({"update": lambda self, state, X, y: state.append(0)}, "update returned None: return"),
        (  # it keeps what it learns in itself, which the folds would share
            {"init": lambda self: None, "update": lambda self, state, X, y: None},
            "update returned None: return",
        ),
    ],
)
def test_a_learner_that_does_what_it_must_not_is_told(member, message):
    data = table(20)
    before = data.X.copy()
    raises(message, treecv, type("Wrong", (Recorder,), member)(), data, 5, error=FoldsFailed)
    np.testing.assert_array_equal(data.X, before)


@methods
def test_what_is_no_learner_is_refused_with_the_ways_to_make_one_of_it(method):
    rows = Examples(np.arange(40.0).reshape(20, 2), np.arange(20.0))
    for other in (SGDRegressor(), learners.pegasos, Recorder):
        with pytest.raises(TypeError, match="of type IncrementalLearner; ") as caught:
            method(other, rows, 5)
        assert "acv.learners.PartialFit(estimator)" in str(caught.value)
        assert "init(), update(state, X, y) and loss(state, X, y)" in str(caught.value)
    assert np.isfinite(method(learners.PartialFit(SGDRegressor()), rows, 5).loss)
