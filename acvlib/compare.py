"""Tables of results: several methods on one model, or several models on the same folds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from .checks import require
from .declared import declared
from .derivatives import derivatives_of
from .folds.sites import Known
from .model import with_defaults
from .results import AResult, CVResult
from .scores import error_of_sum
from .weighting import weights_of

FAR = 1.0  # standard errors from which on the states may be numbered otherwise
WHOLE = 1e-9  # of a count, that rounding may add
OUTCOMES = ("y", "counts", "sequences", "labels")  # what a model predicts, under its own name


@declared
def compare_methods(exact: AResult, *others: AResult) -> Any:
    """Tabulate what each method says of one model, how far it is from exact, and what it cost.

    A DataFrame, one row a method. loss, se: as in `CVResult`; relative_error: mean over folds of
    |loss_o - exact_o| / |exact_o|; theta_error, theta_error_max: median and largest distance of a
    fold's params from the exact ones, in standard errors of the full fit.

    Raises ValueError: results of different fits or folds; for different models see
    `compare_models`.
    """
    rows = []
    for result in (exact, *others):
        error = theta_errors(exact, result)
        counts = [f"{count} {name}" for name, count in result.evaluations.items()]
        row = {
            "method": result.method,
            "loss": result.loss,
            "se": result.se,
            "relative_error": relative_errors(exact, result).mean(),
            "theta_error": np.median(error),
            "theta_error_max": error.max(),
            "seconds": result.seconds,
            "evaluations": ", ".join(counts),
        }
        rows.append(row)
    return require("pandas", extra="tables").DataFrame(rows).set_index("method")


@declared
def relative_errors(exact: AResult, result: AResult) -> np.ndarray:
    """|loss_o - exact_o| / |exact_o| for each fold (Ghosh et al. 2020, Table 1)."""
    _check_comparable(exact, result)
    return np.abs(result.fold_losses - exact.fold_losses) / np.abs(exact.fold_losses)


@declared
def theta_errors(exact: AResult, result: AResult) -> np.ndarray:
    """Distance of each fold's params from the exact ones, in standard errors of the full fit.

    States that two refits number otherwise are matched first.
    """
    _check_comparable(exact, result)
    fit = exact.fit
    errors = fit.standard_errors_between(result.params, exact.params)
    match = with_defaults(fit.model).matched
    for fold in np.flatnonzero(errors > FAR) if match else ():
        here = exact.params[fold]
        again = fit.standard_errors_between(match(result.params[fold], here), here)
        errors[fold] = min(errors[fold], again)
    return errors


def compare_models(results: Mapping[str, Any]) -> Any:
    """Tabulate how well models predict the same left-out sites, the best first, as ArviZ does.

    A DataFrame, one row a model. rank: 0 is the best; elpd: minus the sum over sites of the
    held-out losses, which must be minus log densities of the same quantity (of "poisson rate" those
    of counts, y times the exposure; nan where these are not whole); p: effective number of
    parameters, the loss held out minus that under the full fit, summed; elpd_diff: elpd of the best
    minus that of the model; se, dse: standard errors of elpd and of elpd_diff; dse_paired: the
    latter by pairs of losses alone, which covers too little where models are close, since both fits
    hang on the same sites (`shared_error`, which takes sites for independent); se_over: what these
    count as independent. Where either of two models is matrix-free, an estimating equation or at an
    indefinite Hessian, nothing is added, and dse = dse_paired covers too little as well. A site
    that several folds score counts once, by its mean. Sites of a fold share a fit, so that the
    errors take them together; where folds overlap, they take only a site's own losses together and
    are too small. With few folds, or losses with far outliers, they are rough in any case. ArviZ's
    `weight` is left out: it needs densities of single, independent sites.

    Raises ValueError: results on different sites, folds or data, or losses that are not finite.

    Source: Vehtari, Gelman and Gabry (2017), Eqs. 23 and 24; `CVResult.se` has more.
    """
    plain = results if isinstance(results, Mapping) else {}
    if not plain or not all(isinstance(each, CVResult) for each in plain.values()):
        raise ValueError(f"give {{name: CVResult}}, one result a model, not {results!r:.80}")
    _check_same_folds(*results.items())
    first, *_ = results
    for name, result in results.items():
        if reason := data_difference(results[first].fit.model, result.fit.model):
            raise ValueError(f"{first} and {name} have different data: {reason}")
        bad = np.flatnonzero((result.groups >= 0) & ~np.isfinite(result.pointwise))
        if bad.size:
            where = f"site {bad[0]} the first: {result.pointwise[bad[0]]}"
            lost = f"{bad.size} of {result.n_sites} sites have a held-out loss that is not finite"
            remedy = "so that elpd is not defined: look at these sites' folds"
            raise ValueError(f"{name}: {lost} ({where}), {remedy}")
    scored = results[first].groups >= 0
    groups = results[first].groups[scored]
    terms = {name: of_counts(result.fit.model) for name, result in results.items()}
    elpds = {
        name: -(factor * results[name].pointwise + shift)[scored]
        for name, (factor, shift, _) in terms.items()
    }
    order = sorted(results, key=lambda name: -elpds[name].sum())
    influences = {name: _influences(result.fit, scored) for name, result in results.items()}
    rows = []
    for rank, name in enumerate(order):
        gap = elpds[order[0]] - elpds[name]
        paired = error_of_sum(gap, groups)
        factor, _, is_density = terms[name]
        excess = factor * (results[name].pointwise - results[name].fitted_losses)
        row = {
            "rank": rank,
            "elpd": elpds[name].sum() if is_density else np.nan,
            "p": excess[scored].sum(),
            "elpd_diff": gap.sum(),
            "se": error_of_sum(elpds[name], groups),
            "dse": np.hypot(paired, shared_error(influences[order[0]], influences[name])),
            "dse_paired": paired,
            "method": results[name].method,
            "se_over": results[name].se_over,
        }
        rows.append(row)
    pandas = require("pandas", extra="tables")
    return pandas.DataFrame(rows, pandas.Index(order, name="model", tupleize_cols=False))


Influences = tuple[np.ndarray, np.ndarray] | None


def _influences(fit: Any, scored: np.ndarray) -> Influences:
    """G, 0 but for sites that are scored, and H^-1 J (D, n); None if they are not formed.

    J: how far the gradient moves by a weight more of each site; G: that of minus its log density.
    """
    derivatives = derivatives_of(fit.model)
    if derivatives.matrix_free or derivatives.is_equation or fit.hessian.indefinite:
        return None
    cross = derivatives.cross_matrix(fit.params, np.ones(derivatives.n_sites))
    weights = sample_weights(fit.model)
    losses = np.divide(cross, weights, out=np.zeros_like(cross), where=scored & (weights > 0.0))
    return losses, fit.hessian.solve(cross)


def of_counts(model: Any) -> tuple[Any, Any, bool]:
    """(a, b, whether all counts are whole): minus the log density of each outcome is a * loss + b.

    The outcome of "poisson rate" is the count y * exposure; where some is not whole there is none.
    """
    if not _is_rate(model):
        return 1.0, 0.0, True
    counts, is_density = _counts(model)
    exposure = model.sample_weight
    shift = gammaln(counts + 1.0) - xlogy(counts, exposure) - exposure * gammaln(model.y + 1.0)
    return exposure, is_density * shift, is_density


def _is_rate(model):
    return getattr(getattr(model, "family", None), "name", "") == "poisson rate"


def _counts(model):
    """(y times the exposure of "poisson rate", whole but for rounding; whether all are whole)."""
    counts = model.y * model.sample_weight
    near = np.round(counts)
    counts = np.where(abs(counts - near) <= WHOLE * counts, near, counts)
    return counts, bool((counts == np.floor(counts)).all())


def sample_weights(model: Any) -> np.ndarray:
    """How often the outcome of each site counts in the fit of a model, (n_sites,)."""
    weights = weights_of(model)
    return np.sign(weights) if _is_rate(model) else weights  # an exposure is part of the outcome


def shared_error(a: Influences, b: Influences) -> float:
    """What the errors of two fits add to the standard error of the difference of their elpds.

    About its own optimum a model's elpd is off by sum_i sum_j K_ij, K = G' H^-1 J, quadratic in the
    sites: pairs of losses take the fits for fixed, and know nothing of it. For i < j the terms
    M_ij = K_ij + K_ji are uncorrelated where sites are independent, so that the difference of two
    models has variance sum_{i < j} (M_ij - N_ij)^2: of nested models with all sites scored, twice
    the number of surplus parameters.
    """
    if a is None or b is None:
        return 0.0

    def product(first, second):  # half the sum over i, j of M_ij N_ij
        (G, moves), (other_G, other_moves) = first, second
        straight = np.sum((G @ other_G.T) * (moves @ other_moves.T))
        return straight + np.sum((G @ other_moves.T) * (moves @ other_G.T))

    alone = np.einsum("di,di->i", *a) - np.einsum("di,di->i", *b)
    square = product(a, a) + product(b, b) - 2.0 * product(a, b) - 2.0 * alone @ alone
    return float(np.sqrt(max(square, 0.0)))


def _check_comparable(a, b):
    """Raise unless two results start from the same fit and have the same folds."""
    same_params = a.fit is b.fit or np.array_equal(a.fit.params, b.fit.params)
    if not same_params or a.fit.objective != b.fit.objective:
        sizes = f"{len(a.fit.params)} parameters, F = {a.fit.objective:.8g}"
        others = f"{len(b.fit.params)} and {b.fit.objective:.8g}"
        raise ValueError(
            f"{a.method} and {b.method} start from different fits ({sizes}, against {others}): "
            "pass both the same fit; for different models use compare_models({name: result})"
        )
    _check_same_folds((a.method, a), (b.method, b))


def _check_same_folds(named, *others):
    """Raise unless all (name, result) omit and score the same of equally many sites."""
    first, a = named
    for name, b in others:
        if a.n_sites != b.n_sites or not a.folds.same_as(b.folds):
            both = f"{a.folds} of {a.n_sites} sites, and {b.folds} of {b.n_sites}"
            ran = f"{first} and {name} were run on different folds ({both})"
            raise ValueError(f"{ran}: run both on the same Folds")


def data_difference(a: Any, b: Any) -> str:
    """How the data of two models differ, in words; nothing where no difference is found."""
    if a.n_sites != b.n_sites:
        return f"{a.n_sites} and {b.n_sites} sites"
    known, other = Known.of(a), Known.of(b)
    if known.index is not None and other.index is not None and not known.index.equals(other.index):
        remedy = "give both .loc[the same index], or, if the rows are the same, .to_numpy()"
        return f"their sites have other names, or another order: {remedy}"
    if not np.array_equal(known.observed, other.observed):
        numbers = f"{known.observed.sum()} and {other.observed.sum()}"
        return f"not the same sites are observed ({numbers})"
    ours, theirs = (_outcomes(model, known.observed) for model in (a, b))
    shared = ours.keys() & theirs.keys()
    for name in shared:
        if ours[name][1] != theirs[name][1] or not _alike(ours[name][0], theirs[name][0]):
            return f"their {name} are not equal"
    if ours and theirs and not shared:
        if "rates" in ours or "rates" in theirs:
            return "losses of 'poisson rate' are no log densities where y * exposure is not whole"
        (name, (numbers, _)), (word, (others, _)) = (next(iter(o.items())) for o in (ours, theirs))
        if not _alike(numbers, others):
            return f"{name} are not {word}"
    scored = [_scored(model) for model in (a, b)]
    if scored[0] is not None and scored[1] is not None and not np.array_equal(*scored):
        numbers = " and ".join(str(mask.sum()) for mask in scored)
        remedy = "give all one context, and cut sequences at frames that are missing"
        return f"{numbers} numbers of their sequences are predicted: {remedy}"
    return ""


def _scored(model):
    """Which numbers (T, R) of all sequences end to end a model of them predicts; None of others."""
    frames = getattr(model, "frames", None)
    if not hasattr(frames, "seen"):
        return None
    parts = np.split(frames.seen > 0.0, frames.starts[1:-1])
    return np.concatenate([np.pad(part, ((model.context, 0), (0, 0))) for part in parts])


def _outcomes(model, observed):
    """{name: (all numbers or labels of observed sites end to end; the size of each part)}."""
    found = {}
    for name in OUTCOMES:
        values = getattr(model, name, None)
        if values is None:
            continue
        if name == "sequences" and hasattr(model, "n_channels"):
            values = [sequence[:, : model.n_channels] for sequence in values]
        if _is_rate(model):
            values, is_whole = _counts(model)
            name = "counts" if is_whole else "rates"
        listed = values if isinstance(values, tuple | list) else [values]
        parts = list(map(np.atleast_1d, listed))
        ends = np.cumsum([0, *map(len, parts)])
        seen = observed if len(parts) == len(observed) else [True] * len(parts)
        if ends[-1] == len(observed):
            seen = np.split(observed, ends[1:-1])
        parts = [part[rows] for part, rows in zip(parts, seen, strict=True)]
        joined = np.concatenate([np.empty(0), *map(np.ravel, parts)])
        found[name] = joined, [np.size(part) for part in parts]
    return found


def _alike(a, b):
    return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
