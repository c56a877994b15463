"""What a newcomer types first, what the README promises, and how what users hold is shown."""

import pydoc
import re
import subprocess
import sys
from dataclasses import replace

import geopandas
import networkx
import numpy as np
import pandas as pd
import pytest
import shapely
from check_release import faults
from hmmlearn.hmm import GaussianHMM
from oracles.wrappers import raises
from places import ROOT
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn_crfsuite import CRF

import acvlib as acv
from acvlib import models
from acvlib.checks import one_line, require

WITHOUT = """
import sys
sys.modules |= dict.fromkeys(["jax", "matplotlib", "sklearn", "torch"])  # as if not installed
import pydoc
import acvlib
from acvlib import *
assert "approx_tune" not in dir(acvlib) and "treecv" in dir(acvlib)
assert "from_hmmlearn(" in pydoc.render_doc(acvlib, renderer=pydoc.plaintext)
try:
    acvlib.approx_tune
except ImportError:
    print("refused")
"""


def test_the_version_is_the_one_that_is_cited_and_a_release_names_one_everywhere():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1]
    assert acv.__version__ == cited
    changelog, citation = "## 1.2.3 (2026-11-26)\n", "version: 1.2.3\ndate-released: 2026-11-26\n"
    assert faults("1.2.3", changelog, citation, {}, ["v1.2.3"]) == []
    assert faults("1.2.3", changelog, citation, {}, []) == []
    for version, tags, count in (("1.2.4", [], 2), ("1.2.3", ["v1.2.4"], 1)):
        assert len(faults(version, changelog, citation, {}, tags)) == count
    assert len(faults("1.2.3", "## 1.2.3 (unreleased)", "version: 1.2.3", {"version": 1}, [])) == 3


def test_dir_shows_all_public_names_and_no_others_and_the_docstring_what_there_is():
    assert dir(acv) == sorted([*acv.__all__, "__version__"])
    assert {"models", "plots", "treecv", "approx_tune", "from_crfsuite"} <= set(dir(acv))
    with pytest.raises(AttributeError, match="'acvlib' has no attribute 'newton'"):
        _ = acv.newton
    for line in re.findall(r"^(\w[\w*, ]{19}) \w", acv.__doc__, re.M):
        for name in line.replace(",", "").split():
            known = [*acv.__all__, *acv._LAZY_MODULES, *acv._LAZY_NAMES]  # without extras, too
            assert any(re.fullmatch(name.replace("*", ".*"), each) for each in known)


def test_help_shows_every_public_name():
    """What help(acv) shows below the docstring, by a plain terminal."""
    text = pydoc.render_doc(acv, renderer=pydoc.plaintext)
    shown = text.replace(acv.__doc__.strip(), "").partition("PACKAGE CONTENTS")[2]
    for name in acv.__all__:
        assert re.search(rf"\b{name}\b", shown), name


def test_a_module_is_returned_or_names_its_extra_and_without_it_help_and_star_leave_it_out():
    assert require("json.decoder", extra="tables") is sys.modules["json.decoder"]
    message = r"needs no_such_package: pip install 'acvlib\[tables\]'"
    for name in ("no_such_package", "no_such_package.part"):
        raises(message, require, name, error=ImportError, extra="tables")
    with pytest.raises(ModuleNotFoundError, match="json.no_such_part"):
        require("json.no_such_part", extra="tables")
    said = subprocess.check_output([sys.executable, "-c", WITHOUT], cwd=ROOT, text=True)
    assert said.strip() == "refused"


README = (ROOT / "README.md").read_text("utf-8")


TABLES = [line for line in README.splitlines() if line.startswith("| ")]
CALLS = re.findall(r"`(acv\.[^`]*\))`", "\n".join(TABLES))
SENTENCES = [[{"word": word} for word in text.split()] for text in ("a b a", "b a", "b b a")]
TAGS = [["A", "B", "A"], ["B", "A"], ["B", "B", "A"]]
PATH_OF_COUNTS = [1, 0, 2, 7, 9, 8]


def of_sklearn():
    return {"model": LogisticRegression().fit(X, Y), "X": X, "y": Y, "values": [0.1, 1]}


def of_hmmlearn():
    lengths = [30, 30]
    return {"fitted": GaussianHMM(2, random_state=0).fit(X, lengths), "X": X, "lengths": lengths}


def of_crfsuite():
    return {"fitted": CRF(c1=0.0).fit(SENTENCES, TAGS), "X": SENTENCES, "y": TAGS}


def of_graphs():
    squares = [shapely.box(i, 0, i + 1, 1) for i in range(6)]
    frame = geopandas.GeoDataFrame({"counts": PATH_OF_COUNTS}, geometry=squares)
    return {"counts": PATH_OF_COUNTS, "graph": networkx.path_graph(6), "frame": frame}


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


def test_the_readmes_tables_name_what_there_is_and_its_example_prints_the_table(capsys):
    assert set(map(door, CALLS)) == set(BROUGHT)
    names = re.findall(r"`(?:acv\.)?([a-z]\w+)`", "\n".join(TABLES))
    assert "newton_step" in names
    assert set(names) - {"n_sites"} <= set(acv.__all__)
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    assert len(code.splitlines()) <= 12
    names = {}
    exec(code, names)
    shown = re.search(r"```\n( +loss.*?)```", README, re.S)[1]
    without_seconds = [line.split()[:-1] for line in shown.splitlines()]
    assert [line.split()[:-1] for line in capsys.readouterr().out.splitlines()] == without_seconds
    assert names["table"]["theta_error"].is_monotonic_increasing
    assert f"```python\n{code}```" in (ROOT / "book/index.md").read_text("utf-8")


RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = np.arange(N) % 2.0
SERIES = RNG.normal(size=N) + 3 * (np.arange(N) % 20 > 10)
GLM = models.GLM(X, Y, penalty=1.0)
FIT = acv.fit(GLM)
FOLDS = acv.folds.k_fold(N, 5)
STEP = acv.newton_step(FIT, FOLDS)
HMM = models.GaussianHMM(SERIES, 2)
HMM_FIT = acv.fit(HMM, rng=0)
ENERGY = models.ManifoldEnergy(X, models.RBFAffinity(X, 1.0))
EXAMPLES = acv.Examples(X, 2.0 * Y - 1.0)
PEGASOS = acv.learners.pegasos(2)
LOGISTIC = LogisticRegression().fit(X, Y)


def penalised(alpha):
    return models.GLM(X, Y, penalty=alpha[0])


class Quadratic(acv.model.ModelDefaults):
    n_sites = N

    def __init__(self):
        self.data = X


HELD = {
    "Fit": FIT,
    "its Hessian": HMM_FIT.hessian,
    "Folds": FOLDS,
    "Folds of unequal sizes": acv.folds.Folds([[0], [1, 2]], [[0], [2]]),
    **acv.ladder(FIT, FOLDS),
    "exact": acv.exact(FIT, FOLDS),
    "refitted": acv.refit_unreliable(STEP, np.arange(5) < 2),
    "ResultCheck": acv.check_result(STEP),
    "Certificate": acv.certify(STEP),
    "Influence": acv.most_influential(FIT, lambda params: params[0], 10),
    "Estimate": acv.difference_estimate(STEP, 3, RNG),
    "FutureLosses": acv.leave_future_out(HMM_FIT, [40, 45, 50]),
    "Choice": acv.choose({"weak": GLM, "strong": penalised([2.0])}, FOLDS),
    "Tuning": acv.tune(penalised, [1.0], FOLDS, max_evaluations=2),
    "CVGradient": acv.cv_gradient(penalised, [1.0], FOLDS),
    "Derivatives": acv.derivatives_of(GLM),
    "GLM": GLM,
    "HMM": HMM,
    "HMM of sequences": models.HMM([X, X], 3, concentration=2.0),
    "MixtureHMM": models.MixtureHMM(X, 2, 3, covariance="spherical"),
    "chain prior": HMM.chain_prior,
    "HiddenMRF": models.HiddenMRF(np.arange(20), [(0, 1), (1, 2)], 0.5),
    "FeatureCRF": acv.FeatureCRF([[["a"], ["b"]]] * 3, [["x", "y"]] * 3),
    "PairwiseLinear": models.PairwiseLinear(X, Y, "contrastive"),
    "SemiSupervised": models.SemiSupervised(ENERGY, 2.0 * Y - 1.0),
    "ManifoldEnergy": ENERGY,
    "GraphAffinity": models.GraphAffinity(np.eye(3)),
    "PoissonTraffic": models.PoissonTraffic(np.arange(N) % 7, np.arange(N) % 7),
    **models.FAMILIES,
    "a user's model": Quadratic(),
    "Examples": EXAMPLES,
    "pegasos": PEGASOS,
    "PartialFit": acv.learners.PartialFit(SGDClassifier(), (0, 1)),
    "treecv": acv.treecv(PEGASOS, EXAMPLES, 5),
    "cv_result": acv.approx_cross_validate(LOGISTIC, X, Y)["cv_result"],
    "Tuned": acv.approx_tune(LOGISTIC, X, Y, np.linspace(0.1, 1.0, 30)),
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
def test_it_is_one_line_of_words_and_numbers(held):
    shown = repr(held)
    assert "\n" not in shown
    assert len(shown) <= 120
    assert not re.search(r"0x|np\.|<function|<bound|object at|array\(|nan, nan", shown), shown
    assert re.match(type(held).__name__ + r"\(|\w+\(", shown)


def test_results_name_the_folds_that_are_marked_and_models_what_differs_from_defaults():
    marked = replace(STEP, indefinite=np.arange(5) == 3)
    assert ", 1 unreliable: [3], " in repr(marked)
    marked = replace(STEP, diagnostics={"converged": np.zeros(5, bool)})
    assert ", 5 unreliable: 5 entries, " in repr(marked)
    assert repr(GLM) == "GLM(n_sites=60, family=logistic, penalty=1)"
    assert repr(HELD["HMM of sequences"]) == (
        "HMM(n_sites=2, n_states=3, emission=Gaussian(), sites='sequences', concentration=2, "
        "context=0)"
    )
    assert repr(FOLDS) == "Folds(5 folds of 12 sites)"
    unequal = repr(HELD["Folds of unequal sizes"])
    assert unequal == "Folds(2 folds of 1 to 2 sites, 1 of them scored)"
    assert one_line(Quadratic()) == "Quadratic(n_sites=60, data=ndarray (60, 2))"
