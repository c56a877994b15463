"""HMMs fitted by hmmlearn, as (model, params) with the same likelihood."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import real_array
from ..models.hmm import HMM, HMMParams
from ..models.hmm.emissions import (
    Categorical,
    CategoricalParams,
    CovarianceParams,
    Gaussian,
    GaussianParams,
    Mixture,
    MixtureParams,
    Poisson,
    PoissonParams,
)
from ..models.hmm.emissions.units import FLAT
from ..models.hmm.frames import read_sequences
from ..models.hmm.posterior import hidden_states
from ..weighting import unit_of

SLIGHT = 0.01  # standard errors that a prior which ours lack may pull
UNLIKELY = 0.1  # expected counts below which a flat prior keeps a probability as it was fitted
GROWS = 1.1  # times the expected count at an optimum: sample weights, or more EM, will raise it


def from_hmmlearn(
    fitted: Any, X: Any, lengths: Sequence[int] | None = None, **settings: Any
) -> tuple[HMM, np.ndarray]:
    """Bring a fitted hmmlearn model: (model, params), at which losses are minus its `score`.

    Priors are hmmlearn's own, mostly flat, so that its optimum is ours; one that ours cannot have
    is refused, unless it pulls by less than a hundredth of a standard error. Probabilities of 0 are
    `fixed`, and so are parts that its `params` leaves as they are. Under a flat prior probabilities
    of less than UNLIKELY expected counts, by `sample_weight`, stay `fixed` as they are unless they
    grow: most run to 0. Others run to 0
    in a fold that holds the only sequence with such a start or move, whose loss is then nan in
    refits, with a warning: for cross-validation fit with startprob_prior and transmat_prior above
    1, or pass such a concentration. Rates of a PoissonHMM run to 0 likewise: give them a prior by
    `dataclasses.replace(model, emission=Poisson((1.01, 0.0)))`.

    Parameters
    ----------
    fitted: a GaussianHMM, CategoricalHMM, PoissonHMM or GMMHMM.
    X, lengths: as hmmlearn takes them; frames that are nan or masked are missing. Sites are
        sequences, or time steps of a single one.
    settings: of `HMM`; a concentration in place of hmmlearn's, or `known_states`, which it has not,
        move the optimum: `acv.fit` first.

    Raises
    ------
    TypeError : another kind of model, with the nearest kind that is taken
    ValueError : a model that is not fitted, a setting that ours cannot have, or X of another shape
    """
    kind = type(fitted).__name__
    if kind not in HMMLEARN:
        draws = {"MultinomialHMM": "CategoricalHMM of X.argmax(axis=1)[:, None] for single draws"}
        nearest = draws.get(kind, " or ".join(HMMLEARN))
        raise TypeError(f"{kind} is no kind of hmmlearn that is taken: take {nearest}")
    read, parts = HMMLEARN[kind]
    names = "startprob", "transmat", *parts.values()  # of arrays, _covars_ behind a property
    if not all({f"{name}_", f"_{name}_"} & vars(fitted).keys() for name in names):
        raise ValueError(f"this {kind} is not fitted: call its fit(X, lengths) first")
    if len(getattr(X, "shape", ())) != 2:
        X = real_array("X", X, ndim=2)
    counts = real_array("lengths", [len(X)] if lengths is None else lengths, ndim=1)
    if (counts % 1.0).any():
        raise ValueError(f"lengths {counts.tolist()} must be whole numbers")
    sequences = read_sequences((X, counts if lengths is None else lengths), 0)
    n_channels = sequences[0].shape[1]
    of_states = getattr(fitted, "means_" if "m" in parts else "lambdas_", None)  # none of codes
    expected = 1 if of_states is None else np.shape(of_states)[-1]
    if n_channels != expected:
        raise ValueError(f"X has {n_channels} columns: this {kind} was fitted to {expected}")
    if np.any(getattr(fitted, "means_weight", 0.0)):
        raise ValueError("means_weight is above 0: there is no such prior of means here, but 0")
    if frozen := [name for letter, name in parts.items() if letter not in fitted.params]:
        raise ValueError(
            f"params={fitted.params!r} leaves {', '.join(frozen)} as they are: ours are fitted; "
            f"only startprob and transmat can stay. Refit with params including "
            f"{''.join(parts)!r}"
        )
    if fitted.algorithm != "viterbi":
        raise ValueError(
            f"algorithm={fitted.algorithm!r}: ours decode by 'viterbi', which set_params changes "
            "without a new fit; the likeliest state of each frame is model.posterior's largest"
        )
    emission, named = read(fitted, np.concatenate(sequences))
    rows = np.vstack([fitted.startprob_, fitted.transmat_]).astype(float)
    wrong = np.flatnonzero(abs(rows.sum(axis=1) - 1.0) > 1e-6)
    if wrong.size:
        name = f"transmat_ row {wrong[0] - 1}" if wrong[0] else "startprob_"
        raise ValueError(
            f"{name}, {rows[wrong[0]]}, sums to {rows[wrong[0]].sum():g}: no data "
            "decide it; give it probabilities, or fit fewer states"
        )
    rows /= rows.sum(axis=1, keepdims=True)
    if "concentration" not in settings:
        priors = np.empty_like(rows)
        priors[0] = _concentration(fitted, "startprob_prior")
        priors[1:] = _concentration(fitted, "transmat_prior")
        alike = np.ptp(priors) == 0.0
        settings["concentration"] = float(priors[0, 0]) if alike else priors
    return _brought(fitted, sequences, rows, emission, named, settings)


def _brought(fitted, sequences, rows, emission, named, settings):
    """(model, params); what a flat prior would let run to 0 is fixed where it is."""
    frozen = np.full(rows.shape, np.nan)
    frozen[rows == 0.0] = 0.0
    for letter, part in {"s": slice(1), "t": slice(1, None)}.items():
        if letter not in fitted.params:
            frozen[part] = rows[part]
    as_asked = settings.get("fixed") is not None
    settings["fixed"] = settings["fixed"] if as_asked else frozen
    model = HMM(sequences, rows.shape[1], emission, **settings)
    params = model.pack(HMMParams(rows[0], rows[1:], named))
    hidden = hidden_states(model, params, np.ones(model.n_sites), prior=False)
    if isinstance(emission, Gaussian) and (emission.covariance == "full" or emission.tied):
        _check_pull(fitted, hidden.mass.sum(axis=0))
    if as_asked:
        return model, params
    open_to_zero = np.isnan(frozen) & (model.concentration == 1.0)
    unit = unit_of(model) ** 2
    changed = {"fixed": np.where(open_to_zero, _rare(hidden.counts / unit, rows), frozen)}
    if isinstance(emission, Categorical) and emission.emission_concentration == 1.0:
        fixed = _rare(hidden.expected / unit, named.probability)
        changed["emission"] = replace(model.emission, fixed=fixed)
    model = replace(model, **changed)
    return model, model.pack(HMMParams(rows[0], rows[1:], named))


def _rare(counts, rows):
    """The entries of rows that are expected too rarely, and grow no more; nan elsewhere."""
    fitted = rows * counts.sum(axis=1, keepdims=True)  # the counts at an optimum
    return np.where((fitted < UNLIKELY) & (counts <= GROWS * fitted), rows, np.nan)


def _concentration(fitted, name):
    """A Dirichlet prior of hmmlearn's, which ours can have from 1 on."""
    prior = real_array(name, getattr(fitted, name))
    if (prior < 1.0).any():
        raise ValueError(
            f"{name} is {prior.min():g}: below 1 there is no optimum, as a probability of 0 has "
            f"infinite density: refit with {name}=1, or above"
        )
    return prior


def _common(name, prior):
    """The one number that all entries of a prior are."""
    entries = np.ravel(real_array(name, prior))
    if np.ptp(entries) > 0.0:
        raise ValueError(f"{name} are {entries}: our priors have one number for all")
    return float(entries[0])


def _of_gaussian(fitted, x):
    kind = fitted.covariance_type
    squares = _common("covars_prior", fitted.covars_prior)
    weight = _common("covars_weight", fitted.covars_weight)
    if kind in ("diag", "spherical"):
        size = x.shape[1] if kind == "spherical" else 1
        prior = 0.5 * size * max(weight - 1.0, 0.0) - 1.0, 0.5 * size * squares
        return _gaussian(kind, fitted.means_, fitted._covars_, x, prior)
    if kind not in ("full", "tied"):
        raise ValueError(f"covariance_type {kind!r}: one of diag, spherical, full and tied")
    return _gaussian(kind, fitted.means_, fitted._covars_, x, FLAT)


def _check_pull(fitted, frames):
    """Refuse a prior of full covariances that pulls one, given expected frames (K,) of states."""
    squares, weight = float(np.max(fitted.covars_prior)), float(np.max(fitted.covars_weight))
    least = np.linalg.eigvalsh(fitted._covars_)[..., 0]
    frames = frames.sum() if fitted.covariance_type == "tied" else frames
    count = max(weight - fitted.means_.shape[1], 0.0) + squares / least
    pull = np.max(count / np.sqrt(2.0 * np.maximum(frames, UNLIKELY)))
    if pull > SLIGHT:
        raise ValueError(
            f"covars_prior={squares:g}, covars_weight={weight:g}: ours have no such prior of "
            f"{fitted.covariance_type} covariances, which pulls one by {pull:.2g} standard errors: "
            "refit with covars_prior=0, covars_weight=1"
        )


def _of_mixture(fitted, x):
    concentration = _common("weights_prior", _concentration(fitted, "weights_prior"))
    kind = fitted.covariance_type
    if kind == "tied":
        raise ValueError("covariance_type 'tied' of a mixture: refit with diag, spherical or full")
    alpha = _common("covars_prior", fitted.covars_prior)
    beta = _common("covars_weight", fitted.covars_weight)
    shape = 0.5 * x.shape[1] if kind == "spherical" else 0.5
    prior = alpha + shape, beta
    if kind == "full":
        prior = FLAT
        if alpha or beta != -x.shape[1] - 2.0:
            named = "covars_prior, covars_weight: ours have no such prior of full covariances"
            raise ValueError(f"{named}: refit without them")
    if prior[0] < -1.0:
        raise ValueError(
            f"covars_prior={alpha:g} is less than a flat prior of variances, which is covars_prior="
            f"{-1.0 - shape:g}: refit with that"
        )
    weights = fitted.weights_
    parts = fitted.means_, fitted.covars_
    mean, spread = (np.reshape(part, (weights.size, *part.shape[2:])) for part in parts)
    component, named = _gaussian(kind, mean, spread, x, prior)
    return Mixture(weights.shape[1], component, concentration), MixtureParams(weights, named)


def _of_categorical(fitted, x):
    p = np.asarray(fitted.emissionprob_, float)
    p = p / p.sum(axis=1, keepdims=True)
    prior = _common("emissionprob_prior", _concentration(fitted, "emissionprob_prior"))
    fixed = np.where(p == 0.0, 0.0, np.nan)
    return Categorical(p.shape[1], prior, fixed if (p == 0.0).any() else None), CategoricalParams(p)


def _of_poisson(fitted, x):
    if np.any(fitted.lambdas_prior) or np.any(fitted.lambdas_weight):
        raise ValueError("lambdas_prior or lambdas_weight is not 0, which is no Gamma prior")
    if not np.all(fitted.lambdas_ > 0.0):
        state, channel = np.argwhere(~(fitted.lambdas_ > 0.0))[0]
        raise ValueError(
            f"lambdas_[{state}, {channel}] = {fitted.lambdas_[state, channel]} is no rate whose "
            "logarithm is finite: set it to a small rate, such as 1e-6, that you mean"
        )
    return Poisson((1.0, 0.0)), PoissonParams(fitted.lambdas_)


def _gaussian(kind, mean, covariance, x, variance_prior):
    """(emission, params) of (co)variances (K,), (K, R), (K, R, R) or, if tied, (R, R)."""
    units = {"centre": np.nanmedian(x, axis=0), "scale": np.ones(x.shape[1])}
    settings = {"mean_scale": np.inf, "variance_prior": variance_prior, **units}
    if kind in ("diag", "spherical"):
        sd = np.sqrt(np.reshape(covariance, (len(mean), -1)))
        sd = sd[:, :1] if kind == "spherical" else sd
        return Gaussian(**settings, covariance=kind), GaussianParams(mean, sd)
    emission = Gaussian(**settings, covariance="full", tied=kind == "tied")
    return emission, CovarianceParams(mean, covariance)


HMMLEARN = {  # what reads it, and the parts of its emission by their letters in `params`
    "GaussianHMM": (_of_gaussian, {"m": "means", "c": "covars"}),
    "CategoricalHMM": (_of_categorical, {"e": "emissionprob"}),
    "PoissonHMM": (_of_poisson, {"l": "lambdas"}),
    "GMMHMM": (_of_mixture, {"m": "means", "c": "covars", "w": "weights"}),
}
