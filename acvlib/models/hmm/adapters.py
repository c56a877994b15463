"""HMMs fitted by hmmlearn, as (model, params) with the same likelihood."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...checks import real_array
from ...folds.checks import as_fold
from . import HMM
from .emissions import (
    Categorical,
    CategoricalParams,
    CovarianceParams,
    Emission,
    FullGaussian,
    Gaussian,
    GaussianParams,
    Mixture,
    MixtureParams,
    Poisson,
    PoissonParams,
)
from .emissions.gaussian import FLAT
from .posterior import HiddenStates, HMMParams
from .simplex import TINY

UNLIKELY = 0.1  # expected counts below which a flat prior keeps a probability as it was fitted


def from_hmmlearn(
    fitted: Any, X: Any, lengths: Sequence[int] | None = None, **settings: Any
) -> tuple[HMM, np.ndarray]:
    """Bring a fitted hmmlearn model: (model, params), at which losses are minus its `score`.

    Priors are hmmlearn's own, mostly flat, so that its optimum is ours. Its `covars_prior` is kept
    where it is one of variances (diag, spherical), and left out elsewhere. Under a flat prior
    probabilities of less than UNLIKELY expected counts stay `fixed` as they are: most run to 0.
    Others run to 0 in a fold that holds the only sequence with such a start or move, whose loss is
    then infinite, in refits too: for cross-validation fit with startprob_prior and transmat_prior
    above 1, or pass such a concentration.

    Parameters
    ----------
    fitted: a GaussianHMM, CategoricalHMM, PoissonHMM or GMMHMM.
    X, lengths: as hmmlearn takes them. Sites are sequences, or time steps of a single one.
    settings: of `HMM`; a concentration in place of hmmlearn's moves the optimum: `acv.fit` first.

    Raises
    ------
    TypeError : another kind of model, with the nearest kind that is taken
    ValueError : a model that is not fitted, a prior that ours cannot have, or X of another shape
    """
    kind = type(fitted).__name__
    if kind not in HMMLEARN:
        near = {"MultinomialHMM": "CategoricalHMM"}.get(kind, " or ".join(HMMLEARN))
        raise TypeError(f"{kind} is no kind of hmmlearn that is taken: take {near}")
    if not hasattr(fitted, "startprob_") or not hasattr(fitted, "transmat_"):
        raise ValueError(f"this {kind} is not fitted: call its fit(X, lengths) first")
    sequences = _of_lengths(X, lengths)
    n_channels = sequences[0].shape[1]
    expected = 1 if kind == "CategoricalHMM" else fitted.n_features
    if n_channels != expected:
        raise ValueError(f"X has {n_channels} columns: this {kind} was fitted to {expected}")
    emission, named = HMMLEARN[kind](fitted, np.concatenate(sequences))
    if "concentration" not in settings:
        priors = fitted.startprob_prior, fitted.transmat_prior
        settings["concentration"] = _common("startprob_prior and transmat_prior", *priors)
    return _brought(sequences, fitted.startprob_, fitted.transmat_, emission, named, settings)


def _brought(sequences, initial, transition, emission, named, settings):
    """(model, params); what a flat prior would let run to 0 is fixed where it is."""
    default = "sequences" if len(sequences) > 1 else "steps"
    model = HMM(sequences, len(initial), emission, **{"sites": default, **settings})
    rows = np.maximum(np.vstack([initial, transition]).astype(float), TINY)
    rows /= rows.sum(axis=1, keepdims=True)  # which single precision is not
    params = model.pack(HMMParams(rows[0], rows[1:], named))
    hidden = HiddenStates(model, params, model.frames, prior=False)
    changed = {}
    if np.all(model.concentration == 1.0) and model.fixed is None:
        changed["fixed"] = _rare(hidden.counts.sum(axis=1), rows)
    if isinstance(model.emission, Categorical) and model.emission.concentration == 1.0:
        fixed = _rare(hidden.mass.sum(axis=0), named.probability)
        changed["emission"] = replace(model.emission, fixed=fixed)
    return replace(model, **changed), params


def _rare(totals, rows):
    """The entries of rows of probabilities that are expected too rarely, nan elsewhere."""
    return np.where(totals[:, None] * rows < UNLIKELY, np.maximum(rows, TINY), np.nan)


def _of_lengths(X, lengths):
    """The sequences of X; ValueError where lengths do not add up."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X {X.shape}: 2-d, as hmmlearn takes it")
    lengths = [len(X)] if lengths is None else as_fold(lengths, "lengths").tolist()
    if sum(lengths) != len(X) or min(lengths, default=0) < 1:
        raise ValueError(f"lengths sum to {sum(lengths)}, must be above 0: X has {len(X)} rows")
    return np.split(X, np.cumsum(lengths)[:-1])


def _common(name, *priors):
    """The one number that all entries of priors are."""
    entries = np.concatenate([np.ravel(real_array(name, prior)) for prior in priors])
    if np.ptp(entries) > 0.0:
        raise ValueError(f"{name} are {entries}: our priors have one number for all")
    return float(entries[0])


def _priors(x, variance_prior):
    """In the units of x, flat but for that of variances."""
    units = {"centre": np.median(x, axis=0), "scale": np.ones(x.shape[1])}
    return {**units, "mean_scale": np.inf, "variance_prior": variance_prior}


def _of_gaussian(fitted, x):
    if np.any(fitted.means_weight):
        raise ValueError("means_weight is above 0: there is no such prior of means here, but 0")
    kind = fitted.covariance_type
    prior = FLAT
    if kind in ("diag", "spherical"):
        size = fitted.n_features if kind == "spherical" else 1
        squares = _common("covars_prior", fitted.covars_prior)
        count = max(_common("covars_weight", fitted.covars_weight) - 1.0, 0.0)
        prior = 0.5 * size * count - 1.0, 0.5 * size * squares
    return _gaussian(kind, fitted.means_, fitted._covars_, **_priors(x, prior))


def _of_mixture(fitted, x):
    concentration = _common("weights_prior", fitted.weights_prior)
    kind = fitted.covariance_type
    if kind == "tied":
        raise ValueError("covariance_type 'tied' of a mixture: refit with diag, spherical or full")
    parts = fitted.weights_, fitted.means_, fitted.covars_
    return _mixture(kind, *parts, concentration, _priors(x, FLAT))


def _of_categorical(fitted, x):
    p = np.maximum(fitted.emissionprob_, TINY)
    prior = _common("emissionprob_prior", fitted.emissionprob_prior)
    return Categorical(p.shape[1], prior), CategoricalParams(p)


def _of_poisson(fitted, x):
    if np.any(fitted.lambdas_prior) or np.any(fitted.lambdas_weight):
        raise ValueError(
            "lambdas_prior or lambdas_weight is not 0: that is no Gamma prior of rates"
        )
    return Poisson((1.0, 0.0)), PoissonParams(np.maximum(fitted.lambdas_, TINY))


def _gaussian(kind, mean, covariance, **settings) -> tuple[Emission, Any]:
    """(emission, params) of (co)variances (K,), (K, R), (K, R, R) or, if tied, (R, R)."""
    if kind in ("diag", "spherical"):
        sd = np.sqrt(np.reshape(covariance, (len(mean), -1)))
        spherical = kind == "spherical"
        named = GaussianParams(mean, sd[:, :1] if spherical else sd)
        return Gaussian(**settings, spherical=spherical), named
    if kind not in ("full", "tied"):
        raise ValueError(f"covariance_type {kind!r}: one of diag, spherical, full and tied")
    return FullGaussian(**settings, tied=kind == "tied"), CovarianceParams(mean, covariance)


def _mixture(kind, weights, mean, covariance, concentration, settings):
    """The same of mixtures, with (K, C) in front."""
    rows = [np.reshape(part, (weights.size, *part.shape[2:])) for part in (mean, covariance)]
    component, named = _gaussian(kind, *rows, **settings)
    emission = Mixture(weights.shape[1], component, concentration)
    return emission, MixtureParams(np.maximum(weights, TINY), named)


HMMLEARN = {
    "GaussianHMM": _of_gaussian,
    "CategoricalHMM": _of_categorical,
    "PoissonHMM": _of_poisson,
    "GMMHMM": _of_mixture,
}
