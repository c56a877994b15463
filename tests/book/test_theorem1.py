"""Theorem 1: the bound holds on every fold, and its constants are suprema."""

import numpy as np
import pytest
from acvbook.theorem1 import THIRDS, Ball, theorem1
from autograd import grad, hessian

import acvlib as acv
from acvlib.models import FAMILIES, GLM


def model(family, n, penalty=0.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2))
    mean = FAMILIES[family].mean(x @ np.array([0.5, -0.3]))
    y = rng.poisson(mean) if family == "poisson" else rng.binomial(1, mean)
    return GLM(x, y, family, penalty=penalty)


@pytest.mark.parametrize("penalty", [0.0, 3.0])
@pytest.mark.parametrize("family", THIRDS)
def test_the_bound_holds_where_it_applies_and_it_applies_to_many_data(family, penalty):
    glm = model(family, 20_000, penalty)
    fit, folds = acv.fit(glm, tolerance=1e-10), acv.folds.leave_one_out(20_000)[:300]
    theorem = theorem1(fit, folds)
    jackknife = acv.infinitesimal_jackknife(fit, folds)
    exact = acv.exact(fit, folds, tolerance=1e-10)
    actual = np.linalg.norm(jackknife.params - exact.params, axis=1)
    assert theorem.applies.all()
    assert (actual <= theorem.bound).all()
    assert (actual > 1e-6 * theorem.bound).any()  # not vacuous


@pytest.mark.parametrize("family", THIRDS)
def test_the_constants_are_suprema_over_the_ball(family):
    glm, radius, rng = model(family, 40), 0.4, np.random.default_rng(1)
    fit = acv.fit(glm)
    ball, folds = Ball(glm, fit.params, radius), acv.folds.leave_one_out(40)
    deltas, one = ball.deltas(folds), np.ones(40)

    def term(params, n):
        return glm.objective(params, (np.arange(40) == n) * 1.0)

    for _ in range(20):
        direction = rng.normal(size=3)
        params = fit.params + radius * rng.random() * direction / np.linalg.norm(direction)
        inverse = np.linalg.inv(hessian(glm.objective)(params, one) / 40)
        assert np.linalg.norm(inverse, 2) <= ball.c_op() * (1 + 1e-12)
        change = [hessian(term)(params, n) - hessian(term)(fit.params, n) for n in range(40)]
        lipschitz = np.linalg.norm(change) / np.sqrt(40) / np.linalg.norm(params - fit.params)
        assert lipschitz <= ball.l_h() * (1 + 1e-12)
        for n in range(0, 40, 8):
            sums = abs(grad(term)(params, n)).sum(), abs(hessian(term)(params, n)).sum()
            assert max(sums) / 40 <= deltas[n] * (1 + 1e-12)


def test_families_without_constants_are_refused():
    glm = GLM(np.arange(20.0)[:, None] / 20, np.arange(20.0), "gaussian")
    with pytest.raises(ValueError, match="gaussian family has no constants"):
        theorem1(acv.fit(glm), [[0]])
