"""Proposition 2 of Ghosh et al. (2020) on data: approximate CV at an iterate of the optimiser.

    |L_IJ(theta_s) - L_CV| <= C eps_theta + eps_IJ,    eps_theta = |theta_s - theta_hat|
    C = L_p + L_p L_g / lambda_min + L_p L_Hinv / |O| sum_o |g_o(theta_hat)|

g_o is the fold's column sum of J. The constants are suprema over a ball that has theta_hat at its
centre and theta_s on its rim. All that the proof takes from them is what happens between two
points: g, H and its inverse between theta_hat and theta_s, the loss of a fold between its
approximate params from the one and from the other. So they are estimated by the largest values and
differences at POINTS places on these ways, which is the least that they can be. All norms are
Euclidean in coordinates that the caller chooses: params, or standard errors, in which the Hessian
at theta_hat is the identity. For folds of several sites L_g is that of g_o, as the proof needs it,
not of one site.
"""

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.parallel import track

from .crf_epochs import at_iterate

POINTS = 5
STEP = 1e-5  # of the central differences of held-out losses


def way(start, stop):
    """POINTS places from start to stop, both included."""
    return start + np.linspace(0.0, 1.0, POINTS).reshape(-1, *[1] * np.ndim(start)) * (stop - start)


def pulls(model, params, folds):
    """g_o = sum over the fold of d2F / dparams dw at params and w = 1, (n_folds, D)."""
    return -acv.derivatives_of(model).cross(params, acv.Folds.of(folds, model))


def loss_slopes(model, params, folds):
    """Gradients of held-out losses at each fold's params (n_folds, D), by differences."""
    heldout, folds = acv.derivatives_of(model).heldout, acv.Folds.of(folds, model)
    slopes = np.empty_like(params)
    for d, move in enumerate(STEP * np.eye(params.shape[1])):
        ahead, behind = (
            [each.sum() for each in heldout(params + sign * move, folds)] for sign in (1, -1)
        )
        slopes[:, d] = np.subtract(ahead, behind) / (2 * STEP)
    return slopes


def _error(result, reference, rows):
    """|L - L_CV| of the proposition, L the mean over folds of the summed losses of their sites."""
    return abs(result.fold_totals[rows].mean() - reference.fold_totals[rows].mean())


class Path:
    """Everything between an optimum and an iterate that the constants are made of,
    in the model's coordinates.

    hessians (POINTS, D, D) and pulls (POINTS, n_folds, D) on the way; slopes: gradients of the fold
    losses on each fold's own way. own_slopes(params (n_folds, D)): these gradients, where they are
    known in closed form.
    """

    def __init__(self, model, full, params, folds, own_slopes=None):
        self.places = way(full.params, params)
        ones = np.ones(model.n_sites)
        hessian = acv.derivatives_of(model).hessian
        self.hessians = np.array([np.asarray(hessian(place, ones)) for place in self.places])
        self.pulls = np.array([pulls(model, place, folds) for place in self.places])
        slopes = own_slopes or (lambda p: loss_slopes(model, p, folds))
        self.slopes = np.array(
            [slopes(each) for each in way(self._jackknife(0), self._jackknife(-1))]
        )

    def _jackknife(self, end):
        """Each fold's params by the jackknife from one end of the way, (n_folds, D)."""
        return self.places[end] + np.linalg.solve(self.hessians[end], self.pulls[end].T).T

    def constants(self, root, rows=slice(None)):
        """L_p, L_g, L_Hinv, lambda_min, C and distance of the folds numbered `rows`, in the
        coordinates root' params, root (D, D).
        """
        inverse = np.linalg.inv(root)
        hessians, pulls = inverse @ self.hessians @ inverse.T, self.pulls[:, rows] @ inverse.T
        step = np.linalg.norm(root.T @ (self.places[1] - self.places[0]))
        slope = np.linalg.norm(self.slopes[:, rows] @ inverse.T, axis=-1).max()
        smallest = np.linalg.eigvalsh(hessians)[:, 0].min()
        pull = np.linalg.norm(np.diff(pulls, axis=0), axis=-1).max() / step
        inverses = (
            np.linalg.norm(np.diff(np.linalg.inv(hessians), axis=0), 2, axis=(1, 2)).max() / step
        )
        total = slope * (1 + pull / smallest + inverses * np.linalg.norm(pulls[0], axis=-1).mean())
        found = {"L_p": slope, "L_g": pull, "L_Hinv": inverses, "lambda_min": smallest, "C": total}
        return found | {"distance": (POINTS - 1) * step}


def proposition2(model, full, iterates, folds, reference, own_slopes=None, draws=None):
    """One row an iterate and draw: the observed error, the bound in both coordinates, and the
    constants behind them.

    full: the `Fit` at the optimum; iterates: params by label; reference: exact CV of the folds;
    draws: rows of the folds of each draw, by default one of all folds. error: |L_IJ - L_CV|;
    none_error: the same for doing nothing; applies: whether the objective is convex at all places
    looked at; *_se: in standard errors.
    """
    draws = (slice(None),) if draws is None else draws
    optimal = acv.infinitesimal_jackknife(full, folds)
    roots = {"": np.eye(len(full.params)), "_se": np.linalg.cholesky(np.asarray(full.metric))}
    table = {}
    for label, params in track(list(iterates.items()), "Proposition 2"):
        rungs = (acv.no_adjustment, acv.infinitesimal_jackknife)
        here, results = at_iterate(model, params, folds, rungs)
        path = Path(model, full, params, folds, own_slopes)
        for draw, rows in enumerate(draws):
            errors = [_error(results[rung.__name__], reference, rows) for rung in rungs]
            row = {"grad_norm": here.grad_norm, "error": errors[1], "none_error": errors[0]}
            for suffix, root in roots.items():
                found = path.constants(root, rows)
                bound = found["C"] * found["distance"] + _error(optimal, reference, rows)
                found |= {"applies": found["lambda_min"] > 0, "bound": bound}
                row |= {f"{name}{suffix}": value for name, value in found.items()}
            table[label, draw] = row
    return pd.DataFrame(table).T.rename_axis(["iterate", "draw"]).infer_objects()


def growth(data, lengths, fold_size, n_draws, rng):
    """L_p and C / L_p - 1 of Eq. 7, a row a draw of ten folds and a column a length of the series;
    `fold_size`(T) sites a fold. Between the optimum and a point a standard error away, in the
    params' own units.
    """
    table = {}
    for length in lengths:
        part = data.head(length)
        model = acv.models.PoissonTraffic(part.counts, part.day)
        full, seen = acv.fit(model), np.flatnonzero(model.observed)
        size = fold_size(length)
        folds = [rng.choice(seen, size, replace=False) for _ in range(10 * n_draws)]
        away = np.linalg.solve(np.linalg.cholesky(np.asarray(full.metric)).T, np.eye(11)[0])
        path, root = Path(model, full, full.params + away, folds), np.eye(11)
        rows = [slice(10 * draw, 10 * draw + 10) for draw in range(n_draws)]
        found = pd.DataFrame([path.constants(root, ten) for ten in rows])
        table[length] = found.assign(excess=found.C / found.L_p - 1)[["L_p", "excess"]]
    return pd.concat(table, axis=1).swaplevel(axis=1)


def summary(table):
    """By draw, among the iterates to which the proposition applies, in both coordinates: the
    number `violated` and the median of bound over error, `tightness`; none_*: for doing nothing.
    """
    found = {}
    for suffix in ("", "_se"):
        rows = table[table[f"applies{suffix}"].astype(bool)]
        bound = rows[f"bound{suffix}"].astype(float)
        for name in ("", "none_"):
            error = rows[f"{name}error"].astype(float)
            found[f"{name}violated{suffix}"] = (error > bound).groupby("draw").sum()
            found[f"{name}tightness{suffix}"] = (bound / error).groupby("draw").median()
    return pd.DataFrame(found)


def at_nearest(table):
    """Errors over the bound in standard errors at the iterate nearest to the optimum, by draw:
    `none_error` of doing nothing, `error` of the IJ.
    """
    nearest = table.distance_se.astype(float).groupby("iterate").first().idxmin()
    rows = table.loc[nearest]
    return rows[["none_error", "error"]].div(rows.bound_se, axis=0).astype(float)


def convex_iterates(model, iterates, n):
    """At most n of an optimiser's iterates, evenly spread over the last ones at which the Hessian
    is positive definite; a dict by number. The optimum itself, where the distance is rounding, is
    left out.
    """
    decrements = np.array([acv.fit_at(model, params).newton_decrement for params in iterates])
    good = np.isfinite(decrements) & (decrements > 1e-3)
    first = np.max(np.flatnonzero(~np.isfinite(decrements)), initial=-1) + 1
    tail = np.flatnonzero(good[first:]) + first
    chosen = np.unique(np.linspace(0, len(tail) - 1, n).round().astype(int)) if len(tail) else []
    return {int(tail[i]): iterates[tail[i]] for i in chosen}
