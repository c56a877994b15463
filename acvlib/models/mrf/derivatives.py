"""Closed forms of a `HiddenMRF`; each is tested against autograd.

dF/dtheta_k = sum_t s_t P(z_t = k) (e_t rate_k - x_t), s_t the weight of a count, its sample weight
included, e_t the exposure; curvatures are the slopes of these, as imaginary parts.
"""

import numpy as np

from ...derivatives import Derivatives
from ...inference import graph
from ...inference.chain import STEP
from ...solvers.inverse import DenseHessian


class MRFDerivatives(Derivatives):
    """Derivatives of one HiddenMRF."""

    chord_rate = 0.5
    fresh = 1.0  # spares every other fold a Hessian, which costs several gradients

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams (K,)); of complex params, too."""
        model = self.model
        factor = model.factors(weights)
        node, edge = model.potentials(model.log_densities.unchecked(model, params), factor)
        log_z, sums = graph.collect(node, edge, model.elimination)
        gamma, _ = graph.distribute(sums, model.elimination)
        expected = np.exp(params) * ((factor.observation * model.exposure) @ gamma)
        return -float(log_z.real), expected - (factor.observation * model.counts) @ gamma

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        """d2F/dparams2 (K, K)."""
        steps = params + 1j * STEP * np.eye(len(params))
        rows = [self.value_and_gradient(step, weights)[1].imag for step in steps]
        return DenseHessian(np.array(rows) / STEP)
