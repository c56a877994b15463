"""`from_torch`: a model whose F and held-out losses are functions of torch tensors."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from . import AdaptedModel

ONE_AT_A_TIME = threading.Lock()  # torch has one level of forward mode for all threads
NARROW = (torch.float16, torch.bfloat16, torch.float32, torch.complex64)


def from_torch(
    loss: Callable, heldout: Callable, n_sites: int, start: Any, **settings: Any
) -> AdaptedModel:
    """Return the model F = loss(params, weights), with all derivatives by `torch.func`, in double.

    The arguments are those of `AdaptedModel`; start is an array or tensor, or a dict or list of
    these, such as `dict(network.named_parameters())` (`torch.func.functional_call`). Functions must
    do without changes in place and without `.item()`, and every tensor in them must be of double
    precision. Nothing is compiled; calls wait for each other.
    """
    return AdaptedModel(Torch(), loss, heldout, n_sites, start, **settings)


class Torch:
    """What an `AdaptedModel` needs of torch."""

    name = "torch.func"
    errors = (RuntimeError,)
    advice = "inside it no numpy, no .item(), no if on tensors, no change in place"
    remedy = "make its tensors with dtype=torch.double, and networks with .double()"
    vmap = staticmethod(torch.func.vmap)
    grad = staticmethod(torch.func.grad)
    hessian = staticmethod(torch.func.hessian)
    jacrev = staticmethod(torch.func.jacrev)

    def flatten(self, form: Any) -> Any:
        leaves, structure = tree_flatten(form)
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                leaves[i] = leaf.detach().cpu().double().numpy()
        return leaves, structure

    def unflatten(self, structure: Any, leaves: Any) -> Any:
        return tree_unflatten(leaves, structure)

    def frozen(self, function: Any, *_: Any) -> Any:
        """The function as it is, which is run anew each time."""
        return function

    def compiled(self, function: Any) -> Any:
        def run(*arrays):
            with ONE_AT_A_TIME, warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of torch's own forward mode
                leaves = tree_leaves(function(*map(torch.tensor, arrays)))
            return [leaf.detach().numpy() for leaf in leaves]

        return run

    def described(self, function: Any, *arrays: Any) -> Any:
        """(shape, dtype, the narrow types of its steps if any) of a function's result."""
        with Narrow() as steps:
            try:
                out = function(*map(torch.tensor, arrays))
            except ValueError as error:  # of torch itself, by batches of one site
                remedy = f"{self.advice}; a network that learns from batches in .eval()"
                raise ValueError(f"a function fails at start: {error}: {remedy}") from error
        if not isinstance(out, torch.Tensor):
            return type(out).__name__, None, None
        return tuple(out.shape), str(out.dtype).removeprefix("torch."), steps.narrow


class Narrow(TorchDispatchMode):
    """Notes the type of a tensor that is less than double."""

    narrow = None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for part in tree_leaves((args, out)):
            if isinstance(part, torch.Tensor) and part.dtype in NARROW:
                self.narrow = str(part.dtype).removeprefix("torch.")
        return out
