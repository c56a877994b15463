"""Models in JAX, which the process of a call imports."""

import numpy as np

import acvlib as acv

from .. import inputs as odd
from .call import N, add, dyadic
from .of_models import probe

ROWS = dyadic(np.random.default_rng(3), N, 2)


def loss(params, weights):
    import jax.numpy as jnp

    return jnp.sum(weights * jnp.cosh(ROWS @ params - 1.0)) + params @ params


def heldout(params, sites):
    import jax.numpy as jnp

    return jnp.cosh(jnp.asarray(ROWS)[sites] @ params - 1.0)


add(
    "from_jax",
    lambda **a: probe(acv.from_jax(**a)),
    lambda rng: {
        "loss": loss,
        "heldout": heldout,
        "n_sites": N,
        "start": np.array([0.25, -0.5]),
    },
    loss=odd.without(odd.OBJECTS, "its class"),
    heldout=odd.without(odd.OBJECTS, "its class"),
    n_sites=odd.without(odd.COUNT, "one", "two", "bool"),
    start=odd.VIEWS | odd.NOT_FINITE | odd.EMPTY | odd.OTHER_LENGTH,
)
