"""Derivatives of a `Tagging` model by sums over label sequences; tested against autograd.

F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over the sentences n that the fold touches:

    own = sum_n s_n (log sum exp(scores of all that agrees with the known) - score of the labels)

With sentences as sites F is linear in their weights, and own is s_n (-log p(z_n | x_n)). With
labels of tokens as sites, known with weight 1 and summed out with weight 0, F is that of all
sentences, and own is -log p(hidden labels | x, all others).
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...folds import weights as fold_weights
from ...model import override
from ...parallel import in_blas_threads, in_threads
from ...weighting import check
from .paths import Paths
from .tokens import portions, starts_of


class TaggingDerivatives(Derivatives):
    """What needs gradients alone."""

    _together = 1  # sites of folds whose own terms one thread takes at a time

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        return self._value_and_gradient(params, weights, in_blas_threads)

    def _value_and_gradient(self, params, weights, run):
        check(weights, self.n_sites)
        value, gradient = self._likelihood(params, weights, run)
        pull = self.model.ridge * params
        return float(value + 0.5 * params @ pull), gradient + pull

    def _likelihood(self, params, weights, run):
        """F but for the ridge, and its gradient (D,)."""
        own = self.model.sentence_weights
        if not self.model.scheme:
            return self._whole(params, weights * own, run)
        value, gradient = self._whole(params, own, run)
        omitted = np.flatnonzero(weights != 1.0)
        if not omitted.size:
            return value, gradient
        values, gradients = self._own_sums(params, Folds([omitted]), weights[omitted])
        return value - values[0], gradient - gradients[0]

    def _whole(self, params, coefficients, run=in_blas_threads):
        """sum_n coefficients_n (-log p(z_n | x_n)) and its gradient (D,); `run` shares the work."""
        paths = Paths(self.model.tokens, self.model._parts(params))
        return coefficients @ paths.values, paths.gradient(coefficients)[self.model.free]

    # folds

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """At one point, those of all sentences less the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return self._each_at_its_own(np.atleast_2d(params), folds)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own_values, own_gradients = self._own_sums(params, folds)
        return value - own_values, gradient - own_gradients

    def _each_at_its_own(self, params, folds):
        """A weighting for each fold; threads share the folds, or the sentences of a single one."""
        run = in_blas_threads if len(folds) == 1 else partial(in_threads, n_threads=1)

        def at_fold(pair):
            point, fold = pair
            return self._value_and_gradient(point, fold_weights(self.n_sites, fold), run)

        pairs = in_blas_threads(at_fold, list(zip(params, folds, strict=True)), "gradients")
        values, gradients = zip(*pairs, strict=True)
        return np.array(values), np.array(gradients)

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """Minus the gradient of own; a label's part is d(-log p) / p, p its probability."""
        if not self.model.scheme:
            return -self._own_sums(params, folds)[1]

        def of_portion(rows):
            omitted = np.concatenate(list(folds[rows]))
            alone = self.model._touched(Folds(omitted[:, None]))
            paths = self._paths(params, alone)
            coefficients = self.model.sentence_weights[alone.sentence] * np.exp(paths.values)
            bounds = starts_of(folds[rows].sizes)
            return paths.gradients(coefficients, bounds)[:, self.model.free]

        return -np.concatenate(self._by_portions(of_portion, folds))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        def of_portion(rows):
            if params.ndim == 1:
                return self._losses(params, folds[rows])
            each = range(rows.start, rows.stop)
            return np.concatenate([self._losses(params[i], folds[i : i + 1]) for i in each])

        losses = np.concatenate(self._by_portions(of_portion, folds))
        return folds.pick(np.split(losses, np.cumsum(folds.sizes)[:-1]))

    @override
    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        return self.model.ridge * params

    def _losses(self, params, folds):
        """-log p(z_n | x_n), or -log p(z_t | x, labels outside the fold), of folds end to end."""
        touched = self.model._touched(folds)
        paths = self._paths(params, touched)
        if not self.model.scheme:
            return paths.values
        tags = paths.tokens.tags[touched.rows]
        with np.errstate(divide="ignore"):  # below 1e-308 a probability is 0, its loss infinite
            return -np.log(paths.smoothed.gamma[touched.rows, tags])

    def _paths(self, params, touched):
        tokens = self.model.tokens.take(touched.sentence)
        return Paths(tokens, self.model._parts(params), touched.known)

    def _own_sums(self, params, folds, weights=0.0):
        """(own (n_folds,), its gradients (n_folds, D)) at params (D,)."""

        def of_portion(rows):
            touched = self.model._touched(folds[rows], weights)
            own = self.model.sentence_weights[touched.sentence]
            paths = self._paths(params, touched)
            values = np.add.reduceat(own * paths.values, touched.bounds[:-1])
            return values, paths.gradients(own, touched.bounds)[:, self.model.free]

        parts = self._by_portions(of_portion, folds)
        values, gradients = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(gradients)

    def _by_portions(self, function: Callable, folds: Folds) -> list:
        """[function(rows)] for slices of all folds, on threads."""
        return in_blas_threads(function, portions(folds.sizes, self._together))
