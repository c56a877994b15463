"""What functions of another library must be: each check says what is not, and what to do."""

from typing import Any

import numpy as np

from ..derivatives import ALIKE, check_weights_read

STEP = 1e-5  # of the differences
WRONG = 1e-3  # relative error of a derivative that is no rounding
ROUNDING = 1e-10  # of values that are differenced
NOT_SMOOTH = (
    "loss is not twice differentiable (stop_gradient or detach, abs, relu, max, rounding, sorting)"
)


def check_functions(model: Any) -> None:
    """Raise TypeError or ValueError unless F and the held-out losses are what methods need.

    F at `start`: one number in float64, finite, twice differentiable, and a function of the weight
    of each site; held-out losses: those of the sites, whatever their order, and where F takes the
    sites to be independent, whoever is left out with them. `acvlib.check_model` checks more.
    """
    backend = model.backend
    start = model.initial_params()
    ones = np.ones(model.n_sites)
    observed = ones == 1.0 if model.observed is None else model.observed
    sites = np.flatnonzero(observed)
    try:
        _check_output(model, "loss", (start, ones), ())
        for few in (sites[:1], sites[:2]):
            _check_output(model, "heldout", (start, few), few.shape)
        _check_derivatives(model, start, ones, observed)
        _check_heldout(model, start, ones, sites)
    except backend.errors as error:
        reason = str(error).strip().splitlines()[0]
        advice = f"{backend.advice}; weights are as many as n_sites = {model.n_sites}"
        remedy = f"{advice} ({type(error).__name__}: {reason:.200})"
        raise TypeError(
            f"{backend.name} cannot differentiate or batch a function: {remedy}"
        ) from error


def _check_output(model, label, arguments, shape):
    function = getattr(model, label)
    returned, dtype, narrow = model.backend.described(
        lambda params, second: function(model.unpack(params), second), *arguments
    )
    if returned != shape:
        each = "one number: sum over the sites" if label == "loss" else "one loss for each site"
        raise ValueError(f"{label} returns shape {returned}, must be {shape}, {each}")
    if narrow or dtype != "float64":
        what = "returns " + dtype if dtype != "float64" else "computes with " + narrow
        raise ValueError(
            f"{label} {what}, whose rounding spoils second derivatives: {model.backend.remedy}"
        )


def _check_derivatives(model, start, ones, observed):
    """Compare derivatives with differences and with a second call; look for weights unread."""
    rng = np.random.default_rng(0)
    rows = model.derivatives._rows
    value, gradient = model.derivatives.value_and_gradient(start, ones)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise ValueError(f"loss is {value} at start, its gradient {gradient}: start where both are")
    cross = model.derivatives.cross_matrix(start, ones)
    anew = type(model.derivatives)(model)._rows  # whose functions are read once more
    _, again = anew("value_and_gradient", repeated(2, start), repeated(2, ones))
    rounding = ALIKE * (abs(gradient).max() + np.nan_to_num(abs(cross)).sum())
    if not (abs(again - gradient) <= rounding).all():
        raise ValueError("loss is another function at each call: no random numbers in it")
    far = rng.standard_normal((16, len(start))) * (1.0 + abs(start))
    far *= np.geomspace(0.0001, 10.0, 16)[:, None]  # a site may cost nothing at the start alone
    (terms,) = rows("terms", start + far, repeated(16, ones))
    check_weights_read("loss", terms, np.flatnonzero(observed))
    hessian = rows("hessian", start[None], ones[None])[0][0]
    if not hessian.any():
        raise ValueError(f"{NOT_SMOOTH}: its second derivative is 0")
    along = STEP * rng.standard_normal(len(start))
    sideways = STEP * rng.uniform(-1.0, 1.0, len(ones))
    at = model.derivatives.value_and_gradient
    ahead, behind = at(start + along, ones), at(start - along, ones)
    heavier, lighter = at(start, ones + sideways), at(start, ones - sideways)
    _compare("gradient", gradient @ along, ahead[0], behind[0])
    _compare("second derivative", hessian @ along, ahead[1], behind[1])
    _compare("derivative by weights", cross @ sideways, heavier[1], lighter[1])


def _compare(name, derivative, ahead, behind):
    difference = (ahead - behind) / 2
    error = np.linalg.norm(derivative - difference)
    rounding = ROUNDING * (1.0 + np.linalg.norm(ahead))
    if not error <= WRONG * np.linalg.norm(difference) + rounding:
        raise ValueError(f"{NOT_SMOOTH}: at start its {name} is off by {error / STEP:.2g}")


def _check_heldout(model, start, ones, sites):
    """Compare held-out losses in several orders, and with the terms that F has for the sites.

    F takes sites as independent where dF/dweight of a site does not change with other weights. It
    is then the site's term, and as params move, the share that a second move has of the first is
    the same for the loss of a site and for any multiple of it, plus any constant.
    """
    rng = np.random.default_rng(1)
    half = rng.random(len(ones)) < 0.5
    light = rng.uniform(0.5, 1.5, len(ones))
    weights = np.array([np.where(half, light, 1.0), np.where(half, 1.0, light), ones, ones, ones])
    moves = 0.01 * rng.standard_normal((2, len(start))) * (1.0 + abs(start))
    points = np.array([start, start, start, *(start + moves)])
    (terms,) = model.derivatives._rows("terms", points, weights)
    if model.normalised:  # dF/dweight = (term - F) / sum of weights, but for what has no weight
        values, _ = model.derivatives._rows("value_and_gradient", points, weights)
        terms = weights.sum(axis=1)[:, None] * terms + values[:, None]
    same = np.isclose(terms[:2], terms[2], ALIKE, ALIKE * abs(terms[2]).max())
    independent = same[0, ~half].all() and same[1, half].all()

    def losses_of(folds: Any):
        losses = np.empty((3, model.n_sites))
        for fold in folds:
            (losses[:, fold],) = model.derivatives._rows("heldout", points[2:], repeated(3, fold))
        return losses[:, sites]

    first, second = (halves(rng.permutation(sites)) for _ in range(2))
    losses = losses_of(first)
    again = losses_of(second if independent else [fold[::-1] for fold in first])
    level = np.nan_to_num(model.derivatives.at_first, posinf=0.0, neginf=0.0)  # of what is finite
    rounding = ALIKE * np.mean(abs(level))
    alike = np.isclose(again, losses, ALIKE, rounding, equal_nan=True)
    wrong = ~alike.all(axis=0)
    what = "that change with the order of the sites"
    if independent:
        what += " or with other sites left out"
        if not wrong.any():
            with np.errstate(all="ignore"):  # a loss may be infinite
                wrong = _of_other_sites(terms[2:, sites], losses, model.normalised)
            what = "of other sites, by their terms in loss"
    if wrong.any():
        remedy = "index the data with `sites`, and return one loss for each in their order"
        shown = f"heldout gives {wrong.sum()} sites, such as {sites[wrong][:3]}, losses {what}"
        raise ValueError(f"{shown}: {remedy}")


def halves(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two folds of one size, which is compiled once, that hold all sites."""
    half = (len(order) + 1) // 2
    return order[:half], order[-half:]


def _of_other_sites(terms, losses, normalised):
    """Flags of sites whose losses (3, n) move as the terms (3, n) of other sites do, or all alike.

    None where most are like no site's: users may score by another loss than they fit.
    """
    if normalised:  # what F has beside its mean over sites is in every term
        terms = terms - terms.mean(axis=1, keepdims=True)
        losses = losses - losses.mean(axis=1, keepdims=True)
    (first, second), (near, far) = terms[1:] - terms[0], losses[1:] - losses[0]
    size = abs(first * far) + abs(second * near)
    rounding = abs(losses[0]) * (abs(first) + abs(second)) + abs(terms[0]) * (abs(near) + abs(far))
    other = abs(first * far - second * near) > 1e-6 * size + 1e-12 * rounding
    shares = (near / far)[other]
    known = np.sort(first / second)
    places = np.searchsorted(known, shares)
    neighbours = known[np.clip([places - 1, places], 0, len(known) - 1)]
    like = (abs(neighbours - shares) <= ALIKE * abs(shares)).any(axis=0)
    spread = np.ptp(losses[:, other], axis=1) if len(shares) > 1 else np.inf
    alike = np.all(spread <= ALIKE * abs(losses).max())
    return other & bool(alike or like.sum() > len(shares) / 2)


def repeated(n: int, array: np.ndarray) -> np.ndarray:
    """One row n times, or the n rows as they are, without a copy."""
    return np.broadcast_to(array, (n, array.shape[-1]))
