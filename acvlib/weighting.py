"""How a site's weight enters a structured model: the weights of its three kinds of factors.

A scheme maps site weights w (n_sites,) and the sites that each edge joins (n_edges, 2) to
`FactorWeights`. Weight 1 everywhere gives the model itself; weight 0 leaves the site out.

Source: Ghosh et al. (2020), section 3.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd.tracer import getval

from .checks import LARGEST, in_order_of, index_of, read_only, real_array, warn
from .declared import Check, Sizes

SMALL = 1e-4  # of the variance that curvature says scores have: they have less where F is too small
SCORES = 10_000_000  # numbers, up to which the scores of all sites are looked at
INERT = 1e-7  # of the curvature: data that have no more say nothing


class SmallObjective(UserWarning):
    """Losses that vary far less than their curvature says: F is no minus log density."""


class LookedBackAt(UserWarning):
    """Frames of sample weight 0 are what an autoregression predicts others by."""


class FactorWeights(NamedTuple):
    """Multipliers of the log-factors: observation and latent (n_sites,), edge (n_edges,)."""

    observation: Any
    latent: Any
    edge: Any

    @classmethod
    def of(cls, scheme: Callable, weights: Any, edges: np.ndarray) -> "FactorWeights":
        """What a scheme gives, which may be the user's; TypeError unless it is three arrays."""
        factors = scheme(weights, edges)
        listed = factors if isinstance(factors, tuple | list) else [factors]
        shapes = [getattr(factor, "shape", None) for factor in listed]
        wanted = [(len(weights),), (len(weights),), (len(edges),)]
        if shapes != wanted:
            arrays = f"(observation, latent, edge), arrays of shapes {wanted}"
            raise TypeError(f"scheme must return {arrays}; got {type(factors).__name__}, {shapes}")
        return cls(*listed)


def keep_latents(weights: Any, edges: np.ndarray) -> FactorWeights:
    """Scheme A (Eq. 4, 9): a site loses its observation, and keeps its latent state and edges."""
    return FactorWeights(weights, anp.ones(len(weights)), anp.ones(len(edges)))


def drop_latents(weights: Any, edges: np.ndarray) -> FactorWeights:
    """Scheme B (Eq. 5, 10): a site loses all its factors; an edge weighs w_s * w_t."""
    return FactorWeights(weights, weights, weights[edges[:, 0]] * weights[edges[:, 1]])


def hide_labels(weights: Any, labels: np.ndarray, n_labels: int) -> Any:
    """Scheme C (Eq. 13): factors (n_sites, n_labels), 1 for a site's own label, else 1 - w.

    Weight 1 clamps the label and weight 0 sums it out; others than from 0 to 1 are a ValueError, as
    are labels that are none of 0 ... n_labels - 1. The factors are not logarithms, which would be
    infinite.
    """
    w = getval(weights)
    _refuse(w, ~((w >= 0.0) & (w <= 1.0)), "is not from 0 to 1: a label is known (1) or hidden (0)")
    known = np.asarray(labels)
    outside = (known < 0) | (known >= n_labels)
    _refuse(known, outside, f"is outside 0 ... {n_labels - 1}", name="label")
    own = np.eye(n_labels)[labels]
    return own + (1.0 - weights)[:, None] * (1.0 - own)


def check(weights: Any, n_sites: int, name: str = "weights", site: str = "site") -> None:
    """Raise ValueError unless weights are n_sites finite numbers >= 0."""
    w = real_array(name, getval(weights), finite=False)
    if w.shape != (n_sites,):
        raise ValueError(f"{name} have shape {w.shape}, not ({n_sites},): one weight a {site}")
    usable = (w >= 0.0) & (w < np.inf)  # nan is neither
    reason = f"must be finite and >= 0: 1 keeps a {site}, 0 leaves it out"
    _refuse(w, ~usable, reason, site, name.removesuffix("s"))


class OfSites(Check):
    """Weights of a model's `n_sites` sites, whose sum a `normalised` objective can divide by."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> np.ndarray:
        value = in_order_of(index_of(sizes.owner), name, value)
        check(value, sizes.of("n_sites"), name)
        weights = np.asarray(value, float)
        if getattr(sizes.owner, "normalised", False):
            total = weights.sum()
            if not 1.0 / LARGEST < total < LARGEST:
                raise ValueError(f"{name} sum to {total}: F divides by the square of that")
        return weights


Weights = Annotated[np.ndarray, OfSites()]


def site_weights(values: Any, n_sites: int, site: str = "site") -> np.ndarray:
    """Sample weights s >= 0 of each site, (n_sites,) and read-only, of as many or of one number.

    Raises ValueError for others, and where all are 0.
    """
    given = real_array("sample_weight", values, finite=False)
    each = np.full(n_sites, given) if given.ndim == 0 else given
    check(each, n_sites, "sample_weight", site)
    if each.max() > LARGEST:
        raise ValueError(f"sample_weight {each.max():.2g} overflows when squared: rescale it")
    if not each.any():
        raise ValueError("every sample_weight is 0: there is nothing to fit")
    return read_only(each)


def _refuse(weights, bad, reason, site="site", name="weight"):
    if bad.any():
        number = np.argmax(bad)
        raise ValueError(f"{name} {weights[number]} of {site} {number} {reason}")


def weights_of(model: Any) -> np.ndarray:
    """How often each site counts in the fit of a model, (n_sites,): those of sentences at tokens.

    A `sample_weight` that is of something else counts as 1.
    """
    weights = _weights(model)
    if weights.shape not in ((), (model.n_sites,)):
        of_tokens = getattr(getattr(model, "tokens", None), "sentence_of", None)
        weights = np.ones(()) if of_tokens is None else weights[of_tokens]
    return np.ones(model.n_sites) * weights


def _weights(model):
    """Those of a model, or 1; a Series in the order of the model's sites."""
    weights = getattr(model, "sample_weight", None)
    weights = 1.0 if weights is None else in_order_of(index_of(model), "sample_weight", weights)
    return real_array("sample_weight", weights, finite=False)


def unit_of(model: Any) -> float:
    """The root of the mean sample weight above 0, at most 1: standard errors are as much wider."""
    weights = np.ravel(_weights(model))
    return min(1.0, np.sqrt(weights[weights > 0.0].mean()))


def warn_of_size(fit: Any) -> None:
    """Warn of an F far smaller than minus a log density, whose standard errors are too wide.

    Of a log density tr H^-1 V, V the variance of the scores, is that of the part of H that data
    have: twice what half the weights take from H.
    """
    ones = np.ones(fit.derivatives.n_sites)
    if ones.size * fit.params.size > SCORES:
        return
    scores = fit.derivatives.cross_matrix(fit.params, ones)
    half = np.asarray(fit.hessian) - np.asarray(fit.derivatives.hessian(fit.params, 0.5 * ones))
    curved = 2.0 * np.trace(fit.hessian.solve(half))
    varied = np.sum(scores * fit.hessian.solve(scores)) / unit_of(fit.model) ** 2
    if curved > INERT and varied < SMALL * curved:
        says = (
            f"losses vary by {np.sqrt(varied / curved):.1g} of what their curvature says: F is no"
        )
        remedy = "divide squares by the variance of their residuals, sum losses, not their mean"
        warn(
            f"{says} minus log density, and nothing converges as it says. {remedy}", SmallObjective
        )
