"""LIBSVM sets: what corrupt lines say, the stand-ins' shapes and, where the data are,
what their README counts.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets.libsvm import SHAPES

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "libsvm"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/libsvm")
SMALL = ("abalone", "svmguide3", "w2a_standin")


def test_lines_become_rows(tmp_path):
    path = tmp_path / "two.gz"
    path.write_bytes(gzip.compress(b"-1 1:0.5 3:2e-1 \n+1\n"))
    X, y = datasets.read_libsvm(path, 3)
    np.testing.assert_array_equal(X, [[0.5, 0.0, 0.2], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(y, [-1.0, 1.0])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 2", "'2' is not index:value"),
        ("1 x:2", "'x:2' is not index:value"),
        ("1 1:two", "the value 'two' is not a finite number"),
        ("1 1:nan", "the value 'nan' is not a finite number"),
        ("one 1:1", "the label 'one' is not a finite number"),
        ("", "the label '' is not a finite number"),
        ("1 4:1", "indices must rise, from 1 to 3 at most"),
        ("1 0:1", "indices must rise"),
        ("1 2:1 2:1", "indices must rise"),
    ],
)
def test_a_corrupt_line_is_named(tmp_path, line, reason):
    path = tmp_path / "bad"
    path.write_text(f"1 1:1\n{line}\n1 1:1\n")
    with pytest.raises(datasets.DataCorrupt, match=f"bad, line 2: {reason}"):
        datasets.read_libsvm(path, 3)


def test_a_file_without_rows(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(datasets.DataCorrupt, match="empty: no rows"):
        datasets.read_libsvm(tmp_path / "empty", 3)


@pytest.mark.parametrize("name", SMALL)
def test_simulated_has_the_real_shape(name):
    simulated, again = (datasets.simulate_libsvm(name, np.random.default_rng(1)) for _ in range(2))
    shape = SHAPES[name]
    assert simulated.X.shape == (shape.n_rows, shape.n_features)
    assert simulated.sha256 == again.sha256
    assert simulated.provenance == "simulated"
    if simulated.is_classification:
        assert abs((simulated.y == 1).mean() - shape.positive) < 0.01


def test_scaling_is_that_of_the_scaled_files():
    data = datasets.Libsvm(
        "abalone", np.array([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0]]), np.zeros(3), "simulated", ""
    )
    np.testing.assert_array_equal(data.scaled(), [[-1.0, 0.0], [-0.5, 0.0], [1.0, 0.0]])


def test_labels_must_be_plus_or_minus_one():
    with pytest.raises(ValueError, match=r"labels must be -1 or \+1; found \[0.\]"):
        datasets.Libsvm("svmguide3", np.zeros((2, 1)), np.array([0.0, 1.0]), "simulated", "")


def test_unknown_names():
    with pytest.raises(KeyError, match="no LIBSVM set 'w9a'; there are abalone"):
        datasets.load_libsvm("w9a")


@needs_real_data
@pytest.mark.parametrize(
    ("name", "positive", "nonzero"), [("svmguide3", 296, 22014), ("w2a_standin", 107, 41106)]
)
def test_real_classification_sets(name, positive, nonzero):
    data = datasets.load_libsvm(name)
    assert data.X.shape == SHAPES[name][:2]
    assert ((data.y == 1).sum(), np.count_nonzero(data.X)) == (positive, nonzero)


@needs_real_data
def test_scaled_abalone_is_the_scaled_file():
    data = datasets.load_libsvm("abalone")
    X, y = datasets.read_libsvm(DATA_FOLDER / "abalone_scale.gz", 8)
    np.testing.assert_allclose(data.scaled(), X, atol=1e-6)
    np.testing.assert_array_equal(data.y, y)
    assert repr(data) == "Libsvm(abalone: 4,177 rows, 8 features, real)"
