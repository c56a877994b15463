"""A Siamese convolutional network with the contrastive loss:

    F(theta, w) / p = sum_ij w_i w_j loss_ij / (sum_i w_i)^2 + gamma_I |theta|^2,
    loss_ij = |f_i - f_j|^2 for one person, max(margin - |f_i - f_j|, 0)^2 for two

f is a network with smooth activations. All images pass it once,
and all pairs of them make the loss.
Source: Zhu and Liu (2021), Example 3.
"""

import threading
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch.func import grad, grad_and_value, vmap
from torch.nn import functional

from acvlib.checks import read_only
from acvlib.derivatives import Derivatives
from acvlib.folds import weights as fold_weights
from acvlib.model import ModelDefaults

from .batches import one_torch_thread

TINY = 1e-12  # added to squared distances, whose root has no derivative at 0


@dataclass(frozen=True)
class Siamese(ModelDefaults):
    """images (p, height, width), person (p,) integers; theta flat (D,), as in `shapes`.

    A site is an image.

    channels: of the two convolutional layers; n_outputs: length of f.
    """

    images: np.ndarray = field(repr=False)
    person: np.ndarray = field(repr=False)
    gamma_i: float = 1e-4
    margin: float = 1.0
    channels: tuple = (6, 12)
    n_outputs: int = 8
    normalised: ClassVar[bool] = True

    def __post_init__(self):
        for name in ("images", "person"):
            object.__setattr__(self, name, read_only(getattr(self, name), None))

    @property
    def n_sites(self):
        return len(self.person)

    @cached_property
    def inputs(self):
        """The images (p, 1, height, width), centred and of variance 1, as a tensor."""
        return torch.tensor((self.images - self.images.mean()) / self.images.std())[:, None]

    @cached_property
    def same(self):
        """(p, p): 1 for two images of one person."""
        person = torch.tensor(self.person)
        return (person[:, None] == person).double()

    @cached_property
    def shapes(self):
        """Of the weights and biases, in the order of theta."""
        (a, b), (height, width) = self.channels, self.images.shape[1:]
        flat = b * _reduced(height) * _reduced(width)
        return (a, 1, 5, 5), (a,), (b, a, 3, 3), (b,), (self.n_outputs, flat), (self.n_outputs,)

    @property
    def derivatives(self):
        """Gradients, Hessian products and cross-derivatives by torch.func."""
        return SiameseDerivatives(self)

    def outputs(self, params, inputs):
        """f of each input (n, n_outputs)."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        parts = [
            part.reshape(shape)
            for part, shape in zip(params.split(sizes), self.shapes, strict=True)
        ]
        hidden = torch.tanh(functional.conv2d(inputs, *parts[:2], stride=3))
        hidden = torch.tanh(functional.conv2d(hidden, *parts[2:4], stride=2))
        return functional.linear(hidden.flatten(1), *parts[4:])

    def losses(self, params, sites):
        """loss of all pairs of these images, (n, n), as a tensor."""
        f = self.outputs(params, self.inputs[sites])
        size = (f**2).sum(dim=1)
        square = torch.clamp(size[:, None] + size - 2.0 * f @ f.T, min=0.0)
        apart = torch.clamp(self.margin - torch.sqrt(square + TINY), min=0.0) ** 2
        same = self.same[sites][:, sites]
        return same * square + (1.0 - same) * apart

    def weighted(self, params, weights, sites):
        """F of tensors, over these images alone."""
        mean = weights @ self.losses(params, sites) @ weights / weights.sum() ** 2
        return self.n_sites * (mean + self.gamma_i * (params**2).sum())

    def objective(self, params, weights):
        """F as a float; not for autograd, whose part `derivatives` plays."""
        return self.derivatives.value_and_gradient(params, weights)[0]

    @one_torch_thread.inside()
    @torch.no_grad()
    def pair_losses(self, params, fold):
        """loss of every pair inside the fold, (len(fold), len(fold))."""
        return self.losses(torch.tensor(params), torch.as_tensor(fold)).numpy()

    def heldout_loss(self, params, fold):
        """Each left-out image's mean loss over its pairs inside the fold: Eq. 8 is their mean."""
        return self.pair_losses(params, fold).mean(axis=1)

    def printed_cross(self, params, folds):
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the fold's own normaliser, held fixed."""
        sites = torch.arange(self.n_sites)

        def fixed(params, weights, fold):
            pairs = weights @ self.losses(params, sites) @ weights
            return self.n_sites * pairs / (self.n_sites - len(fold)) ** 2

        return fold_cross(self, fixed, params, folds)

    def initial_params(self, rng):
        """Normal weights of variance 1 / inputs, biases 0."""
        parts = [
            rng.standard_normal(s) / np.sqrt(np.prod(s[1:])) if len(s) > 1 else np.zeros(s)
            for s in self.shapes
        ]
        return np.concatenate([part.ravel() for part in parts])


def _reduced(size):
    """What both convolutions leave of a side: 5 wide in steps of 3, then 3 in steps of 2."""
    return ((size - 5) // 3 + 1 - 3) // 2 + 1


class Adam(NamedTuple):
    """steps and learning rate; few steps leave the network far from converged, as in the paper."""

    steps: int = 150
    learning_rate: float = 3e-3


@one_torch_thread.inside()
def train_siamese(model, training, seed, weights=None):
    """The params (D,): the same seed and weights give the same network, bit for bit.

    weights (p,): 1 where not given; a fold is left out by zeros.
    """
    params = torch.tensor(model.initial_params(np.random.default_rng(seed)), requires_grad=True)
    weights = torch.as_tensor(np.ones(model.n_sites) if weights is None else weights)
    sites = torch.nonzero(weights)[:, 0]
    optimiser = torch.optim.Adam([params], training.learning_rate)
    for _ in range(training.steps):
        optimiser.zero_grad()
        loss = model.weighted(params, weights[sites], sites)
        loss.backward()
        optimiser.step()
    return params.detach().numpy()


TOGETHER = 10  # vectors that are multiplied at once
FORWARD_MODE = threading.Lock()  # torch has a single one for all threads


def jvp(function, point, direction):
    """(function(point), its derivative along a direction), without a warning of torch's own."""
    with FORWARD_MODE, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.func.jvp(function, (point,), (direction,))


@one_torch_thread.inside()
def fold_cross(model, function, params, folds):
    """d/de dfunction/dparams at weights 1 + e (w_o - 1), e = 0, for each fold, (n_folds, D).

    function(params, weights, fold), of tensors.
    """
    point = torch.tensor(params)
    ones = torch.ones(model.n_sites, dtype=torch.float64)
    rows = []
    for fold in folds:
        change = torch.as_tensor(fold_weights(model.n_sites, fold) - 1.0)
        _, row = jvp(lambda w, fold=fold: grad(function)(point, w, fold), ones, change)
        rows.append(row.numpy())
    return np.array(rows)


class SiameseDerivatives(Derivatives):
    """All in float64 and on one thread: a network this small gains nothing from more."""

    matrix_free = True

    @one_torch_thread.inside()
    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        sites = torch.arange(self.n_sites)
        function = grad_and_value(self.model.weighted)
        gradient, value = function(torch.tensor(params), torch.as_tensor(weights), sites)
        return float(value), gradient.numpy()

    def cross(self, params, folds):
        """J (w_o - 1) of each fold, with the normaliser's own derivative."""
        sites = torch.arange(self.n_sites)
        weighted = self.model.weighted
        return fold_cross(self.model, lambda p, w, _: weighted(p, w, sites), params, folds)

    def products(self, params, folds):
        """H(w_o) of each fold at its params."""
        points = np.broadcast_to(params, (len(folds), params.shape[-1]))
        weights = [fold_weights(self.n_sites, fold) for fold in folds]
        return Products(self.model, points, weights, torch.arange(self.n_sites))


class Products:
    """H at each row of params (n, D) and weights (n, p), over the images of `sites` alone."""

    rough = None

    def __init__(self, model, params, weights, sites):
        self.model = model
        self.params = params
        self.weights = weights
        self.sites = sites

    def sampled(self, rng, size):
        """The same over pairs of a few random images: an estimate of H for `lissa`."""
        sites = np.sort(rng.choice(self.sites.numpy(), size, replace=False))
        return Products(self.model, self.params, self.weights, torch.as_tensor(sites))

    def evaluate(self):
        """(F (n,), dF/dparams (n, D))."""
        value_and_gradient = self.model.derivatives.value_and_gradient
        pairs = zip(self.params, self.weights, strict=True)
        values, gradients = zip(*(value_and_gradient(*pair) for pair in pairs), strict=True)
        return np.array(values), np.array(gradients)

    def precondition(self, vectors, rows):
        """The vectors themselves."""
        return vectors.copy()

    @one_torch_thread.inside()
    def multiply(self, vectors, rows):
        """H v of each vector (n, D), for the rows that they belong to."""
        products = np.empty_like(vectors)
        for row in np.unique(rows):
            mine = np.flatnonzero(rows == row)
            for part in np.array_split(mine, -(-len(mine) // TOGETHER)):
                products[part] = self._multiply(torch.as_tensor(vectors[part]), row)
        return products

    def _multiply(self, vectors, row):
        params = torch.tensor(self.params[row])
        weights = torch.as_tensor(self.weights[row])[self.sites]
        gradient = grad(lambda p: self.model.weighted(p, weights, self.sites))
        return vmap(lambda v: jvp(gradient, params, v)[1])(vectors).numpy()
