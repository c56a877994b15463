"""Wrappers that hide or count what a model offers, and what a call is refused with."""

import gc
from collections import Counter
from contextlib import contextmanager
from functools import partial

import pytest

from acvlib.derivatives import Derivatives
from acvlib.trials import NoFiniteOptimum


class ByAutograd:
    """A model whose own derivatives are hidden, so that everything goes through autograd."""

    derivatives = None

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)


class Counting:
    """A model that counts, in `calls`, what is computed of it: by its own derivatives,
    or by autograd.

    By autograd a gradient, a Hessian and cross-derivatives are one call each of `objective` or
    `residual`: all are counted as "objective".
    """

    def __init__(self, model):
        self._model, self.calls = model, Counter()

    def __getattr__(self, name):
        found = getattr(self._model, name)
        if name in ("objective", "residual"):
            return self._counted(found, "objective")
        if name == "heldout_loss":
            return self._counted(found, "heldout")
        return found

    @property
    def derivatives(self):
        own = getattr(self._model, "derivatives", None)
        return own and CountingDerivatives(own, self.calls)

    def _counted(self, function, name):
        def counted(*args):
            self.calls[name] += 1
            return function(*args)

        return counted


class CountingDerivatives:
    """Derivatives that count, fold by fold, under the names of `CVResult.evaluations`."""

    KINDS = {"value_and_gradient": "gradient", "hessian": "hessian", "cross": "cross"}
    ONE = tuple(KINDS)  # all others are of folds
    KINDS |= dict.fromkeys(["fold_gradients", "chord_gradients"], "gradient")
    KINDS |= {"fold_hessians": "hessian", "heldout": "heldout"}

    def __init__(self, own, calls):
        self._own, self._calls = own, calls

    __class__ = Derivatives  # as isinstance is told

    def __getattr__(self, name):
        found = getattr(self._own, name)
        if name not in self.KINDS:
            return found

        def counted(params, folds, *args, **settings):
            self._calls[self.KINDS[name]] += 1 if name in self.ONE else len(folds)
            return found(params, folds, *args, **settings)

        return counted


@contextmanager
def no_collector():
    """Here only what nothing refers to is freed: a cycle stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def raises(words, call, *given, error=ValueError, **settings):
    """Assert that a call raises this error, in these words: a regular expression."""
    with pytest.raises(error, match=words):
        call(*given, **settings)


raises_no_fit = partial(raises, error=NoFiniteOptimum)
