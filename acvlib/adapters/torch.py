"""`from_torch`: a model whose F and held-out losses are functions of torch tensors."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from . import DENSE, AdaptedModel

ONE_AT_A_TIME = threading.Lock()  # torch has one level of forward mode for all threads


def from_torch(
    loss: Callable,
    heldout: Callable,
    n_sites: int,
    start: Any,
    observed: Any = None,
    convex: bool = False,
    normalised: bool = False,
    dense_limit: int = DENSE,
) -> AdaptedModel:
    """Return the model F = loss(params, weights), with all derivatives by `torch.func`, in double.

    Parameters
    ----------
    loss : (params, weights (n_sites,)) -> F, a tensor of one number; weight 0 takes a site out
    heldout : (params, sites) -> -log p(x_t | x outside the sites) of each, (len(sites),)
    start : where a fit starts, an array or tensor, or a dict or list of these, such as
        `dict(network.named_parameters())`: the form of params (`torch.func.functional_call`)
    observed, convex, normalised : as in `acvlib.model.ModelDefaults`
    dense_limit : parameters above which Hessians are only multiplied with

    Functions must do without changes in place and without `.item()`, and every tensor in them must
    be of double precision. Nothing is compiled; calls wait for each other.

    Raises
    ------
    TypeError : torch.func cannot differentiate a function twice, or batch it
    ValueError : a result of wrong shape or precision; F that is not finite or not twice
        differentiable at `start`, or that ignores the weights
    """
    given = (loss, heldout, n_sites, start, observed, convex, normalised, dense_limit)
    return AdaptedModel(TORCH, *given)


class _Torch:
    """What `Calculus` needs of torch."""

    name = "torch.func"
    errors = (RuntimeError,)
    advice = "inside it no numpy, no .item(), no if on tensors, no change in place"
    remedy = "make its tensors with dtype=torch.double, and networks with .double()"
    vmap = staticmethod(torch.func.vmap)
    grad = staticmethod(torch.func.grad)
    jvp = staticmethod(torch.func.jvp)

    def flatten(self, form):
        leaves, structure = tree_flatten(form)
        return [_numbers(leaf) for leaf in leaves], structure

    def unflatten(self, structure, leaves):
        return tree_unflatten(leaves, structure)

    def compiled(self, function):
        def run(*arrays):
            with ONE_AT_A_TIME, warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of torch's own forward mode
                found = function(*map(torch.tensor, arrays))
                return [part.detach().numpy() for part in tree_leaves(found)]

        return run

    def described(self, function, *arrays):
        """(shape, dtype, the narrow types of its steps if any) of a function's result."""
        with _Narrow() as steps:
            out = function(*map(torch.tensor, arrays))
        if not isinstance(out, torch.Tensor):
            return type(out).__name__, None, None
        return tuple(out.shape), str(out.dtype).removeprefix("torch."), steps.found


class _Narrow(TorchDispatchMode):
    """Notes the type of a tensor that is less than double."""

    found = None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for part in tree_leaves((args, out)):
            if isinstance(part, torch.Tensor) and part.dtype in _NARROW:
                self.found = str(part.dtype).removeprefix("torch.")
        return out


_NARROW = (torch.float16, torch.bfloat16, torch.float32, torch.complex64)


def _numbers(leaf):
    return leaf.detach().cpu().double().numpy() if isinstance(leaf, torch.Tensor) else leaf


TORCH = _Torch()
