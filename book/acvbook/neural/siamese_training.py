"""Training a `Siamese` network: a given number of Adam steps on all images,
from weights drawn by a seed.
"""

from typing import NamedTuple

import numpy as np
import torch

from .batches import one_torch_thread


class Adam(NamedTuple):
    """steps and learning rate; few steps leave the network far from converged, as in the paper."""

    steps: int = 150
    learning_rate: float = 3e-3


@one_torch_thread
def train_siamese(model, training, seed, weights=None):
    """(params (D,), objective after each step):
    the same seed and weights give the same network, bit for bit.

    weights (p,): 1 where not given; a fold is left out by zeros.
    """
    params = torch.tensor(model.initial_params(np.random.default_rng(seed)), requires_grad=True)
    weights = torch.as_tensor(np.ones(model.n_sites) if weights is None else weights)
    sites = torch.nonzero(weights)[:, 0]
    optimiser = torch.optim.Adam([params], training.learning_rate)
    history = []
    for _ in range(training.steps):
        optimiser.zero_grad()
        loss = model.weighted(params, weights[sites], sites)
        loss.backward()
        optimiser.step()
        history.append(float(loss.detach()))
    return params.detach().numpy(), np.array(history)
