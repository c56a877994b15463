"""The HMMs by name: one call for each kind of emission."""

from collections.abc import Sequence
from itertools import repeat
from typing import Annotated, Any

import numpy as np

from ...checks import Tables, in_order_of, indices_of
from ...declared import OneOf, declared
from . import HMM
from .emissions import (
    GLM,
    AutoRegression,
    Categorical,
    Gaussian,
    Mixture,
    NegativeBinomial,
    NeuralAutoRegression,
    Poisson,
)
from .emissions.units import WEAK
from .frames import listed_sequences, names_of, one_or_more, read_sequences


@declared
def GaussianHMM(
    x: Any,
    n_states: int,
    mean_scale: float = 1e4,
    variance_prior: tuple[float, float] = WEAK,
    covariance: Annotated[str, OneOf("diag", "spherical", "full", "tied")] = "diag",
    **settings: Any,
) -> HMM:
    """Emissions Normal(mean_k, C_k).

    Parameters
    ----------
    x: one sequence (T, R) or (T,), a list of sequences, or (X, lengths), X (sum of lengths, R). A
        list of 1-d arrays means sequences of one channel, of equal length or not. Frames that are
        nan or masked are missing; if diag or spherical, single channels of a frame may be.
    mean_scale, variance_prior: see `emissions.Gaussian`.
    covariance: "diag", "spherical" (one variance for all channels), "full", or "tied" (one full C
        for all states), as in hmmlearn.
    settings: as in `HMM`.
    """
    tied = covariance == "tied"
    emission = Gaussian(mean_scale, variance_prior, "full" if tied else covariance, tied)
    return HMM(one_or_more(x), n_states, emission, **settings)


@declared
def MixtureHMM(
    x: Any,
    n_states: int,
    n_components: int = 2,
    covariance: Annotated[str, OneOf("diag", "spherical", "full")] = "diag",
    mean_scale: float = 1e4,
    variance_prior: tuple[float, float] = WEAK,
    weight_concentration: float = 1.1,
    **settings: Any,
) -> HMM:
    """Emissions sum_c weight_kc Normal(mean_kc, C_kc), as hmmlearn's GMMHMM; see `GaussianHMM`."""
    component = Gaussian(mean_scale, variance_prior, covariance)
    emission = Mixture(n_components, component, weight_concentration)
    return HMM(one_or_more(x), n_states, emission, **settings)


def CategoricalHMM(
    x: Any,
    n_states: int,
    n_categories: int | None = None,
    emission_concentration: float = 1.1,
    **settings: Any,
) -> HMM:
    """Emissions Categorical(p_k) of codes; x and settings as in `GaussianHMM`.

    n_categories: C, of codes 0 ... C - 1, by default the codes that occur; emission_concentration:
    of the Dirichlet prior of each p_k.
    """
    emission = Categorical(n_categories, emission_concentration)
    return HMM(one_or_more(x), n_states, emission, **settings)


def PoissonHMM(
    x: Any, n_states: int, rate_prior: tuple[float, float] = (1.1, 0.01), **settings: Any
) -> HMM:
    """Counts, each channel Poisson(rate_kr); x and settings as in `GaussianHMM`.

    rate_prior: shape and rate of the Gamma prior of rates.
    """
    return HMM(one_or_more(x), n_states, Poisson(rate_prior), **settings)


def NegativeBinomialHMM(
    x: Any,
    n_states: int,
    rate_prior: tuple[float, float] = (1.1, 0.01),
    dispersion_prior: tuple[float, float] = (1.1, 0.01),
    **settings: Any,
) -> HMM:
    """Counts whose variance in a state is rate_kr + dispersion_kr rate_kr^2; see `PoissonHMM`.

    dispersion_prior: shape and rate of the Gamma prior of dispersions.
    """
    emission = NegativeBinomial(rate_prior, dispersion_prior)
    return HMM(one_or_more(x), n_states, emission, **settings)


def GLMHMM(
    y: Any,
    inputs: Any,
    n_states: int,
    family: str = "bernoulli",
    weight_sd: float = 10.0,
    **settings: Any,
) -> HMM:
    """y_t ~ Bernoulli(1 / (1 + exp(-W_k u_t))) or Poisson(exp(W_k u_t)), u_t inputs and a 1.

    Parameters
    ----------
    y: as x of `GaussianHMM`: 0 and 1, or counts; nan where missing
    inputs: of the same form, (T, q) for each sequence; a frame with one that is nan is missing
    family: "bernoulli" or "poisson"
    weight_sd: of the Normal(0, weight_sd^2) prior of all weights
    settings: as in `HMM`

    The sequences of the model are [y, inputs]: so are those that `sequence_losses` takes.

    Source: Ashwood et al. (2022).
    """
    sequences, n_inputs = _with_inputs(one_or_more(y), one_or_more(inputs))
    return HMM(sequences, n_states, GLM(family, n_inputs, weight_sd), **settings)


def AutoRegressiveHMM(
    sequences: Sequence[np.ndarray],
    n_states: int,
    order: int = 1,
    mean_scale: float = 1.0,
    variance_prior: tuple[float, float] = WEAK,
    **settings: Any,
) -> HMM:
    """x_t ~ Normal(sum_m B_k^m x_t-m + b_k, sigma^2 I), Eq. 17; settings as in `HMM`."""
    emission = AutoRegression(order, mean_scale, variance_prior)
    return HMM(sequences, n_states, emission, **settings)


def NeuralHMM(
    sequences: Sequence[np.ndarray],
    n_states: int,
    order: int = 1,
    n_hidden: int = 12,
    weight_sd: float = 1.0,
    variance_prior: tuple[float, float] = WEAK,
    **settings: Any,
) -> HMM:
    """A network of one hidden layer for each state, Eq. 18; settings as in `HMM`.

    weight_sd: of the Normal(0, weight_sd^2) prior of all weights, of scaled x
    """
    emission = NeuralAutoRegression(order, n_hidden, weight_sd, variance_prior)
    return HMM(sequences, n_states, emission, **settings)


def _with_inputs(y, inputs):
    """Sequences [y, u] (T_n, R + q), and q. Raises ValueError where y and inputs do not match."""
    listed = listed_sequences(y)
    outputs = read_sequences(y, 0)
    indices = indices_of(listed)
    ordered = map(in_order_of, indices, repeat("inputs"), listed_sequences(inputs))
    rest = listed_sequences(inputs)[len(indices) :]
    u = read_sequences([*ordered, *rest], 0)
    lengths = [[len(x) for x in each] for each in (outputs, u)]
    if lengths[0] != lengths[1]:
        told = f"{lengths[0]} and {lengths[1]}"
        raise ValueError(f"y and inputs must have the same lengths; got {told:.200}")
    every = np.concatenate(u)
    constant = np.flatnonzero(np.nanmax(every, axis=0) == np.nanmin(every, axis=0))
    if constant.size:
        column = f"inputs column {constant[0]} is constant"
        raise ValueError(f"{column}, as the intercept is: drop it")
    of_inputs = names_of(inputs, len(u))
    names = of_inputs if outputs.names is None else outputs.names
    if of_inputs is not None and not names.equals(of_inputs):
        told = f"{list(names)} of y and {list(of_inputs)} of inputs"
        raise ValueError(f"sequences have the names {told:.200}: sort them alike")
    named = outputs.columns or [getattr(listed[0], "name", None)] * outputs[0].shape[1]
    columns = [*named, *u.columns] if u.columns else None
    both = Tables(np.hstack(pair) for pair in zip(outputs, u, strict=True))
    return both.named(columns, indices_of(outputs, u), names), every.shape[1]
