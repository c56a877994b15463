"""TreeCV against its definition: each model is the one trained on the complement, in its order."""

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import SGDRegressor

from acvlib.incremental import FoldsFailed, LabelRuns, kfold, learners, treecv
from acvlib.incremental.chunks import count_updates, edges, partition
from acvlib.incremental.protocol import CompiledLearner, Examples, IncrementalLearner
from acvlib.scores import Interrupted


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


class Reverting:
    """Counts per value, with save and revert in place of copies."""

    def init(self):
        return np.zeros(50)

    def update(self, state, X, y):
        np.add.at(state, X[:, 0].astype(int), 0.1)
        return state

    def save(self, state, X, y):
        cells = np.unique(X[:, 0].astype(int))
        return cells, state[cells].copy()

    def revert(self, state, saved):
        cells, values = saved
        state[cells] = values
        return state

    def loss(self, state, X, y):
        return state[X[:, 0].astype(int)]


class Copying:
    """The same without save and revert."""

    init, update, loss = Reverting.init, Reverting.update, Reverting.loss


class Model:
    """A state that knows how many of its kind there are."""

    alive = most = 0

    def __init__(self):
        Model.alive += 1
        Model.most = max(Model.most, Model.alive)

    def __del__(self):
        Model.alive -= 1


class Tracked:
    """Learns nothing, with models that are counted."""

    def init(self):
        return Model()

    def copy(self, state):
        return Model()

    def update(self, state, X, y):
        return state

    def loss(self, state, X, y):
        return np.zeros(len(X))


def options(order, seed=7):
    return {"order": order, "rng": None if order == "fixed" else np.random.default_rng(seed)}


def table(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return Examples(X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0))


def recorded(n, folds, order, method=treecv):
    """The rows that the model tested on each row had learnt, in order."""
    recorder = Recorder()
    data = Examples(np.arange(n, dtype=float)[:, None])
    method(recorder, data, folds, shuffle=False, **options(order))
    return recorder.log


sizes = st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n)))
orders = st.sampled_from(["fixed", "randomized"])
LEARNERS = {
    "pegasos": learners.pegasos(3, 0.01),
    "lsqsgd": learners.lsqsgd(3, 0.1),
    "k_means": learners.k_means(3, 1, batch_size=3),
    "histogram": learners.histogram([-2, -2, -2], [2, 2, 2], 3),
}


@given(sizes, orders, st.sampled_from([treecv, kfold]))
def test_every_model_has_learnt_exactly_the_other_chunks(size, order, method):
    n, k = size
    folds = np.array_split(np.random.default_rng(n).permutation(n), k)
    log = recorded(n, folds, order, method)
    for fold in folds:
        for row in fold:
            assert sorted([*log[row], *fold]) == list(range(n))


@settings(deadline=None)
@given(sizes, orders, st.sampled_from([treecv, kfold]), st.sampled_from(sorted(LEARNERS)))
def test_every_loss_is_that_of_the_model_trained_on_the_complement_in_that_order(
    size, order, method, name
):
    n, k = size
    data, learner = table(n, seed=n), LEARNERS[name]
    result = method(learner, data, k, shuffle=False, **options(order))
    log = recorded(n, k, order, method)
    for row in range(n):
        state = learner.update(learner.init(), *(part[log[row]] for part in (data.X, data.y)))
        assert result.pointwise[row] == learner.loss(state, data.X[[row]], data.y[[row]])[0]


def test_a_state_is_seen_to_the_last_bit():
    """The check above would pass on 0/1 losses; a squared error shows every bit of the state."""
    data, learner = table(30), LEARNERS["lsqsgd"]
    fixed, other = treecv(learner, data, 30), treecv(learner, data, 30, **options("randomized"))
    assert (fixed.pointwise != other.pointwise).mean() > 0.9


def test_the_paper_feeds_its_figure_1_like_this():
    """Figure 1: the model tested on z1 learns z3, z4, z2; that tested on z2 learns z3, z4, z1."""
    assert recorded(4, 4, "fixed") == {0: [2, 3, 1], 1: [2, 3, 0], 2: [0, 1, 3], 3: [0, 1, 2]}


@given(sizes)
def test_updates_and_copies_are_those_of_the_recursion(size):
    n, k = size
    result = treecv(LEARNERS["lsqsgd"], table(n), k)

    def cost(first, last):  # T(s, e) of Theorem 3, in rows learnt
        if first == last:
            return 0
        here = sum(chunk_sizes[first : last + 1])
        return here + sum(cost(edge.first, edge.last) for edge in edges(first, last))

    chunk_sizes = [len(part) for part in np.array_split(np.arange(n), k)]
    assert result.evaluations["updates"] == cost(0, k - 1) == count_updates(chunk_sizes)
    assert result.evaluations["copies"] == k - 1
    assert result.evaluations["updates"] <= n * np.log2(2 * k)


@pytest.mark.parametrize("k", [2, 100, 1000])
def test_the_stack_of_models_is_as_high_as_the_tree(k):
    """Section 4.1: one model a level of the branch, O(log k) in all."""
    Model.most = 0
    treecv(Tracked(), table(1000), k)
    assert Model.alive == 0
    assert Model.most == 1 + int(np.ceil(np.log2(k)))


@pytest.mark.parametrize(("k", "updates"), [(5, 2.4), (10, 3.4), (100, 6.72), (1000, 9.976)])
def test_updates_a_row(k, updates):
    assert count_updates(np.full(k, 3)) == pytest.approx(updates * 3 * k, abs=1e-6)


@pytest.mark.parametrize("order", ["fixed", "randomized"])
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_compiled_and_plain_walks_agree(order, name):
    """A learner that is not a `CompiledLearner` by type goes through Python, node by node."""

    class Plain:
        init, update, loss = (getattr(LEARNERS[name], part) for part in ("init", "update", "loss"))

    data = table(200)
    for method in (treecv, kfold):
        for k in (2, 7, 200):
            plain, compiled = (
                method(learner, data, k, **options(order)) for learner in (Plain(), LEARNERS[name])
            )
            np.testing.assert_array_equal(plain.pointwise, compiled.pointwise)
            assert plain.evaluations == compiled.evaluations


@pytest.mark.parametrize("order", ["fixed", "randomized"])
@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("method", [treecv, kfold])
def test_parallel_is_the_same_to_the_bit(order, backend, method):
    data, learner = table(150), LEARNERS["lsqsgd"]
    serial = method(learner, data, 11, **options(order))
    with joblib.parallel_config(backend=backend, n_jobs=2):
        parallel = method(learner, data, 11, **options(order))
    np.testing.assert_array_equal(parallel.pointwise, serial.pointwise)
    assert parallel.evaluations["updates"] == serial.evaluations["updates"]


def test_same_seed_same_numbers():
    data, learner = table(100), LEARNERS["lsqsgd"]
    first, again, other = (
        treecv(learner, data, 10, **options("randomized", seed)).loss for seed in (1, 1, 2)
    )
    assert first == again != other


def test_save_and_revert_in_place_of_copies():
    """Sums of 0.1 are not exact, so subtracting would not bring back the state: saved values do."""
    X = np.random.default_rng(0).integers(0, 50, 300).astype(float)[:, None]
    for order in ("fixed", "randomized"):
        reverted, copied = (
            treecv(one, Examples(X), 60, **options(order)) for one in (Reverting(), Copying())
        )
        np.testing.assert_array_equal(reverted.pointwise, copied.pointwise)
        assert (reverted.evaluations["copies"], copied.evaluations["copies"]) == (0, 59)


def test_losses_are_counted_by_row_and_by_fold():
    """With unequal chunks R_k-CV, the mean of fold means, is not the mean over rows."""
    result = treecv(LEARNERS["lsqsgd"], table(11), [np.arange(8), np.array([8]), np.array([9, 10])])
    losses = [result.pointwise[:8].mean(), result.pointwise[8], result.pointwise[9:].mean()]
    np.testing.assert_allclose(result.fold_losses, losses, rtol=1e-15)
    np.testing.assert_allclose(result.fold_totals, np.array(losses) * [8, 1, 2], rtol=1e-14)
    assert result.loss == pytest.approx(result.pointwise.mean(), rel=1e-15)
    assert result.loss != pytest.approx(result.fold_losses.mean(), rel=1e-3)
    deviations = np.array([8, 1, 2]) * (np.array(losses) - result.loss)
    assert result.se == pytest.approx(np.sqrt(3 / 2 * (deviations**2).sum()) / 11, rel=1e-12)
    np.testing.assert_array_equal(np.concatenate(result.losses), result.pointwise)
    assert result.to_frame()["size"].tolist() == [8, 1, 2]
    assert ", of lsqsgd(" in repr(result)


@pytest.mark.parametrize("order", ["fixed", "randomized"])
def test_without_targets_a_learner_gets_none(order):
    class Unsupervised(Recorder):
        def update(self, state, X, y):
            assert y is None
            return super().update(state, X, y)

    assert treecv(Unsupervised(), Examples(table(20).X), 5, **options(order)).loss == 0


def test_learners_follow_the_protocol():
    assert all(
        isinstance(learner, IncrementalLearner | CompiledLearner) for learner in LEARNERS.values()
    )
    assert isinstance(Recorder(), IncrementalLearner)


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (1, "k = 1 folds of 10 rows"),
        (11, "k = 11 folds of 10 rows"),
        ([np.arange(5), np.array([], int), np.arange(5, 10)], "fold 1 is empty"),
        ([np.arange(5), np.arange(4, 10)], "row 4 is in 2 folds"),
        ([np.arange(5), np.arange(6, 10)], "row 5 is in 0 folds"),
        ([np.arange(5), np.arange(5, 11)], "fold 1 holds site 10, outside 0 ... 9"),
        ([np.arange(5), np.arange(5, 10) / 2], "fold 1 is not a non-empty"),
    ],
)
def test_bad_folds(folds, message):
    with pytest.raises(ValueError, match=message.replace("...", r"\.\.\.")):
        treecv(LEARNERS["pegasos"], table(10), folds)


@pytest.mark.parametrize(("k", "cuts"), [(3, [0, 4, 7, 10]), (4, [0, 3, 6, 8, 10])])
def test_an_integer_cuts_where_it_says(k, cuts):
    """Chunks of n // k rows, the first n % k of them with one more."""
    rows, bounds = partition(k, 10)
    np.testing.assert_array_equal(rows, np.arange(10))
    np.testing.assert_array_equal(bounds, cuts)


@pytest.mark.parametrize("order", ["fixed", "randomized", "sorted"])
def test_order_and_rng_belong_together(order):
    rng = np.random.default_rng(0) if order == "fixed" else None
    with pytest.raises(ValueError, match='"randomized" needs a Generator'):
        treecv(LEARNERS["pegasos"], table(10), 5, shuffle=False, order=order, rng=rng)


def sorted_table(n=400):
    """Rows sorted by class."""
    data = table(n)
    return data.take(np.argsort(data.y, kind="stable"))


@pytest.mark.parametrize("method", [treecv, kfold])
def test_rows_sorted_by_class_are_shuffled(method):
    """The answer is that of shuffled rows: each model deleted from and refitted by hand agrees."""
    data, learner = sorted_table(), LEARNERS["pegasos"]
    result = method(learner, data, 5)
    fold = result.fold_of == 2
    in_order = np.random.default_rng(0).permutation(400)
    left_out = in_order[fold[in_order]]
    others = in_order[~fold[in_order]]
    np.testing.assert_array_equal(np.sort(left_out), np.flatnonzero(fold))
    if method is kfold:
        state = learner.update(learner.init(), data.X[others], data.y[others])
        losses = learner.loss(state, data.X[fold], data.y[fold])
        np.testing.assert_array_equal(result.pointwise[fold], losses)
    by_hand = method(learner, data, np.array_split(in_order, 5))
    np.testing.assert_array_equal(result.pointwise, by_hand.pointwise)
    assert result.shuffled
    assert not by_hand.shuffled
    assert ", shuffled, " in repr(result)


def test_a_learner_of_the_latest_rows_looks_good_on_sorted_ones_alone():
    class Latest:
        def init(self):
            return 0.0

        def update(self, state, X, y):
            return y[-1]

        def loss(self, state, X, y):
            return (y != state).astype(float)

    data = sorted_table()
    with pytest.warns(LabelRuns, match="stand next to each other"):
        wrong = treecv(Latest(), data, 100, shuffle=False)
    assert wrong.loss < 0.02
    assert treecv(Latest(), data, 100).loss > 0.4


def test_shuffles_are_seeded():
    data, learner = table(100), LEARNERS["lsqsgd"]
    runs = [treecv(learner, data, 10, rng=rng).fold_of for rng in (None, None, 0, 1)]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
    assert (runs[0] != runs[3]).mean() > 0.5
    assert (np.diff(treecv(learner, data, 10, shuffle=False).fold_of) >= 0).all()


def test_folds_of_rows_are_learnt_as_they_stand():
    """A time series keeps its order; labels in runs are warned of all the same."""
    log = recorded(6, [np.array([4, 5]), np.array([0, 1]), np.array([2, 3])], "fixed")
    assert log[4] == [2, 3, 0, 1]
    data = sorted_table()
    with pytest.warns(LabelRuns):
        treecv(LEARNERS["pegasos"], data, np.array_split(np.arange(400), 5))


def test_labels_in_random_order_are_not_warned_of():
    for seed in range(200):
        treecv(LEARNERS["pegasos"], table(40, seed=seed), 4, shuffle=False)


class Failing(Recorder):
    """Raises when it is to learn, or to test on, a certain row."""

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


class SumsFailing(Failing):
    """The same, with a sum for a state and for a loss."""

    def init(self):
        return np.zeros(1)

    def update(self, state, X, y):
        super().update([], X, y)
        return state + X.sum()

    def loss(self, state, X, y):
        super().loss([], X, y)
        return state + X[:, 0]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("method", [treecv, kfold])
def test_an_exception_names_its_fold_and_keeps_the_others(n_jobs, method):
    data = Examples(np.arange(16, dtype=float)[:, None])
    with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
        with pytest.raises(
            FoldsFailed,
            match="fold 2 failed while testing on chunk 2: ZeroDivisionError: a bad row",
        ):
            method(Failing(testing=5), data, 8, shuffle=False)
        with pytest.raises(FoldsFailed) as caught:
            method(Failing(learning=5), data, 8, shuffle=False)
    result = caught.value.result
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    np.testing.assert_array_equal(
        np.flatnonzero(np.isfinite(result.fold_losses)), [2]
    )  # trained without row 5
    if method is treecv:
        first, *_ = result.failures
        assert "folds 4 ... 7 failed while learning chunks 0 ... 3" in " ".join(result.failures)
        assert str(caught.value).startswith(first)


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
@pytest.mark.parametrize("method", [treecv, kfold])
def test_ctrl_c_keeps_the_folds_that_are_finished(backend, method):
    data = table(64)
    undisturbed = method(SumsFailing(), data, 16, shuffle=False)
    failing = SumsFailing(testing=data.X[50, 0], error=KeyboardInterrupt)
    n_jobs = 1 if backend == "sequential" else 2
    with joblib.parallel_config(backend, n_jobs=n_jobs), pytest.raises(Interrupted) as caught:
        method(failing, data, 16, shuffle=False)
    result = caught.value.result
    done = np.isfinite(result.fold_losses)
    assert str(caught.value).startswith(f"{done.sum()} of 16 folds are finished")
    assert not done[12]
    assert done.sum() >= 4 or backend == "loky"  # joblib may drop what has not been collected
    np.testing.assert_array_equal(result.fold_losses[done], undisturbed.fold_losses[done])
    assert np.isnan(result.loss)
    assert result.evaluations["updates"] < undisturbed.evaluations["updates"]
    if backend == "sequential":
        assert done.sum() == 12


def test_an_interrupted_run_leaves_nothing_behind():
    data = table(40)
    before = data.X.copy()
    with pytest.raises(KeyboardInterrupt):
        treecv(Failing(testing=data.X[20, 0], error=KeyboardInterrupt), data, 8)
    np.testing.assert_array_equal(data.X, before)
    np.testing.assert_array_equal(treecv(Recorder(), data, 8).pointwise, np.zeros(40))


@pytest.mark.parametrize("order", ["fixed", "randomized"])
def test_a_learner_that_writes_to_its_rows_is_caught(order):
    class Centring(Recorder):
        def update(self, state, X, y):
            X -= X.mean()
            return state

    data = table(20)
    before = data.X.copy()
    with pytest.raises(FoldsFailed, match="read-only"):
        treecv(Centring(), data, 5, **options(order))
    np.testing.assert_array_equal(data.X, before)


def test_a_loss_of_the_wrong_shape_is_caught():
    class Scalar(Recorder):
        def loss(self, state, X, y):
            return 0.5

    with pytest.raises(FoldsFailed, match=r"loss has shape \(\), not \(4,\)"):
        treecv(Scalar(), table(20), 5)


def test_examples_are_checked():
    X = np.ones((4, 2))
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="X is not finite in 1 rows, row 2 the first"):
        Examples(X)
    with pytest.raises(ValueError, match="y is not finite"):
        Examples(np.ones((2, 2)), np.array([1.0, np.inf]))
    with pytest.raises(ValueError, match=r"X has shape \(4,\)"):
        Examples(np.ones(4))
    with pytest.raises(ValueError, match=r"y has shape \(3,\), not \(4,\)"):
        Examples(np.ones((4, 2)), np.ones(3))
    assert repr(table(20)) == "Examples(20 rows, 3 features)"


@pytest.mark.parametrize("method", [treecv, kfold])
def test_what_is_no_learner_is_refused_with_the_ways_to_make_one_of_it(method):
    for other in (SGDRegressor(), learners.pegasos, Recorder):
        with pytest.raises(
            TypeError, match="learner must be of type IncrementalLearner; "
        ) as caught:
            method(other, table(20), 5)
        assert "acv.learners.PartialFit(estimator)" in str(caught.value)
        assert "init(), update(state, X, y) and loss(state, X, y)" in str(caught.value)
    wrapped = learners.PartialFit(SGDRegressor())
    assert np.isfinite(method(wrapped, table(20), 5).loss)
