"""Emissions of HMMs beside hmmlearn's: EM and smoothing, and written derivatives beside autograd's.

Ratios of the fastest of several runs in turns; ours starts from its K-means start, as theirs does.
"""

import logging
from copy import deepcopy

import numpy as np
from _measure import ratio, report
from autograd import grad
from hmmlearn import hmm as peers

from acvlib.models import GLMHMM, CategoricalHMM, GaussianHMM, MixtureHMM, PoissonHMM
from acvlib.models.hmm import em

N_ITER = 5
logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)


def pairs(n_states, n=10_000):
    """(name, our model, hmmlearn's, its data) of each emission."""
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.random(n) < 0.05) % n_states
    x = 1.5 * z[:, None] + rng.normal(size=(n, 6))
    counts = rng.poisson(3.0 + 4.0 * z[:, None], (n, 2))
    codes = (z + rng.integers(0, 4, n)) % 8
    settings = {"n_iter": N_ITER, "tol": -np.inf}
    for kind in ("diag", "spherical", "full", "tied"):
        ours = GaussianHMM(x, n_states, covariance=kind)
        yield kind, ours, peers.GaussianHMM(n_states, kind, **settings), x
    yield "poisson", PoissonHMM(counts, n_states), peers.PoissonHMM(n_states, **settings), counts
    theirs = peers.CategoricalHMM(n_states, **settings)
    yield "categorical", CategoricalHMM(codes, n_states), theirs, codes[:, None]
    if n_states < 20:  # with 20 theirs ends in nan
        yield "mixture", MixtureHMM(x, n_states, 2), peers.GMMHMM(n_states, 2, **settings), x


def speeds(n_states):
    """EM and smoothing over hmmlearn's."""
    for name, model, peer, x in pairs(n_states):
        start = model.initial_params()
        peer.fit(x)
        again = deepcopy(peer).set_params(init_params="")

        def ours(model=model, start=start):
            return em._climb(model, start, max_iterations=N_ITER, tolerance=0.0)

        where = f"{name}, K = {n_states}"
        report(f"EM over hmmlearn's, {where}", ratio(ours, lambda p=again, x=x: p.fit(x), 3), 1)
        smooth = ratio(
            lambda m=model, s=start: m.posterior(s), lambda p=peer, x=x: p.predict_proba(x), 3
        )
        report(f"smoothing over hmmlearn's, {where}", smooth, 1)


def derivatives():
    """Our gradient over autograd's of the same objective."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(300, 3))
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-u[:, 0]))) * 1.0
    models = {name: model for name, model, _, _ in pairs(2, 300)} | {"glm": GLMHMM(y, u, 2)}
    for name, model in models.items():
        point, ones = model.initial_params(), np.ones(model.n_sites)
        slow = grad(model.objective)
        own = model.derivatives
        by_own = ratio(
            lambda o=own, p=point, w=ones: o.value_and_gradient(p, w),
            lambda s=slow, p=point, w=ones: s(p, w),
            5,
        )
        report(f"gradient over autograd's, {name}", by_own, 1 / 1.5)


def main():
    for n_states in (2, 5, 20):
        speeds(n_states)
    derivatives()
