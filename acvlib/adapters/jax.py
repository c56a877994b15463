"""`from_jax`: a model whose F and held-out losses are functions of JAX arrays."""

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

try:
    from jax import enable_x64
except ImportError:  # before 0.8
    from jax.experimental import enable_x64  # type: ignore

from . import AdaptedModel

NARROW = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "c64": "complex64"}


def from_jax(
    loss: Callable, heldout: Callable, n_sites: int, start: Any, **settings: Any
) -> AdaptedModel:
    """Return the model F = loss(params, weights), with all derivatives by JAX, compiled.

    The arguments are those of `AdaptedModel`; params are any pytree. Functions run in float64, by
    `jax.enable_x64` around each call: the setting of your process stays what it is. Data in
    float32, which `jnp.array` makes by default, are refused. Each function is compiled when it is
    first called, and anew for folds of another size.
    """
    return AdaptedModel(Jax(), loss, heldout, n_sites, start, **settings)


class Jax:
    """What an `AdaptedModel` needs of JAX."""

    name = "JAX"
    errors = (TypeError, jax.errors.JAXIndexError)
    advice = "inside it use jax.numpy for numpy, jax.numpy.where or jax.lax.cond for if"
    remedy = (
        "give it numpy arrays of float64, not jnp arrays made without x64, and no dtype of its "
        'own; or jax.config.update("jax_enable_x64", True) before the data are made'
    )
    vmap = staticmethod(jax.vmap)
    grad = staticmethod(jax.grad)
    hessian = staticmethod(jax.hessian)
    jacrev = staticmethod(jax.jacrev)
    unflatten = staticmethod(jax.tree.unflatten)

    def flatten(self, form: Any) -> Any:
        leaves, structure = jax.tree.flatten(form)
        return [np.asarray(leaf) for leaf in leaves], structure

    def frozen(self, function: Any, *arrays: Any) -> Any:
        """The function of what it uses now: it is traced again for each derivative."""
        with enable_x64(True):
            run = jaxpr_as_fun(jax.make_jaxpr(function)(*arrays))
        return lambda *at: run(*at)[0]

    def compiled(self, function: Any) -> Any:
        jitted = jax.jit(function)

        def run(*arrays):
            with enable_x64(True):
                return jax.tree.leaves(jitted(*arrays))

        return run

    def described(self, function: Any, *arrays: Any) -> Any:
        """(shape, dtype, the narrow types of its steps if any) of a function's result."""
        with enable_x64(True):
            steps, out = jax.make_jaxpr(function, return_shape=True)(*arrays)
        narrow = re.search(rf"\b({'|'.join(NARROW)})\[", str(steps))
        shape = getattr(out, "shape", type(out).__name__)
        return shape, str(getattr(out, "dtype", None)), narrow and NARROW[narrow[1]]
