"""LIBSVM sets: what corrupt lines and labels say, and the scaling of scaled files."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "libsvm"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/libsvm")


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
def test_scaled_abalone_is_the_scaled_file():
    data = datasets.load_libsvm("abalone")
    X, y = datasets.read_libsvm(DATA_FOLDER / "abalone_scale.gz", 8)
    np.testing.assert_allclose(data.scaled(), X, atol=1e-6)
    np.testing.assert_array_equal(data.y, y)
    assert repr(data) == "Libsvm(abalone: 4,177 rows, 8 features, real)"
