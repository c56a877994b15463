"""Files and frames give the answer of arrays, to the bit; what is no number is refused by name."""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import joblib
import numpy as np
import pytest

from acvlib.incremental import kfold, learners, scratch, treecv
from acvlib.incremental.protocol import Examples

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X @ [1.0, -1.0, 0.5] + RNG.normal(size=300)
FRAME = pandas.DataFrame({"a": X[:, 0], "label": Y, "b": X[:, 1], "c": X[:, 2]})
LEARNER = learners.lsqsgd(3, 0.1)


class Portions:
    """A learner in Python whose state depends on how rows arrive."""

    def init(self):
        return 0.0

    def update(self, state, X, y):
        return 0.5 * state + X[0, 0] + y.sum()

    def loss(self, state, X, y):
        return state - X[:, 1]


@pytest.fixture(params=[1, 2**30], ids=["scratch", "memory"])
def memory(request, monkeypatch):
    """Bytes in memory: none, so that all is on disk and read in seven portions; or all."""
    monkeypatch.setattr(scratch, "PORTION", 128)
    monkeypatch.setattr("acvlib.incremental.recursion.PORTION", 128)
    monkeypatch.setattr("acvlib.incremental.sources.BATCH", 128)
    return request.param


def folder(path):
    """Three files, of which the first has several row groups."""
    parts = {"0.parquet": FRAME[:150], "1.parquet": FRAME[150:160], "2.parquet": FRAME[160:]}
    for name, part in parts.items():
        part.to_parquet(path / name, row_group_size=40)
    return path


def npy(path):
    np.save(path / "X.npy", X)
    return path / "X.npy"


def narrow(path):
    np.save(path / "X32.npy", np.asfortranarray(X.astype(np.float32)))
    return path / "X32.npy"


def one_file(path):
    FRAME.to_parquet(path / "rows.parquet", row_group_size=64)
    return str(path / "rows.parquet")


SOURCES = {
    "pandas": lambda path: FRAME,
    "pandas, indexed": lambda path: FRAME.set_index(np.arange(300)[::-1]),
    "pandas, nullable": lambda path: FRAME.convert_dtypes(),
    "polars": lambda path: polars.DataFrame(FRAME.to_dict("series")),
    "arrow": lambda path: pyarrow.Table.from_pandas(FRAME),
    "parquet": one_file,
    "folder": folder,
}


@pytest.mark.parametrize("method", [treecv, kfold])
@pytest.mark.parametrize("learner", [LEARNER, Portions()], ids=["compiled", "python"])
@pytest.mark.parametrize("name", SOURCES)
def test_the_answer_is_that_of_the_array(tmp_path, memory, method, learner, name):
    data = Examples.of(SOURCES[name](tmp_path), "label", memory=memory)
    assert (scratch.map_below(data.X) is not None) == (memory == 1)
    for k in (7, 300):
        own, array = (method(learner, rows, k) for rows in (data, Examples(X, Y)))
        np.testing.assert_array_equal(own.pointwise, array.pointwise)
        np.testing.assert_array_equal(own.fold_of, array.fold_of)
        assert own.evaluations == array.evaluations


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("order", ["fixed", "randomized"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_mapped_npy_is_learnt_where_it_is(tmp_path, memory, shuffle, order, n_jobs):
    np.save(tmp_path / "y.npy", Y)
    data = Examples.of(npy(tmp_path), tmp_path / "y.npy", memory=memory)
    assert scratch.map_below(data.X) is not None
    for learner in (LEARNER, Portions()):
        rng = [None if order == "fixed" else np.random.default_rng(2) for _ in range(2)]
        with joblib.parallel_config("threading", n_jobs=n_jobs):
            own, array = (
                treecv(learner, rows, 40, shuffle=shuffle, order=order, rng=one)
                for rows, one in zip((data, Examples(X, Y)), rng, strict=True)
            )
        np.testing.assert_array_equal(own.pointwise, array.pointwise)


def test_workers_map_the_file_instead_of_copying_it(tmp_path):
    data = Examples.of(npy(tmp_path), Y, memory=1)
    with joblib.parallel_config("loky", n_jobs=2):
        own = treecv(Portions(), data, 8)
    np.testing.assert_array_equal(own.pointwise, treecv(Portions(), Examples(X, Y), 8).pointwise)


def test_other_numbers_are_converted(tmp_path, memory):
    data = Examples.of(narrow(tmp_path), Y, memory=memory)
    np.testing.assert_array_equal(data.X, X.astype(np.float32))
    mixed = {"f": X[:, 0].astype("f4"), "i": np.arange(300, dtype="u1"), "b": X[:, 1] > 0}
    data = Examples.of(polars.DataFrame(mixed), features=["b", "i", "f"], memory=memory)
    np.testing.assert_array_equal(data.X, np.stack([mixed[k] for k in "bif"], 1).astype(float))
    assert data.y is None


def test_a_frame_may_have_its_targets_beside_it():
    data = Examples.of(FRAME[["a", "b", "c"]], FRAME["label"])
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)


def test_folders_of_keys_are_columns(tmp_path):
    FRAME.assign(year=np.repeat([2001, 2002], 150)).to_parquet(tmp_path, partition_cols=["year"])
    data = Examples.of(tmp_path, "label", features=["a", "b", "c", "year"])
    np.testing.assert_array_equal(data.X[:, :3], X)
    np.testing.assert_array_equal(data.X[:, 3], np.repeat([2001, 2002], 150))


def test_reordered_rows_are_those_of_the_array(tmp_path, memory):
    rows = np.random.default_rng(1).permutation(300)
    mapped = np.load(npy(tmp_path), mmap_mode="r")
    np.testing.assert_array_equal(scratch.reordered(mapped, rows, memory), X[rows])


def test_changes_of_a_map_in_memory_are_kept(tmp_path, memory):
    """Mode "c": what was written is nowhere but in memory, and must not be let go of."""
    mapped = np.load(npy(tmp_path), mmap_mode="c")
    mapped[:, 1] = 0.5
    data = Examples(mapped, Y, memory)
    treecv(LEARNER, data, 5)
    assert scratch.map_below(data.X) is None
    np.testing.assert_array_equal(data.X[:, 1], np.full(300, 0.5))


def test_scratch_files_go_with_their_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = Examples.of(FRAME, "label", memory=1)
    assert len(list(tmp_path.iterdir())) == 1
    treecv(LEARNER, data, 5)
    assert len(list(tmp_path.iterdir())) == 1
    del data
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Disk", (), {"free": 100}))
    with pytest.raises(OSError, match="set TMPDIR to a larger folder, or raise `memory`"):
        Examples.of(FRAME, "label", memory=1)
    assert not list(tmp_path.iterdir())


def with_column(values):
    return FRAME.assign(city=values)


REFUSED = {
    "text": (lambda: with_column("x"), r"column 'city' is (large_)?string: make numbers of it"),
    "categories": (lambda: with_column(pandas.Categorical(["u", "v"] * 150)), "'city' is dict"),
    "times": (lambda: with_column(pandas.Timestamp("2020-01-01")), "column 'city' is timestamp"),
    "polars categories": (
        lambda: polars.DataFrame(
            {"label": Y, "city": polars.Series(["u"] * 300).cast(polars.Categorical)}
        ),
        "column 'city' is dictionary",
    ),
    "missing": (
        lambda: with_column(np.where(np.arange(300) == 17, np.nan, 1.0)),
        "column 'city' has missing values, row 17 the first: fill them in",
    ),
    "polars null": (
        lambda: polars.DataFrame({"label": Y, "city": [1, None, *[2] * 298]}),
        "column 'city' has missing values, row 1 the first",
    ),
    "infinity": (lambda: with_column(np.where(np.arange(300) < 4, np.inf, 1.0)), "4 rows, row 0"),
    "no target": (lambda: FRAME.drop(columns="label"), "0 columns 'label', of a, b, c: there must"),
    "target alone": (lambda: FRAME[["label"]], "must be different columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_columns_are_refused_by_name(case, tmp_path):
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        Examples.of(make(), "label")
    frame = pandas.DataFrame(make().to_pandas() if case.startswith("polars") else make())
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=10)
    with pytest.raises(ValueError, match=message):
        Examples.of(tmp_path / "rows.parquet", "label", memory=1)


@pytest.mark.parametrize(
    ("source", "arguments", "error", "message"),
    [
        (X, {}, TypeError, r"got ndarray; of arrays, Examples\(X, y\)"),
        (polars.DataFrame({"a": X[:, 0]}).lazy(), {}, TypeError, "collect\\(\\) a LazyFrame"),
        ("nowhere.parquet", {}, FileNotFoundError, "no file or folder"),
        (__file__, {}, ValueError, "a path to .npy or .parquet"),
        (FRAME, {"features": "a"}, ValueError, "must be a list of names"),
        (FRAME, {"features": ["a", "a"]}, ValueError, "different columns"),
        (FRAME, {"features": ["a", "label"]}, ValueError, "not the target"),
        (FRAME, {"memory": -1}, ValueError, "memory = -1"),
        (FRAME, {"target": Y[:5]}, ValueError, r"y has shape \(5,\), not \(300,\)"),
    ],
)
def test_other_sources_are_refused(source, arguments, error, message):
    with pytest.raises(error, match=message):
        Examples.of(source, **{"target": "label", **arguments})


def test_bad_npy_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no Parquet files"):
        Examples.of(tmp_path, "label")
    with pytest.raises(ValueError, match="give another .npy, or an array"):
        Examples.of(npy(tmp_path), 3)
    with pytest.raises(ValueError, match="features must be None"):
        Examples.of(npy(tmp_path), features=["a"])
    np.save(tmp_path / "flat.npy", Y)
    with pytest.raises(ValueError, match="it must be"):
        Examples.of(tmp_path / "flat.npy")


MEASURED = """
    import json, sys
    import acvlib as acv

    def peak():
        return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024

    path, memory = sys.argv[1:]
    learner = acv.learners.lsqsgd(100, 0.01)
    acv.treecv(learner, acv.Examples.of(f"{path}/small.parquet", "y"), 9)
    before = peak()
    data = acv.Examples.of(f"{path}/large.parquet", "y", memory=int(memory))
    print(json.dumps({"loss": acv.treecv(learner, data, 20).loss, "MB": peak() - before}))
"""


def measured(path, memory):
    command = [sys.executable, "-c", dedent(MEASURED), str(path), str(memory)]
    return json.loads(subprocess.check_output(command, text=True, timeout=120))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_a_file_of_160_megabytes_takes_memory_for_its_portions_alone(tmp_path):
    """200,000 rows of 100 numbers, in two row groups; beside it what all in memory take."""
    names = [*(str(i) for i in range(100)), "y"]
    block = np.random.default_rng(0).normal(size=(101, 20_000))
    rows = pyarrow.concat_tables([pyarrow.table(list(block), names=names)] * 10)
    plain = {"use_dictionary": False, "compression": "none"}
    parquet.write_table(rows[:99], tmp_path / "small.parquet")
    parquet.write_table(rows, tmp_path / "large.parquet", row_group_size=100_000, **plain)
    streamed = measured(tmp_path, 2**20)
    whole = measured(tmp_path, 2**40)
    assert streamed["loss"] == whole["loss"]
    assert streamed["MB"] < 150
    assert whole["MB"] > 300
