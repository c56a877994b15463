"""`from_jax`: a model whose F and held-out losses are functions of JAX arrays."""

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

try:
    from jax import enable_x64
except ImportError:  # before 0.8
    from jax.experimental import enable_x64  # type: ignore

from . import DENSE, AdaptedModel

NARROW = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "c64": "complex64"}


def from_jax(
    loss: Callable,
    heldout: Callable,
    n_sites: int,
    start: Any,
    observed: Any = None,
    convex: bool = False,
    normalised: bool = False,
    dense_limit: int = DENSE,
) -> AdaptedModel:
    """Return the model F = loss(params, weights), with all derivatives by JAX, compiled.

    Parameters
    ----------
    loss : (params, weights (n_sites,)) -> F, one number; weight 0 takes a site out
    heldout : (params, sites) -> -log p(x_t | x outside the sites) of each, (len(sites),), in any
        order of the sites
    start : where a fit starts, an array or any pytree of arrays: the form of params
    observed, convex, normalised : as in `acvlib.model.ModelDefaults`
    dense_limit : parameters above which Hessians are only multiplied with

    Functions run in float64, by `jax.enable_x64` around each call: the setting of your process
    stays what it is. Data in float32, which `jnp.array` makes by default, are refused. Each
    function is compiled when it is first called, and anew for folds of another size.

    Raises
    ------
    TypeError : JAX cannot trace a function
    ValueError : a result of wrong shape or precision; F that is not finite or not twice
        differentiable at `start`, or that ignores the weight of a site; random numbers in a
        function; held-out losses of other sites than are asked for
    """
    settings = (n_sites, start, observed, convex, normalised, dense_limit)
    return AdaptedModel(Jax(), loss, heldout, *settings)


class Jax:
    """What an `AdaptedModel` needs of JAX."""

    name = "JAX"
    errors = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
    advice = "inside it use jax.numpy for numpy, jax.numpy.where or jax.lax.cond for if"
    remedy = (
        "give it numpy arrays of float64, not jnp arrays made without x64, and no dtype of its "
        'own; or jax.config.update("jax_enable_x64", True) before the data are made'
    )
    vmap = staticmethod(jax.vmap)
    grad = staticmethod(jax.grad)
    jvp = staticmethod(jax.jvp)
    unflatten = staticmethod(jax.tree.unflatten)

    def flatten(self, form: Any) -> Any:
        leaves, structure = jax.tree.flatten(form)
        return [np.asarray(leaf) for leaf in leaves], structure

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
