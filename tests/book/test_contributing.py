"""CONTRIBUTING.md leads to files that exist, and its checklists are all that a new part needs."""

import re
from dataclasses import dataclass

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.toy_models import Laplace
from places import ROOT
from small_book import CHAPTERS, CLAIMS, NOTEBOOK, SmallBook

import acvlib as acv
from acvlib.declared import declared
from acvlib.methods.ladder import METHODS
from acvlib.model import ModelDefaults
from acvlib.models import FAMILIES, GLM, HMM, Family
from acvlib.results import Run

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FOLDERS = ["", "book", "tests", "tests/book", "acvlib", "acvlib/inference", "acvlib/treecv"]
FOLDERS += ["acvlib/models/hmm", "acvlib/models/hmm/emissions"]
ABSENT = ("notebooks/NN_name.py",)  # not yet, or ever
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = X @ [1.0, -1.0] + RNG.standard_normal(40)
FOLDS = acv.folds.k_fold(40, 5, 0)


def exists(path):
    """Whether a path, or one that fits its <placeholders>, is below one of the folders."""
    pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
    return any(found for folder in FOLDERS for found in (ROOT / folder).glob(pattern))


def test_every_path_exists():
    words = re.findall(r"(?<!`)`([^`\s]+)`(?!`)", TEXT)
    paths = {word for word in words if re.search(r"/|\.(py|toml|yml|lock|txt|md)$", word)}
    named = sorted(paths - set(ABSENT))
    assert len(named) > 30
    assert [path for path in named if not exists(path)] == []


def test_add_a_method(monkeypatch):
    def half_jackknife(fit, folds):
        run = Run("half_jackknife", fit, folds)
        moves = fit.hessian.solve(run.derivatives.cross(fit.params, run.folds).T).T
        return run.finish(fit.params - 0.5 * moves, {"cross": 1})

    monkeypatch.setitem(METHODS, "half_jackknife", half_jackknife)
    rungs = acv.ladder(acv.fit(GLM(X, Y, "gaussian")), FOLDS)
    ends = rungs["no_adjustment"].params, rungs["infinitesimal_jackknife"].params
    assert_allclose(rungs["half_jackknife"].params, sum(ends) / 2, rtol=1e-12)
    assert "half_jackknife" in acv.compare_methods(*reversed(rungs.values())).to_string()


def test_add_an_emission():
    assert re.search(r"minus_log_prior\(rows\)`, and `log_density\(row, frames\)", TEXT)
    x = np.repeat([0.0, 4.0, 0.0, 4.0], 10)[:, None] + RNG.standard_normal((40, 1))
    fit = acv.fit(HMM([x], 2, Laplace(), "steps"))
    exact, step = acv.exact(fit, FOLDS), acv.newton_step(fit, FOLDS)
    assert abs(step.loss - exact.loss) < abs(acv.no_adjustment(fit, FOLDS).loss - exact.loss)


def test_add_a_family(monkeypatch):
    cosh = Family(  # a robust regression: loss log cosh(y - eta)
        name="cosh",
        loss=lambda eta, y: anp.logaddexp(y - eta, eta - y),
        slope=lambda eta, y: np.tanh(eta - y),
        curvature=lambda eta, y: 1.0 / np.cosh(eta - y) ** 2,
        mean=lambda eta: eta,
        link=lambda mean: mean,
        accepts=np.isfinite,
        response="finite numbers",
        free_direction=lambda y: np.zeros(len(y), int),
    )
    monkeypatch.setitem(FAMILIES, "cosh", cosh)
    fit = acv.fit(GLM(X, Y, "cosh"))
    assert max(acv.check_model(fit.model, fit.params, 0).values()) < 1e-4
    assert_allclose(acv.newton_step(fit, FOLDS).loss, acv.exact(fit, FOLDS).loss, rtol=1e-2)


@declared
@dataclass(frozen=True)
class Mean(ModelDefaults):
    """The mean of numbers: four members, and no more."""

    x: np.ndarray
    sites = "numbers"

    @property
    def n_sites(self):
        return len(self.x)

    def objective(self, params, weights):
        return 0.5 * anp.sum(weights * (self.x - params[0]) ** 2)

    def heldout_loss(self, params, fold):
        return 0.5 * (self.x[fold] - params[0]) ** 2

    def initial_params(self, rng):
        return np.zeros(1)


def test_add_a_model():
    fit = acv.fit(Mean(Y))
    acv.check_model(fit.model, fit.params, 0)
    kept = [np.delete(Y, fold).mean() for fold in FOLDS]
    assert_allclose(acv.newton_step(fit, FOLDS).params[:, 0], kept)
    with pytest.raises(ValueError, match="numbers"):
        acv.exact(fit, acv.folds.k_fold(GLM(X, Y, "gaussian"), 5, 0))


def test_add_a_chapter_and_a_claim(tmp_path):
    """A third chapter beside two: what its checklist lists, and nothing else."""
    book = SmallBook(tmp_path).create()
    book.write("notebooks/three.py", NOTEBOOK.format(name="three", value=3, seconds=0))
    line = CHAPTERS.splitlines()[1]
    book.write("book/chapters.toml", CHAPTERS + line.replace("one", "three", 1) + "\n")
    book.write("book/_toc.yml", "root: index\nchapters:\n- file: three\n")
    code, output = book.make()
    assert code, "a claim that is recorded but not listed is no claim"
    assert "demo.three" in output
    claim = CLAIMS.splitlines()[2]
    book.write("book/claims/demo.toml", CLAIMS + claim.replace("one", "three") + "\n")
    code, output = book.make()
    assert code == 0, output
    assert "three-3.svg" in book.page
