"""Wrappers that hide or count what a model offers."""

import gc
from collections import Counter
from contextlib import contextmanager


class WithoutFast:
    """A model whose fast paths are hidden, so that everything goes through autograd."""

    fast = None

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)


class Counting:
    """A model that counts, in `calls`, what is computed of it: by fast paths, or else by objective and residual.

    Without fast paths a gradient, a Hessian and a Hessian with cross-derivatives are one call each of
    `objective`: all are counted as "objective".
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
    def fast(self):
        fast = getattr(self._model, "fast", None)
        return fast and CountingFast(fast, self.calls)

    def _counted(self, function, name):
        def counted(*args):
            self.calls[name] += 1
            return function(*args)

        return counted


class CountingFast:
    """Fast paths that count, fold by fold, under the names of `CVResult.evaluations`."""

    KIND = {
        "value_and_gradient": "gradient",
        "fold_gradients": "gradient",
        "hessian_and_cross": "hessian",
    }
    KIND |= {"fold_hessians": "hessian", "fold_heldout_losses": "heldout"}

    def __init__(self, fast, calls):
        self._fast, self._calls = fast, calls

    def __getattr__(self, name):
        getattr(self._fast, name)  # AttributeError for what is not offered

        def counted(params, folds):
            self._calls[self.KIND[name]] += len(folds) if name.startswith("fold_") else 1
            return getattr(self._fast, name)(params, folds)

        return counted


@contextmanager
def no_collector():
    """Here only what nothing refers to is freed: a cycle stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
