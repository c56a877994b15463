"""The README's own example runs and says what it is said to say; its tables' calls run, too."""

import re

import geopandas
import networkx
import numpy as np
import pandas as pd
import pytest
import shapely
from hmmlearn.hmm import GaussianHMM
from places import ROOT
from sklearn.linear_model import LogisticRegression
from sklearn_crfsuite import CRF

import acvlib as acv

README = (ROOT / "README.md").read_text("utf-8")


def test_example_runs_prints_the_table_and_starts_the_book(capsys):
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    assert len(code.splitlines()) <= 12
    names = {}
    exec(code, names)
    shown = re.search(r"```\n( +loss.*?)```", README, re.S)[1]
    without_seconds = [line.split()[:-1] for line in shown.splitlines()]
    assert [line.split()[:-1] for line in capsys.readouterr().out.splitlines()] == without_seconds
    assert names["table"]["theta_error"].is_monotonic_increasing
    assert f"```python\n{code}```" in (ROOT / "book/index.md").read_text("utf-8")


TABLES = [line for line in README.splitlines() if line.startswith("| ")]
CALLS = re.findall(r"`(acv\.[^`]*\))`", "\n".join(TABLES))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = (X[:, 0] + RNG.normal(size=40) > 0).astype(float)
SENTENCES = [[{"word": word} for word in text.split()] for text in ("a b a", "b a", "b b a")]
TAGS = [["A", "B", "A"], ["B", "A"], ["B", "B", "A"]]
PATH_OF_COUNTS = [1, 0, 2, 7, 9, 8]


def of_sklearn():
    return {"model": LogisticRegression().fit(X, Y), "X": X, "y": Y, "values": [0.1, 1]}


def of_hmmlearn():
    lengths = [20, 20]
    return {"fitted": GaussianHMM(2, random_state=0).fit(X, lengths), "X": X, "lengths": lengths}


def of_crfsuite():
    return {"fitted": CRF(c1=0.0).fit(SENTENCES, TAGS), "X": SENTENCES, "y": TAGS}


def of_graphs():
    squares = [shapely.box(i, 0, i + 1, 1) for i in range(6)]
    frame = geopandas.GeoDataFrame({"counts": PATH_OF_COUNTS}, geometry=squares)
    graph = networkx.path_graph(6)
    return {"counts": PATH_OF_COUNTS, "graph": graph, "frame": frame}


def of_arrays(library):
    pytest.importorskip(library)
    return {
        "loss": lambda p, w: (w * (p - 1.0) ** 2).sum() + w[0] * p[0] ** 4,
        "heldout": lambda p, sites: (p[0 * sites] - 1.0) ** 2 + (sites == 0) * p[0] ** 4,
        "n_sites": 5,
        "start": np.zeros(1),
    }


def of_parquet():
    """In the working folder, that of the test."""
    rows = {"a": X[:, 0], "b": X[:, 1], "y": 2.0 * Y - 1.0}
    pd.DataFrame(rows).to_parquet("rows.parquet")
    return {"learner": acv.learners.pegasos(2)}


BROUGHT = {
    "approx_cross_validate": of_sklearn,
    "approx_tune": of_sklearn,
    "models.GaussianHMM": lambda: {"x": X},
    "from_hmmlearn": of_hmmlearn,
    "FeatureCRF": lambda: {"X": SENTENCES, "y": TAGS},
    "from_crfsuite": of_crfsuite,
    "models.HiddenMRF": of_graphs,
    "models.HiddenMRF.from_map": of_graphs,
    "from_jax": lambda: of_arrays("jax"),
    "from_torch": lambda: of_arrays("torch"),
    "treecv": of_parquet,
}


def door(call):
    return re.match(r"acv\.([\w.]+)", call)[1]


@pytest.mark.parametrize("call", CALLS, ids=door)
def test_calls_of_the_tables_run_as_printed(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = eval(call, {"acv": acv} | BROUGHT[door(call)]())
    if isinstance(result, tuple | acv.Model):
        assert door(call).startswith(("models.", "from_", "FeatureCRF"))
    else:
        assert "±" in repr(result) or hasattr(result, "estimator") or "cv_result" in result


def test_the_tables_name_what_there_is_and_all_their_calls_are_run():
    assert set(map(door, CALLS)) == set(BROUGHT)
    names = re.findall(r"`(?:acv\.)?([a-z]\w+)`", "\n".join(TABLES))
    assert "newton_step" in names
    assert set(names) - {"n_sites"} <= set(acv.__all__)
