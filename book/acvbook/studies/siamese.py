"""A Siamese network on faces, far from converged: what leaving out people changes,
predicted and retrained.

Figure 3, and the row AT&T of Table 1, of Zhu and Liu (2021).
"""

import warnings
from functools import partial

import numpy as np
import pandas as pd
from joblib import delayed
from scipy.sparse.linalg import LinearOperator, eigsh

import acvlib as acv
from acvbook.lissa import MARGIN, largest_eigenvalue, lissa
from acvlib.parallel import threads
from acvlib.trials import UnconvergedFit

from ..neural import Siamese, train_siamese
from ..neural.batches import one_torch_thread
from .ladders import correlation
from .ladders import seconds as stopwatch

NAMES = ("no_adjustment", "gradient", "as_printed", "infinitesimal_jackknife", "frozen_newton")
DAMPING = 0.1  # smallest eigenvalue of H + lambda over the largest of H, Section 5.2
SOLVED = 1e-2  # residual of conjugate gradients, far below what a damped step is wrong by


def network(faces, gamma_i=1e-4):
    """A `Siamese` of the faces, reduced fourfold."""
    return Siamese(faces.reduced(4).images, faces.person, gamma_i=gamma_i)


def fitted(model, training, seed, damping=DAMPING, tolerance=SOLVED):
    """The `Fit` of a network after its training, whose metric is H + lambda:
    H itself is not positive definite.

    damping: smallest eigenvalue of H + lambda over the largest of H, about; tolerance: of solves.
    """
    params = train_siamese(model, training, seed)
    ones = np.ones(model.n_sites)
    value, gradient = model.derivatives.value_and_gradient(params, ones)
    hessian = model.derivatives.hessian(params, ones)
    hessian.tolerance = tolerance
    rng = np.random.default_rng(seed)
    metric = hessian.damped(_lambda(damping, hessian.products, len(params), rng))
    norm = float(np.linalg.norm(gradient))
    return acv.Fit(model, params, value, norm, float("inf"), hessian, metric)


def _lambda(damping, products, dim, rng):
    """That of `fitted`, from both ends of H's spectrum."""
    row = np.zeros(1, int)
    operator = LinearOperator(
        (dim, dim), lambda v: products.multiply(v.reshape(1, dim), row)[0], dtype=float
    )
    start = rng.standard_normal(dim)
    ends = eigsh(operator, 2, which="BE", tol=1e-2, v0=start, return_eigenvectors=False)
    return damping * max(ends) - min(*ends, 0.0)


@one_torch_thread.inside()
def predicted(model, full, folds):
    """{rung: params (n_folds, D)}, for the network as it is, converged or not.

    frozen: H^-1 times the change of the gradient, dF(w_o) - dF(1), and not dF(w_o) itself, which
    would train on; gradient: the jackknife without a Hessian, a step as long as its own along the
    derivative of the gradient in the weights. Raises IndefiniteHessian where H + lambda is not
    positive definite.
    """
    with warnings.catch_warnings(action="ignore", category=UnconvergedFit):
        methods = acv.as_printed, acv.infinitesimal_jackknife, acv.frozen_newton
        steps = {m.__name__: m(full, folds, damping=full.metric.damping).params for m in methods}
    _, rest = model.derivatives.value_and_gradient(full.params, np.ones(model.n_sites))
    steps["frozen_newton"] += full.metric.solve(rest)
    directions = model.derivatives.cross(full.params, folds)
    lengths = np.linalg.norm(steps["infinitesimal_jackknife"] - full.params, axis=1)
    lengths = lengths / np.linalg.norm(directions, axis=1)
    steps["gradient"] = full.params - directions * lengths[:, None]
    return {"no_adjustment": np.tile(full.params, (len(folds), 1))} | steps


@one_torch_thread.inside()
def retrained(model, training, seed, folds):
    """Each fold's network, trained as the full one was: same start, as many steps; (n_folds, D)."""
    jobs = (
        delayed(train_siamese)(model, training, seed, acv.folds.weights(model.n_sites, fold))
        for fold in folds
    )
    return np.array(threads()(jobs))


def pairs(fold):
    """The places of all pairs of different images of a fold."""
    return np.triu_indices(len(fold), 1)


def one_split(model, training, seed, fold, damping=DAMPING):
    """Losses of the pairs inside one fold, by `full`, `retrained` and every rung."""
    full = fitted(model, training, seed, damping)
    (losses,) = _losses(model, training, seed, full, acv.Folds([fold]))
    return losses


def _losses(model, training, seed, full, folds):
    """Those of each fold, see `one_split`."""
    params = predicted(model, full, folds)
    params["full"] = np.tile(full.params, (len(folds), 1))
    params["retrained"] = retrained(model, training, seed, folds)
    for row, fold in enumerate(folds):
        own = {name: model.pair_losses(p[row], fold)[pairs(fold)] for name, p in params.items()}
        yield pd.DataFrame(own)


def over_splits(model, training, seeds, rng, n_splits=None, n_people=2):
    """`agreement` for several seeds, each with its own choices of people, one row each."""
    rows = []
    for seed in seeds:
        full = fitted(model, training, seed)
        folds = acv.folds.leave_group_out(model.person, per_fold=n_people, rng=rng)[:n_splits]
        for split, one in enumerate(_losses(model, training, seed, full, folds)):
            rows.append({"split": split, "seed": seed} | agreement(one))
    return pd.DataFrame(rows).set_index(["split", "seed"])


def by_rung(table, name):
    """The columns `name.RUNG` of `over_splits`, by rung."""
    columns = table.filter(regex=rf"^{name}\.")
    return columns.rename(columns=lambda column: column.removeprefix(f"{name}."))


def agreement(losses):
    """Pearson's R of losses and of their differences, each rung against retraining."""
    row, actual = {}, losses.retrained - losses.full
    for rung in NAMES:
        row[f"r_loss.{rung}"] = correlation(losses[rung], losses.retrained)
        row[f"r_difference.{rung}"] = correlation(losses[rung] - losses.full, actual)
    return row


def solvers(model, full, fold, sizes, rng, depth=200, n_draws=20):
    """LiSSA beside conjugate gradients for one fold's right-hand side, one row a sample size and
    draw of samples; with all images there is one draw. start: where the recursion begins.
    """
    b, damping = model.printed_cross(full.params, acv.Folds([fold])), full.metric.damping
    products, dim = full.hessian.products, b.shape[1]
    scale = MARGIN * (largest_eigenvalue(products, dim, rng) + damping)

    def distance(size, depth):
        return lissa(products, b, rng, damping, size, depth, scale)[1][0]

    tables = {}
    for size in sizes:
        own = [{"distance": distance(size, depth)} for _ in range(n_draws if size else 1)]
        tables[size or model.n_sites] = pd.DataFrame(own)
    table = pd.concat(tables, names=["images in a sample", "draw"])
    return table.assign(start=distance(None, 0))


def _mean_loss(model, params, folds):
    return float(
        np.concatenate(
            [model.heldout_loss(p, f) for p, f in zip(params, folds, strict=True)]
        ).mean()
    )


def seconds(model, training, seed, rng, numbers=(5, 10, 20)):
    """Table 1's row: seconds of t-fold CV by retraining, and of the jackknife, by people."""
    people, rows = len(np.unique(model.person)), []
    for t in numbers:
        folds = acv.folds.leave_group_out(model.person, per_fold=-(-people // t), rng=rng)

        def scored(way, folds=folds):
            return _mean_loss(model, way(model, training, seed, folds), folds)

        ways = {"cv": retrained, "acv": _jackknife}
        rows.append({name: stopwatch(partial(scored, way))[0] for name, way in ways.items()})
    table = pd.DataFrame(rows, index=pd.Index(numbers, name="folds"))
    return table.assign(ratio=table.cv / table.acv)


def _jackknife(model, training, seed, folds):
    full = fitted(model, training, seed)
    with warnings.catch_warnings(action="ignore", category=UnconvergedFit):
        return acv.infinitesimal_jackknife(full, folds, damping=full.metric.damping).params
