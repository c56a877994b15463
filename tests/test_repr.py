"""What users hold is shown in one line that says something, on a terminal as in a notebook."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier

import acvlib as acv
from acvlib import models
from acvlib.checks import one_line

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = np.arange(N) % 2.0
SERIES = RNG.normal(size=N) + 3 * (np.arange(N) % 20 > 10)
GLM = models.GLM(X, Y, penalty=1.0)
FIT = acv.fit(GLM)
FOLDS = acv.folds.k_fold(N, 5)
EXACT = acv.exact(FIT, FOLDS)
STEP = acv.newton_step(FIT, FOLDS)
HMM = models.GaussianHMM(SERIES, 2)
HMM_FIT = acv.fit(HMM, rng=0)
MRF = models.HiddenMRF(np.arange(20), np.array([[0, 1], [1, 2]]), 0.5)
AFFINITY = models.RBFAffinity(X, 1.0)
ENERGY = models.ManifoldEnergy(X, AFFINITY)
EXAMPLES = acv.Examples(X, 2.0 * Y - 1.0)
PEGASOS = acv.learners.pegasos(2)
LOGISTIC = LogisticRegression().fit(X, Y)
MANY = np.linspace(0.1, 1.0, 30)


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
    "exact": EXACT,
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
    "HiddenMRF": MRF,
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
    "Tuned": acv.approx_tune(LOGISTIC, X, Y, MANY),
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
def test_it_is_one_line_of_words_and_numbers(held):
    shown = repr(held)
    assert "\n" not in shown
    assert len(shown) <= 120
    assert not re.search(r"0x|np\.|<function|<bound|object at|array\(|nan, nan", shown), shown
    assert re.match(type(held).__name__ + r"\(|\w+\(", shown)


def test_a_result_names_the_folds_that_its_method_marks():
    marked = replace(STEP, indefinite=np.arange(5) == 3)
    assert ", 1 unreliable: [3], " in repr(marked)
    converged = np.zeros(5, bool)
    marked = replace(STEP, diagnostics={"converged": converged})
    assert ", 5 unreliable: 5 entries, " in repr(marked)


def test_models_show_what_differs_from_their_defaults():
    assert repr(GLM) == "GLM(n_sites=60, family=logistic, penalty=1)"
    assert repr(HELD["HMM of sequences"]) == (
        "HMM(n_sites=2, n_states=3, emission=Gaussian(), sites='sequences', concentration=2, "
        "context=0)"
    )
    assert repr(FOLDS) == "Folds(5 folds of 12 sites)"
    unequal = repr(HELD["Folds of unequal sizes"])
    assert unequal == "Folds(2 folds of 1 to 2 sites, 1 of them scored)"
    assert one_line(Quadratic()) == "Quadratic(n_sites=60, data=ndarray (60, 2))"
