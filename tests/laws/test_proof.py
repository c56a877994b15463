"""Law 13: a proof is a proof: whatever is handed to `certify`, its bounds hold in exact arithmetic.

Here: refits by Newton's method in extended precision.
"""

import warnings

import numpy as np
from hypothesis import strategies as st

import acvlib as acv
from acvlib import models

from .doors import DOORS, METHODS, rows
from .law import SEEDS, Refused, ask, cases, hold

LONG = np.longdouble


def solved(H, g):
    """H^-1 g by Gaussian elimination with pivots, in the precision of H."""
    A = np.column_stack([H, g])
    n = len(g)
    for k in range(n):
        pivot = k + int(np.argmax(abs(A[k:, k])))
        A[[k, pivot]] = A[[pivot, k]]
        A[k + 1 :] -= A[k + 1 :, [k]] / A[k, k] * A[k]
    x = np.zeros(n, A.dtype)
    for k in reversed(range(n)):
        x[k] = (A[k, n] - A[k, k + 1 : n] @ x[k + 1 :]) / A[k, k]
    return x


def exact_losses(family, X, y, fold, penalty):
    """The left-out losses of refits, in extended precision and standard units."""
    X, y = X.astype(LONG), y.astype(LONG)
    X = X - X.mean(axis=0)  # the intercept is free
    Z = np.column_stack([np.ones(len(y), LONG), X])
    ridge = np.append(0, penalty).astype(LONG)
    losses = np.empty(len(y), LONG)
    for k in np.unique(fold):
        kept, b = fold != k, np.zeros(Z.shape[1], LONG)
        if family == "poisson":
            b[0] = np.log(y[kept].mean())
        for _ in range(60):
            eta = Z[kept] @ b
            mean = np.exp(eta) if family == "poisson" else 1 / (1 + np.exp(-eta))
            curve = mean if family == "poisson" else mean * (1 - mean)
            H = (Z[kept].T * curve) @ Z[kept] + np.diag(ridge)
            step = solved(H, Z[kept].T @ (mean - y[kept]) + ridge * b)
            b = b - step / max(1.0, abs(Z[kept] @ step).max())
        eta = Z[~kept] @ b
        if family == "poisson":
            terms = np.exp(eta) - y[~kept] * eta
        else:
            terms = np.logaddexp(LONG(0), eta) - y[~kept] * eta
        losses[~kept] = terms
    return losses


@cases("proof", ["GLM logistic", "GLM poisson"])
def test_bounds_hold_in_exact_arithmetic(name):
    """In any unit of a column, for single rows and folds, and for large counts."""
    family = name.split()[1]

    def check(seed, exponent, level, single, size, place):
        rng = np.random.default_rng(seed)
        data = rows(rng, family)
        X, y, unit = data["X"] + level, data["y"], 10.0**exponent
        y = np.round(y * 10.0**size) if family == "poisson" else y
        X[:, 0] *= unit
        penalty = 0.5 * np.array([unit**2, 1.0])
        fold = np.arange(len(y)) if single else data["fold"]
        model = models.GLM(X, y, family, penalty=penalty)
        folds = [np.flatnonzero(fold == k) for k in np.unique(fold)]
        try:
            with warnings.catch_warnings():  # a proof may start anywhere
                warnings.simplefilter("ignore")
                fit = ask(acv.fit, model)
                result = ask(METHODS[place], fit, acv.Folds(folds))
        except Refused:
            return  # law 1 has what is refused for its unit
        proof = ask(acv.certify, result)
        low, high = proof.lower.pointwise, proof.upper.pointwise
        assert (low <= high).all()
        losses = exact_losses(family, X, y, fold, penalty)
        if family == "poisson":  # log y! is the same on both sides
            losses = losses + log_factorial(y.astype(LONG))
        assert (low <= losses).all()
        assert (losses <= high).all()

    drawn = {"exponent": st.sampled_from([0, 0, -4, 4, 8]), "single": st.booleans()}
    drawn |= {"level": st.sampled_from([-3, -3, 2017, 450_000])}
    drawn |= {"size": st.sampled_from([0, 3, 7, 9]), "place": st.sampled_from([0, 1, 3, 4])}
    hold(check, 30, seed=SEEDS, **drawn)


def log_factorial(y):
    """By Stirling's series, 80 steps up."""
    far = y + 80
    series = (far + 0.5) * np.log(far) - far + 0.5 * np.log(2 * np.arccos(LONG(-1)))
    series = series + 1 / (12 * far) - 1 / (360 * far**3) + 1 / (1260 * far**5)
    return series - sum(np.log(y + step) for step in range(1, 81))


CERTIFIED = ("GLM logistic", "GLM poisson", "LinearChainCRF")
LEAVE = ("GLM gaussian", "GLM multinomial", "SemiSupervised", "PairwiseLinear", "FeatureCRF")


@cases("proof", LEAVE, "or absent")
def test_what_is_not_proved_is_refused(name):
    """Rigorous, or absent: an interval holds the loss of exact refits, or there is none."""
    door = DOORS[name]
    data = door.data(np.random.default_rng(0))
    model = door.model(**data)
    fit = acv.fit(model, tolerance=1e-10)
    observed = getattr(model, "observed", None)
    folds = acv.folds.k_fold(model.n_sites, 3, observed=observed)
    result = acv.newton_step(fit, folds)
    try:
        proof = ask(acv.certify, result)
    except Refused as error:
        if isinstance(error.__cause__, ValueError | TypeError | acv.NotConcordant):
            return
        raise
    losses = acv.exact(fit, folds, tolerance=1e-10).pointwise
    seen = np.isfinite(losses)
    assert (proof.lower.pointwise[seen] - 1e-10 <= losses[seen]).all()
    assert (losses[seen] <= proof.upper.pointwise[seen] + 1e-10).all()
