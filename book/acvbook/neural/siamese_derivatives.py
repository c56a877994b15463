"""Derivatives of a `Siamese` model by torch.func; the Hessian is only multiplied with."""

import threading
import warnings

import numpy as np
import torch
from torch.func import grad, grad_and_value, vmap

from acvlib.derivatives import Derivatives
from acvlib.folds import weights as fold_weights

from .batches import one_torch_thread

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

    @one_torch_thread.inside()
    def heldout_expansion(self, params, move, fold):
        """`heldout_loss` at params + move, to first order, (len(fold),)."""
        sites = torch.as_tensor(fold)
        point = torch.tensor(params)
        value, change = jvp(lambda p: self.model.losses(p, sites), point, torch.as_tensor(move))
        return (value + change).numpy().mean(axis=1)

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
