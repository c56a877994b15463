"""Models of the data of Zhu and Liu (2021), and every rung on their folds: Figures 1 to 3."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy.sparse import block_diag
from sklearn.neighbors import kneighbors_graph

import acvlib as acv
from acvlib.methods.exact import exact
from acvlib.models import GraphAffinity, ManifoldEnergy, RBFAffinity, SemiSupervised

from ..datasets import Msd, load_or_simulate, simulate_msd
from ..datasets.msd import N_ROWS
from .ladders import against_exact, correlation

RUNGS = (acv.no_adjustment, acv.as_printed, acv.infinitesimal_jackknife, acv.frozen_newton)
LADDER = (*RUNGS, acv.newton_step)
LABELLED = 0.1  # share of the points; the paper hides the labels of the others
PLAIN, VARIANCE = SCALINGS = ("plain", "variance 1")
WIDTHS = (1.0, 0.1)  # sigma, over the median squared distance of two points


def points_and_response(data, scaling=PLAIN):
    """(X (p, d + 1), y (p,)): features and a constant one; labels,
    or a response of mean 0 and variance 1.

    Features of regression are scaled to [-1, 1], as in LIBSVM's scaled files, or for songs to
    variance 1; those of classification are left as they are. scaling "variance 1" is for any.
    """
    if scaling != PLAIN:
        spread = data.X.std(axis=0)
        X, y = (data.X - data.X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), data.y
    elif isinstance(data, Msd):
        songs = data.regression("centred")
        X, y = songs.X, songs.y
    else:
        X, y = (data.X if data.is_classification else data.scaled()), data.y
    y = y if is_classification(data) else (y - y.mean()) / y.std()
    return np.column_stack([X, np.ones(len(data))]), y


def is_classification(data):
    return getattr(data, "is_classification", False)


def semi_supervised(
    data, rng, loss=None, affinity=None, labelled=LABELLED, scaling=PLAIN, width=1.0, **gammas
):
    """The linear `SemiSupervised` model of a data set, of whose labels a share is kept at random.

    loss: the square, or for classification the logistic one, unless another is named. affinity: a
    function of points and sigma, `RBFAffinity` if none; sigma is `width` times the median squared
    distance of two points. Scaling and sigma the paper leaves open.
    """
    X, y = points_and_response(data, scaling)
    first, second = rng.integers(len(X), size=(2, 10_000))
    squares = ((X[first] - X[second]) ** 2).sum(axis=1)
    sigma = width * float(np.median(squares[first != second]))
    hidden = rng.permutation(len(y))[round(labelled * len(y)) :]
    y = np.where(np.isin(np.arange(len(y)), hidden), np.nan, y)
    loss = loss or ("logistic" if is_classification(data) else "square")
    return SemiSupervised(ManifoldEnergy(X, (affinity or RBFAffinity)(X, sigma)), y, loss, **gammas)


def over_draws(model, data, rng, gammas, n_draws, labelled=LABELLED):
    """`agreement` and `expansions` of many draws of labels and folds, for each (gamma_p, gamma_i).

    Each draw keeps a share of the labels of `data`. Sums over all pairs do not hang on them, and
    are taken once. Index: gamma_p, gamma_i, draw, rung.
    """
    tables = {}
    _, y = points_and_response(data)
    for draw in range(n_draws):
        one = relabelled(model, y, rng, labelled)
        folds = acv.folds.k_fold(one.n_sites, 20, rng, one.observed)
        for p, i in gammas:
            with_these = replace(one, gamma_p=p, gamma_i=i)
            results = on_folds(with_these, folds, LADDER)
            added = [expansions(with_these, results), discrepancies(results)]
            tables[p, i, draw] = agreement(with_these, results).join(added)
    return pd.concat(tables, names=["gamma_p", "gamma_i", "draw"])


def over_settings(data, rng, gammas, n_draws):
    """`over_draws` for every scaling of the features and width of the affinity: outer index."""
    tables = {}
    for scaling in SCALINGS:
        for width in WIDTHS:
            model = semi_supervised(data, rng, scaling=scaling, width=width)
            tables[scaling, width] = over_draws(model, data, rng, gammas, n_draws)
    return pd.concat(tables, names=["scaling", "width"])


def relabelled(model, y, rng, labelled=LABELLED):
    """The model with another random share of the labels y (p,)."""
    kept = rng.permutation(len(y))[: round(labelled * len(y))]
    return replace(model, y=np.where(np.isin(np.arange(len(y)), kept), y, np.nan))


def load(name, rng, n_rows=None):
    """A data set of Tables 1 and 2, its rows shuffled, at most n_rows; songs are simulated."""
    if name == "msd":
        return simulate_msd(rng, n_rows or N_ROWS)
    data = load_or_simulate(f"libsvm, {name}", rng)
    return data.take(rng.permutation(len(data))[:n_rows])


def model_of(data, rng, **gammas):
    """`semi_supervised`, for songs with the pairs of ten near neighbours alone."""
    near = partial(neighbour_affinity, n_neighbours=10, rng=rng)
    return semi_supervised(data, rng, affinity=near if isinstance(data, Msd) else None, **gammas)


def every_rung(model, rng, n_folds=20):
    """{name: CVResult} of exact CV and all RUNGS, on one draw of folds of the labelled points."""
    return on_folds(model, acv.folds.k_fold(model.n_sites, n_folds, rng, model.observed))


def on_folds(model, folds, rungs=RUNGS):
    """{name: CVResult} of exact CV and these rungs, on these folds."""
    full = acv.fit(model)
    return {method.__name__: method(full, folds) for method in (exact, *rungs)}


def agreement(model, results):
    """`ladders.against_exact`, its columns named as in the chapter: r_loss and r_difference are
    Pearson's R over left-out points of losses, and of what leaving out adds to them.
    """
    unit, params = 1.0, results["exact"].fit.params
    if model.loss == "square":  # standard errors in a distance in the metric of F
        unit = float(np.sqrt(2.0 * model.heldout_loss(params, model.labelled).mean()))
    named = {"correlation": "r_loss", "differences": "r_difference", "theta": "theta_error"}
    return against_exact(results, unit=unit).rename(columns=named)


def medians(table, columns):
    """Median over draws of some columns of `over_draws`, one row a rung."""
    return table.groupby("rung", sort=False)[columns].median()


def expansions(model, results):
    """Eq. 11 beside plugging in theta_o, one row a rung that moves theta.

    r_linearised: `r_difference` by Eq. 11; over_plugged: error of its mean loss over that of
    plugging in.
    """
    reference, none = (np.concatenate(results[name].losses) for name in ("exact", "no_adjustment"))
    rows = {}
    for name in results.keys() - {"exact", "no_adjustment", "newton_step"}:
        plain = np.concatenate(results[name].losses)
        losses = np.concatenate(acv.linearised(results[name]).losses)
        gaps = [abs(each.mean() - reference.mean()) for each in (losses, plain)]
        r = correlation(losses - none, reference - none)
        rows[name] = {"r_linearised": r, "over_plugged": gaps[0] / gaps[1]}
    return pd.DataFrame(rows).T.rename_axis("rung")


def discrepancies(results):
    """|t| of the paired test, over the folds' mean losses, that approximate CV does not differ from
    exact CV, with a degree of freedom less than folds: `paired`, one row a rung.
    """
    rows = {}
    for name in results.keys() - {"exact", "newton_step"}:
        gap = results[name].fold_losses - results["exact"].fold_losses
        rows[name] = abs(gap.mean()) / gap.std(ddof=1) * np.sqrt(len(gap))
    return pd.Series(rows, name="paired").rename_axis("rung").to_frame()


def neighbour_affinity(points, sigma, n_neighbours, rng, leaf=1000):
    """exp(-|x_i - x_j|^2 / (2 sigma)) between near neighbours, in place of an `RBFAffinity`.

    Points are halved along random directions down to leaves of at most `leaf`; neighbours are those
    within a leaf, O(p leaf d). A pair stays if either point names the other. All entries are scaled
    by one number, so that their sum is about that of the full matrix: gamma_P then means the same.
    Source: Dasgupta and Freund (2008).
    """
    graphs, leaves = [], list(_leaves(points, leaf, rng))
    for part in leaves:
        k = min(n_neighbours, len(part) - 1)
        graphs.append(kneighbors_graph(points[part], k, mode="distance"))
    place = np.argsort(np.concatenate(leaves))
    graph = block_diag(graphs, format="csr")[place][:, place]
    graph.data = np.exp(-(graph.data**2) / (2.0 * sigma))
    graph = graph.maximum(graph.T)
    first, second = rng.integers(len(points), size=(2, 100_000))
    square = ((points[first] - points[second]) ** 2).sum(axis=1)
    scale = np.exp(-square / (2.0 * sigma)).mean() * len(points) ** 2 / graph.sum()
    return GraphAffinity(graph * scale)


def _leaves(points, leaf, rng) -> Iterator[np.ndarray]:
    """Disjoint sets of points, of at most `leaf` each."""
    waiting = [np.arange(len(points))]
    while waiting:
        part = waiting.pop()
        if len(part) <= leaf:
            yield part
            continue
        order = np.argsort(points[part] @ rng.standard_normal(points.shape[1]))
        waiting += np.array_split(part[order], 2)
