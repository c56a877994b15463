"""A run that was killed goes on to the bits of one that was not; a stale file is refused."""

import os
import signal
import subprocess
import sys
import time
from textwrap import dedent

import numpy as np
import pytest

import acvlib as acv
from acvlib.incremental import FoldsFailed
from acvlib.parallel.checkpoint import Checkpoint, digest

WORK = """
    import sys, time
    import joblib, numpy as np
    import acvlib as acv
    from acvlib.parallel import checkpoint

    checkpoint.SECONDS = checkpoint.SHARE = 0
    X = np.random.default_rng(0).normal(size=(60, 3))

    class Learner:
        def init(self):
            return 0.0
        def update(self, state, X, y):
            time.sleep(0.004)
            return 0.9 * state + X.sum()
        def loss(self, state, X, y):
            return state - X[:, 0]

    class Model:
        n_sites = 60
        def objective(self, params, weights):
            time.sleep(0.0005)
            gap = X[:, 0] - params[0]
            return (weights * gap**4).sum() + (weights * params[0] ** 2).sum()
        def heldout_loss(self, params, fold):
            return (X[fold, 0] - params[0]) ** 2
        def initial_params(self, rng):
            return np.zeros(1)

    def exact(path):
        model = Model()
        return acv.exact(model, acv.fit(model), acv.folds.leave_one_out(60), checkpoint=path)

    RUNS = {
        "treecv": lambda path: acv.treecv(Learner(), acv.Examples(X), 20, checkpoint=path),
        "kfold": lambda path: acv.kfold(Learner(), acv.Examples(X), 20, checkpoint=path),
        "exact": exact,
    }
    if __name__ == "__main__":
        kind, n_jobs, path = sys.argv[1:]
        with joblib.parallel_config("threading", n_jobs=int(n_jobs)):
            result = RUNS[kind](path)
        np.savez(path + ".result", pointwise=result.pointwise, **result.evaluations)
"""


@pytest.fixture
def work(tmp_path):
    """The folder of a module that workers can import, too."""
    (tmp_path / "work.py").write_text(dedent(WORK))
    return tmp_path


def run(folder, kind, n_jobs, name):
    paths = os.pathsep.join([str(folder), *sys.path])
    command = [sys.executable, str(folder / "work.py"), kind, str(n_jobs), str(folder / name)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths})


def finished(path):
    """How many losses, or refits, a checkpoint has."""
    if not path.exists():
        return 0
    with np.load(path) as file:
        return int(np.isfinite(file["losses"]).sum() if "losses" in file else file["done"].sum())


def result_of(folder, kind, n_jobs, name):
    assert run(folder, kind, n_jobs, name).wait(60) == 0
    return dict(np.load(folder / f"{name}.result.npz"))


@pytest.mark.parametrize(("kind", "n_jobs"), [("treecv", 2), ("kfold", 1), ("exact", 1)])
def test_a_killed_run_goes_on_to_the_same_bits(work, kind, n_jobs):
    process = run(work, kind, n_jobs, "killed")
    deadline = time.monotonic() + 60
    while finished(work / "killed") < 9 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 9 <= finished(work / "killed") < 60
    again = result_of(work, kind, n_jobs, "killed")
    whole = result_of(work, kind, n_jobs, "undisturbed")
    np.testing.assert_array_equal(again["pointwise"], whole["pointwise"])
    count = "gradient" if kind == "exact" else "updates"
    assert 0 < again[count] < whole[count]


def rows(seed=0):
    X = np.random.default_rng(seed).normal(size=(60, 3))
    return acv.Examples(X, X[:, 0])


LEARNER = acv.learners.lsqsgd(3, 0.1)


@pytest.mark.parametrize("method", [acv.treecv, acv.kfold])
def test_a_finished_run_is_read(tmp_path, method):
    path = tmp_path / "run.npz"
    first = method(LEARNER, rows(), 12, checkpoint=path)
    again = method(LEARNER, rows(), 12, checkpoint=str(path))
    np.testing.assert_array_equal(first.pointwise, method(LEARNER, rows(), 12).pointwise)
    np.testing.assert_array_equal(again.pointwise, first.pointwise)
    assert again.evaluations["updates"] == 0
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


OTHERS = {
    "method": lambda path: acv.kfold(LEARNER, rows(), 12, checkpoint=path),
    "learner": lambda path: acv.treecv(acv.learners.lsqsgd(3, 0.2), rows(), 12, checkpoint=path),
    "set of rows": lambda path: acv.treecv(LEARNER, rows(1), 12, checkpoint=path),
    "order or set of folds": lambda path: acv.treecv(LEARNER, rows(), 13, checkpoint=path),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_stale_file_is_refused_by_name(tmp_path, other):
    path = tmp_path / "run.npz"
    acv.treecv(LEARNER, rows(), 12, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"run.npz is of another {other}: it does not fit"):
        OTHERS[other](path)
    assert path.read_bytes() == before


def test_other_shuffles_are_other_orders(tmp_path):
    path = tmp_path / "run.npz"
    acv.treecv(LEARNER, rows(), 12, checkpoint=path)
    for arguments in ({"rng": 1}, {"shuffle": False}, {"order": "randomized", "rng": 1}):
        with pytest.raises(ValueError, match="another order or set of folds"):
            acv.treecv(LEARNER, rows(), 12, checkpoint=path, **arguments)


def test_files_of_something_else_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    with pytest.raises(ValueError, match="is no checkpoint"):
        acv.treecv(LEARNER, rows(), 12, checkpoint=tmp_path / "notes.txt")
    for path in (tmp_path, tmp_path / "missing" / "run.npz"):
        with pytest.raises(ValueError, match="must be a file in a folder"):
            acv.treecv(LEARNER, rows(), 12, checkpoint=path)
    with pytest.raises(TypeError, match="checkpoint must be a path"):
        acv.treecv(LEARNER, rows(), 12, checkpoint=3)


class Failing:
    """LSQSGD that stops at a row, while it is `bad`."""

    bad = True
    init, loss = LEARNER.init, LEARNER.loss

    def update(self, state, X, y):
        if Failing.bad and rows().X[30, 0] in X[:, 0]:
            raise ZeroDivisionError("a bad row")
        return LEARNER.update(state, X, y)

    def __reduce__(self):
        return Failing, ()


def test_failed_folds_are_done_again_from_the_result(tmp_path, monkeypatch):
    with pytest.raises(FoldsFailed) as caught:
        acv.treecv(Failing(), rows(), 12)
    monkeypatch.setattr(Failing, "bad", False)
    whole = acv.treecv(Failing(), rows(), 12)
    again = acv.treecv(Failing(), rows(), 12, checkpoint=caught.value.result)
    np.testing.assert_array_equal(again.pointwise, whole.pointwise)
    with pytest.raises(ValueError, match="the result is of another set of rows"):
        acv.treecv(Failing(), rows(1), 12, checkpoint=caught.value.result)
    with pytest.raises(ValueError, match="nothing to go on"):
        acv.treecv(Failing(), rows(), 12, checkpoint=whole)


def test_a_learner_without_pickle_has_no_checkpoint(tmp_path):
    learner = Failing()
    learner.__class__ = type("Local", (Failing,), {"__reduce__": lambda self: (lambda: 0, ())})
    with pytest.raises(ValueError, match="the learner cannot be pickled"):
        acv.treecv(learner, rows(), 12, checkpoint=tmp_path / "run.npz")


def test_exact_refuses_what_does_not_fit(tmp_path):
    path = tmp_path / "run.npz"
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = acv.models.GLM(X, X[:, 0] ** 2, "gaussian", penalty=1.0)
    other = acv.models.GLM(X, X[:, 0] ** 3, "gaussian", penalty=1.0)
    fit, folds = acv.fit(model), acv.folds.k_fold(40, 8)
    first = acv.exact(fit, folds, checkpoint=path)
    np.testing.assert_allclose(first.params, acv.exact(fit, folds).params, rtol=1e-9)
    again = acv.exact(fit, folds, checkpoint=path)
    np.testing.assert_array_equal(again.params, first.params)
    assert again.evaluations["gradient"] == 0
    with pytest.raises(ValueError, match="of another set of folds:"):
        acv.exact(fit, acv.folds.k_fold(40, 9), checkpoint=path)
    with pytest.raises(ValueError, match="of another tolerance:"):
        acv.exact(fit, folds, 1e-3, checkpoint=path)
    with pytest.raises(ValueError, match="another model or data and fit:"):
        acv.exact(acv.fit(other), folds, checkpoint=path)


def test_saving_again_waits_until_it_is_due(tmp_path):
    file = Checkpoint(tmp_path / "run.npz", {"data": digest([1])})
    file.save(losses=np.zeros(2))
    file.save(losses=np.ones(2))
    assert not file.load()["losses"].any()
    file.save(now=True, losses=np.ones(2))
    assert file.load()["losses"].all()


def test_digests_tell_values_types_and_shapes_apart():
    values = np.arange(4.0)
    parts = [values, values + 1, values.astype(np.float32), values.reshape(2, 2), "a", 3, []]
    assert len({digest([part]) for part in parts}) == len(parts)
    assert digest([values[::2]]) == digest([values[::2].copy()])
