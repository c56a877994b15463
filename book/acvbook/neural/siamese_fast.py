"""Derivatives of a `Siamese` model by torch.func, named as in `acvlib.curvature`;
the Hessian is only multiplied.
"""

import threading
import warnings

import numpy as np
import torch
from torch.func import grad, grad_and_value, vmap

from acvlib.folds import weights as fold_weights

from .batches import one_thread

TOGETHER = 10  # vectors that are multiplied at once
FORWARD_MODE = threading.Lock()  # torch has a single one for all threads


def jvp(function, point, direction):
    """(function(point), its derivative along a direction),
    without the warning of torch about its own torch.jit.
    """
    with FORWARD_MODE, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.func.jvp(function, (point,), (direction,))


class SiameseFast:
    """All in float64 and on one thread: a network this small gains nothing from more."""

    def __init__(self, model):
        self.model, self.sites = model, torch.arange(model.n_sites)

    @one_thread()
    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        weights = torch.as_tensor(weights)
        gradient, value = grad_and_value(self.model.weighted)(
            torch.tensor(params), weights, self.sites
        )
        return float(value), gradient.numpy()

    def fold_gradients(self, params, folds):
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        weights = (fold_weights(self.model.n_sites, fold) for fold in folds)
        values, gradients = zip(*map(self.value_and_gradient, params, weights), strict=True)
        return np.array(values), np.array(gradients)

    def fold_cross(self, params, folds):
        """J (w_o - 1) of each fold, (n_folds, D), with the normaliser's own derivative."""
        return self._cross(params, folds, lambda p, w, fold: self.model.weighted(p, w, self.sites))

    def printed_cross(self, params, folds):
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the normaliser is the fold's, and
        fixed.
        """

        def fixed(params, weights, fold):
            pairs = weights @ self.model.losses(params, self.sites) @ weights
            return self.model.n_sites * pairs / (self.model.n_sites - len(fold)) ** 2

        return self._cross(params, folds, fixed)

    @one_thread()
    def _cross(self, params, folds, function):
        """d/de dfunction/dparams at weights 1 + e (w_o - 1), e = 0, for each fold."""
        params, ones = torch.as_tensor(params), torch.ones(self.model.n_sites, dtype=torch.float64)
        rows = []
        for fold in folds:
            change = torch.as_tensor(fold_weights(self.model.n_sites, fold) - 1.0)
            rows.append(
                jvp(lambda w, fold=fold: grad(function)(params, w, fold), ones, change)[1].numpy()
            )
        return np.array(rows)

    @one_thread()
    def pair_expansion(self, params, move, fold):
        """loss of every pair inside the fold at params + move, to first order,
        (len(fold), len(fold)).
        """
        point, direction = torch.as_tensor(params), torch.as_tensor(move)
        value, change = jvp(lambda p: self.model.losses(p, torch.as_tensor(fold)), point, direction)
        return (value + change).numpy()

    def heldout_expansion(self, params, move, fold):
        """`heldout_loss` at params + move, to first order, (len(fold),)."""
        return self.pair_expansion(params, move, fold).mean(axis=1)

    def hessian_products(self, params, folds):
        """H(w_o) of each fold at its params (n_folds, D), for `krylov` and `lissa`."""
        weights = [fold_weights(self.model.n_sites, fold) for fold in folds]
        return Products(self.model, params, weights, self.sites)


class Products:
    """H at each row of params (n, D) and weights (n, p), over the images of `sites` alone;
    not preconditioned.
    """

    def __init__(self, model, params, weights, sites):
        self.model, self.params, self.weights, self.sites = model, params, weights, sites

    def sampled(self, rng, size):
        """The same over the pairs of a few images drawn without replacement:
        an estimate of H for `lissa`.
        """
        sites = np.sort(rng.choice(self.sites.numpy(), size, replace=False))
        return Products(self.model, self.params, self.weights, torch.as_tensor(sites))

    def evaluate(self):
        """(F (n,), dF/dparams (n, D))."""
        pairs = zip(self.params, self.weights, strict=True)
        values, gradients = zip(
            *(self.model.fast.value_and_gradient(*pair) for pair in pairs), strict=True
        )
        return np.array(values), np.array(gradients)

    def precondition(self, vectors, rows):
        """The vectors themselves."""
        return vectors.copy()

    @one_thread()
    def multiply(self, vectors, rows):
        """H v of each vector (n, D), for the rows that they belong to."""
        products = np.empty_like(vectors)
        for row in np.unique(rows):
            mine = np.flatnonzero(rows == row)
            for part in np.array_split(mine, -(-len(mine) // TOGETHER)):
                products[part] = self._multiply(torch.as_tensor(vectors[part]), row)
        return products

    def _multiply(self, vectors, row):
        params, weights = (
            torch.as_tensor(self.params[row]),
            torch.as_tensor(self.weights[row])[self.sites],
        )
        gradient = grad(lambda p: self.model.weighted(p, weights, self.sites))
        return vmap(lambda v: jvp(gradient, params, v)[1])(vectors).numpy()
