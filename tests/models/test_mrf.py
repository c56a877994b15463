"""The hidden Markov random field against enumeration, autograd and delete-and-refit."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd.scipy.special import gammaln, logsumexp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumerate import paths
from oracles.refit import derivatives
from oracles.wrappers import ByAutograd, raises

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.models import EmptyState, HiddenMRF
from acvlib.weighting import drop_latents, keep_latents

EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 3), (5, 4)]  # a ring with a tail; site 6 is an island
COUNTS = [1, 9, 12, 2, 0, 8, 3]
TIMES = np.array([2, 1, 3, 1, 0, 1, 2])  # how often each count stands for itself
SCHEMES = [keep_latents, drop_latents]
GRID = [(i, i + 1) for i in range(48) if i % 8 != 7]  # 6 rows of 8
GRID += [(i, i + 8) for i in range(40)]
EMPTY = [(20.0, 4, r"at coupling 20, state \d of the fit holds .* Lower the coupling")]
EMPTY += [(0.5, 0, r"with \S+ counts: its log rate")]


def enumerated(counts, edges, coupling, n_states, scheme, exposure=1.0, times=1.0):
    """F(params, weights) of Eqs. 4 and 5, by a sum over all states of the field."""
    counts, edges, z = np.array(counts), np.array(edges), paths(len(counts), n_states)
    agree = (z[:, edges[:, 0]] == z[:, edges[:, 1]]).astype(float)
    per = np.broadcast_to(exposure, len(counts))[:, None]

    def objective(params, weights):
        log_rate = params + np.log(per)
        density = counts[:, None] * log_rate - anp.exp(log_rate) - gammaln(counts[:, None] + 1.0)
        observed = anp.sum(weights * times * density[np.arange(len(counts)), z], axis=1)
        present = weights * (np.broadcast_to(times, len(counts)) > 0)
        both = present[edges[:, 0]] * present[edges[:, 1]]
        kept = both if scheme is drop_latents else np.ones(len(edges))
        return -logsumexp(observed + coupling * anp.sum(kept * agree, axis=1))

    return objective


def params_of(n_states):
    return np.log(np.array([2.0, 8.0, 4.0])[:n_states])


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    coupling=st.floats(-1, 3),
    n_states=st.integers(1, 3),
    scheme=st.sampled_from(SCHEMES),
    kind=st.sampled_from(["one", "real", "fold", "bootstrap"]),
    times=st.sampled_from([1.0, TIMES]),
)
def test_objective_and_derivatives_equal_enumeration(seed, coupling, n_states, scheme, kind, times):
    rng = np.random.default_rng(seed)
    weights = {
        "one": np.ones(7),
        "real": rng.uniform(0.2, 0.9, 7),
        "fold": acv.folds.weights(7, [1, 4]),
        "bootstrap": 1.0 * rng.multinomial(7, np.full(7, 1 / 7)),
    }[kind]
    exposure = rng.uniform(0.5, 4.0, 7)
    model = HiddenMRF(COUNTS, EDGES, coupling, n_states, scheme, exposure, times)
    params = params_of(n_states)
    objective = enumerated(COUNTS, EDGES, coupling, n_states, scheme, exposure, times)
    value, *expected = derivatives(objective, params, weights)
    for each in (model, ByAutograd(model)):
        ours = derivatives_of(each)
        found, gradient = ours.value_and_gradient(params, weights)
        assert found == pytest.approx(value, rel=1e-12, abs=1e-11)
        matrices = ours.hessian(params, weights), ours.cross_matrix(params, weights)
        for part, known in zip((gradient, *matrices), expected, strict=True):
            np.testing.assert_allclose(part, known, rtol=0, atol=1e-10)


@pytest.mark.parametrize("times", [np.ones(7), TIMES])
def test_heldout_loss_equals_enumeration(times):
    """-log p(x_t | x outside the fold): log-sum without t's count less log-sum with it, once."""
    objective, params = enumerated(COUNTS, EDGES, 0.7, 2, keep_latents, 1.0, times), params_of(2)
    model, fold = HiddenMRF(COUNTS, EDGES, 0.7, sample_weight=times), np.array([0, 3, 6])
    outside = acv.folds.weights(7, fold)
    joint = [objective(params, outside + np.eye(7)[t] / times[t]) for t in fold]
    expected = np.array(joint) - objective(params, outside)
    np.testing.assert_allclose(model.heldout_loss(params, fold), expected, rtol=1e-12)


@pytest.mark.parametrize(("coupling", "low", "message"), EMPTY)
def test_a_state_without_sites_or_counts_says_so(coupling, low, message, rng):
    left = np.arange(48) % 8 < 4
    counts = np.where(left, 0, 20)
    if low:
        counts = rng.poisson(np.where(left ^ (rng.random(48) < 0.15), low, 15))
    raises(message, acv.fit, HiddenMRF(counts, GRID, coupling), error=EmptyState)
