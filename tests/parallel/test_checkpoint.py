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
from acvlib.parallel.checkpoint import Checkpoint, digest

WORK = """
    import sys, time
    import numpy as np
    import acvlib as acv
    from acvlib.parallel import checkpoint

    checkpoint.SECONDS = checkpoint.SHARE = 0
    X = np.random.default_rng(0).normal(size=(60, 3))

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

    if __name__ == "__main__":
        model, path = Model(), sys.argv[1]
        folds = acv.folds.leave_one_out(60)
        result = acv.exact(model, acv.fit(model), folds, checkpoint=path)
        np.savez(path + ".result", pointwise=result.pointwise, **result.evaluations)
"""


@pytest.fixture
def work(tmp_path):
    """The folder of a module that workers can import, too."""
    (tmp_path / "work.py").write_text(dedent(WORK))
    return tmp_path


def run(folder, name):
    paths = os.pathsep.join([str(folder), *sys.path])
    command = [sys.executable, str(folder / "work.py"), str(folder / name)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths})


def finished(path):
    """How many refits a checkpoint has."""
    if not path.exists():
        return 0
    with np.load(path) as file:
        return int(file["done"].sum())


def result_of(folder, name):
    assert run(folder, name).wait(60) == 0
    return dict(np.load(folder / f"{name}.result.npz"))


def test_a_killed_run_goes_on_to_the_same_bits(work):
    process = run(work, "killed")
    deadline = time.monotonic() + 60
    while finished(work / "killed") < 9 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 9 <= finished(work / "killed") < 60
    again = result_of(work, "killed")
    whole = result_of(work, "undisturbed")
    np.testing.assert_array_equal(again["pointwise"], whole["pointwise"])
    assert 0 < again["gradient"] < whole["gradient"]


def problem():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = acv.models.GLM(X, X[:, 0] ** 2, "gaussian", penalty=1.0)
    return model, acv.fit(model), acv.folds.k_fold(40, 8)


def test_files_of_something_else_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    with pytest.raises(ValueError, match="is no checkpoint"):
        acv.exact(*problem(), checkpoint=tmp_path / "notes.txt")
    for path in (tmp_path, tmp_path / "missing" / "run.npz"):
        with pytest.raises(ValueError, match="must be a file in a folder"):
            acv.exact(*problem(), checkpoint=path)
    with pytest.raises(TypeError, match="checkpoint must be a path"):
        acv.exact(*problem(), checkpoint=3)


def test_exact_refuses_what_does_not_fit(tmp_path):
    path = tmp_path / "run.npz"
    model, fit, folds = problem()
    other = acv.models.GLM(model.X, model.X[:, 0] ** 3, "gaussian", penalty=1.0)
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
