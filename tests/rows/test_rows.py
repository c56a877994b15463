"""Files and frames give the answer of arrays, to the bit; what is no number is refused by name."""

import tracemalloc

import joblib
import numpy as np
import pytest
from oracles.wrappers import raises

from acvlib.folds import leave_group_out
from acvlib.rows import Examples
from acvlib.treecv import kfold, learners, treecv

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


@pytest.fixture(params=[1, 2**30], ids=["mapped", "memory"])
def memory(request, monkeypatch):
    """Bytes in memory: none, so that all is mapped, written in batches; or all."""
    monkeypatch.setattr("acvlib.rows.BATCH", 128)
    return request.param


def folder(path):
    """Eleven files, named as Dask names them, some with several row groups."""
    for number, part in enumerate(np.array_split(np.arange(300), 11)):
        FRAME.iloc[part].to_parquet(path / f"part.{number}.parquet", row_group_size=20)
    return path


def npy(path, values=X):
    np.save(path / "X.npy", values)
    return path / "X.npy"


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


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("learner", [LEARNER, Portions()], ids=["compiled", "python"])
@pytest.mark.parametrize("name", [*SOURCES, "npy"])
def test_the_answer_is_that_of_the_array(tmp_path, memory, shuffle, learner, name):
    if name == "npy":
        np.save(tmp_path / "y.npy", Y)
        data = Examples.of(npy(tmp_path), tmp_path / "y.npy", memory=memory)
    else:
        data = Examples.of(SOURCES[name](tmp_path), "label", memory=memory)
    np.testing.assert_array_equal(data.X, X)
    for method in (treecv, kfold):
        own, array = (method(learner, rows, 7, shuffle=shuffle) for rows in (data, Examples(X, Y)))
        np.testing.assert_array_equal(own.pointwise, array.pointwise)


def test_workers_read_the_mapped_file(tmp_path):
    data = Examples.of(npy(tmp_path), Y, memory=1)
    with joblib.parallel_config("loky", n_jobs=2):
        own = treecv(Portions(), data, 8, shuffle=False)
    array = treecv(Portions(), Examples(X, Y), 8, shuffle=False)
    np.testing.assert_array_equal(own.pointwise, array.pointwise)


def test_other_numbers_are_converted(tmp_path, memory):
    data = Examples.of(npy(tmp_path, np.asfortranarray(X, np.float32)), Y, memory=memory)
    np.testing.assert_array_equal(data.X, X.astype(np.float32))
    mixed = {"f": X[:, 0].astype("f4"), "i": np.arange(300, dtype="u1"), "b": X[:, 1] > 0}
    data = Examples.of(polars.DataFrame(mixed), features=["b", "i", "f"], memory=memory)
    np.testing.assert_array_equal(data.X, np.stack([mixed[k] for k in "bif"], 1).astype(float))
    assert data.y is None


def test_a_frame_may_have_its_targets_beside_it_or_in_another_file(tmp_path):
    """In its order, or by the names of its rows."""
    for target in (FRAME["label"], FRAME["label"].sample(frac=1.0, random_state=0), Y):
        data = Examples.of(FRAME[["a", "b", "c"]], target)
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, Y)
    assert np.array_equal(Examples.of(FRAME.set_axis([0, *"x" * 299]), "label").X, X)
    with pytest.raises(ValueError, match="the index of target differs"):
        Examples.of(FRAME, FRAME["label"].set_axis(np.arange(300) + 1))
    np.save(tmp_path / "y.npy", Y)
    for source in (FRAME, polars.from_pandas(FRAME), one_file(tmp_path), npy(tmp_path)):
        for target in (tmp_path / "y.npy", str(tmp_path / "y.npy")):
            assert np.array_equal(Examples.of(source, target).y, Y)
    named = FRAME.rename(columns={"label": "y.npy"})
    assert Examples.of(named, "y.npy", (name for name in ["a", "b"])).X.shape == (300, 2)
    for features in ("a", 3):
        raises("must be a list of names", Examples.of, FRAME, "label", features)


def test_a_series_beside_a_file_goes_by_the_index_that_is_stored(tmp_path):
    names = FRAME[["a", "b"]].set_axis([str(i) for i in range(300)])
    names.to_parquet(tmp_path / "rows.parquet")
    target = pandas.Series(Y, names.index).sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal((data := Examples.of(f"{tmp_path}/rows.parquet", target)).y, Y)
    with pytest.raises(ValueError, match="index is not that of the rows"):
        kfold(learners.lsqsgd(2, 0.1), data, leave_group_out(target > 0))
    raises("named by an index, the rows are not: .* .to_numpy", Examples.of, npy(tmp_path), target)
    (tmp_path / "parts").mkdir()
    for number in range(3):  # each counts its rows from 0, which names none of them
        part = FRAME[["a", "b"]][100 * number :][:100].reset_index(drop=True)
        part.to_parquet(tmp_path / "parts" / f"{number}.parquet")
    plain = pandas.Series(Y)
    np.testing.assert_array_equal(Examples.of(tmp_path / "parts", plain).y, Y)
    for other in (plain[::-1], target):
        raises("the index of target differs", Examples.of, tmp_path / "parts", other)


def test_files_of_a_folder_may_differ_in_types(tmp_path):
    """Whole numbers in the first file, halves in the next; words nowhere."""
    for number, values in enumerate(([1, 2], [0.5, 1.5], [True, False])):
        pandas.DataFrame({"a": values}).to_parquet(tmp_path / f"{number}.parquet")
    assert Examples.of(tmp_path).X[:, 0].tolist() == [1.0, 2.0, 0.5, 1.5, 1.0, 0.0]
    file = tmp_path / "4.parquet"
    for other, words in (({"a": ["x"]}, "string in 4.p"), ({"a": [1], "b": [1]}, "4.* has .* 'b'")):
        pandas.DataFrame(other).to_parquet(file)
        raises(words, Examples.of, tmp_path)


def test_folders_of_keys_are_columns(tmp_path):
    FRAME.assign(year=np.repeat([2001, 2002], 150)).to_parquet(tmp_path, partition_cols=["year"])
    data = Examples.of(tmp_path, "label", features=["a", "b", "c", "year"])
    np.testing.assert_array_equal(data.X[:, :3], X)
    np.testing.assert_array_equal(data.X[:, 3], np.repeat([2001, 2002], 150))
    with pytest.raises(ValueError, match="rows of one frame in another order"):
        Examples.of(tmp_path, FRAME["label"], ["a", "b", "c"])


def test_scratch_files_go_with_their_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = Examples.of(FRAME, "label", memory=1)
    assert len(list(tmp_path.iterdir())) == 1
    treecv(LEARNER, data, 5)
    del data
    assert not list(tmp_path.iterdir())


def with_column(values):
    return FRAME.assign(city=values)


def in_polars(values):
    return polars.DataFrame({"label": Y, "city": values})


CATEGORIES = polars.Series(["u"] * 300).cast(polars.Categorical)
HOLED = np.where(np.arange(300) == 17, np.nan, 1.0)

REFUSED = {
    "text": (lambda: with_column("x"), r"column 'city' is (large_)?string: make numbers of it"),
    "categories": (lambda: with_column(pandas.Categorical(["u", "v"] * 150)), "'city' is dict"),
    "times": (lambda: with_column(pandas.Timestamp("2020-01-01")), "column 'city' is timestamp"),
    "polars categories": (lambda: in_polars(CATEGORIES), "column 'city' is dictionary"),
    "missing": (lambda: with_column(HOLED), "has missing values, row 17 the first: fill them in"),
    "polars null": (lambda: in_polars([1, None, *[2] * 298]), "missing values, row 1 the first"),
    "infinity": (lambda: with_column(np.where(HOLED == 1.0, 1.0, np.inf)), "not finite in row"),
    "no target": (lambda: FRAME.drop(columns="label"), "0 columns 'label', of a, b, c: there must"),
    "target alone": (lambda: FRAME[["label"]], "must be different columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_columns_are_refused_by_name(case, tmp_path):
    make, message = REFUSED[case]
    raises(message, Examples.of, make(), "label")
    frame = pandas.DataFrame(make().to_pandas() if case.startswith("polars") else make())
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=10)
    raises(message, Examples.of, tmp_path / "rows.parquet", "label", memory=1)


@pytest.mark.parametrize(
    ("source", "arguments", "error", "message"),
    [
        (X, {}, TypeError, r"got ndarray; of arrays, Examples\(X, y\)"),
        (polars.DataFrame({"a": X[:, 0]}).lazy(), {}, TypeError, "collect\\(\\) a LazyFrame"),
        (FRAME["a"], {}, TypeError, "got Series; of arrays"),
        (FRAME.assign(d=[1, "2"] * 150), {}, ValueError, "column d with type object: give a frame"),
        (FRAME.assign(d=1j), {}, ValueError, "column d with type complex128: give a frame"),
        ("nowhere.parquet", {}, FileNotFoundError, "no file or folder"),
        (__file__, {}, ValueError, "a path to .npy or .parquet"),
        (FRAME, {"target": Y[:5]}, ValueError, r"y has shape \(5,\), not \(300,\)"),
    ],
)
def test_other_sources_are_refused(source, arguments, error, message):
    raises(message, Examples.of, source, error=error, **{"target": "label", **arguments})


def test_bad_npy_and_empty_folders_are_refused(tmp_path):
    raises("no Parquet files", Examples.of, tmp_path, "label")
    raises("give another .npy, or an array", Examples.of, npy(tmp_path), 3)
    raises("features must be None", Examples.of, npy(tmp_path), features=["a"])
    np.save(tmp_path / "flat.npy", Y)
    raises("it must be", Examples.of, tmp_path / "flat.npy")


def test_a_file_beyond_memory_is_read_in_batches(tmp_path):
    """32 MB in row groups of 3: what is allocated is far less."""
    block = pyarrow.table({str(i): np.zeros(40_000) for i in range(100)})
    path = tmp_path / "rows.parquet"
    parquet.write_table(block, path, row_group_size=4_000, use_dictionary=False, compression="none")
    del block
    treecv(learners.k_means(100, 2), Examples.of(path, memory=2**20), 2, shuffle=False)  # compiles
    tracemalloc.start()
    data = Examples.of(path, memory=2**20)
    treecv(learners.k_means(100, 2), data, 10, shuffle=False)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 12e6
