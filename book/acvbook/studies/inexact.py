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

from acvlib.derivatives import derivatives_of
from acvlib.fit import fit_at
from acvlib.folds import Folds
from acvlib.methods.jackknife import infinitesimal_jackknife
from acvlib.parallel import track

from .crf_epochs import at_iterate

POINTS = 5
STEP = 1e-5  # of the central differences of held-out losses


def way(start, stop):
    """POINTS places from start to stop, both included."""
    return start + np.linspace(0.0, 1.0, POINTS).reshape(-1, *[1] * np.ndim(start)) * (stop - start)


def pulls(model, params, folds):
    """g_o = sum over the fold of d2F / dparams dw at params and w = 1, (n_folds, D)."""
    return -derivatives_of(model).cross(params, Folds.of(folds, model.n_sites))


def loss_slopes(model, params, folds):
    """Gradients of the folds' held-out losses at each fold's params (n_folds, D),
    by central differences.
    """
    slopes = np.empty_like(params)
    for d, move in enumerate(STEP * np.eye(params.shape[1])):
        ahead, behind = (_fold_losses(model, params + sign * move, folds) for sign in (1, -1))
        slopes[:, d] = (ahead - behind) / (2 * STEP)
    return slopes


def _fold_losses(model, params, folds):
    losses = derivatives_of(model).heldout(params, Folds.of(folds, model.n_sites))
    return np.array([each.sum() for each in losses])


def _mean(result):
    """L of the proposition: the mean over folds of the summed losses of their sites."""
    return result.fold_totals.mean()


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
        hessian = derivatives_of(model).hessian
        self.hessians = np.array([np.asarray(hessian(place, ones)) for place in self.places])
        self.pulls = np.array([pulls(model, place, folds) for place in self.places])
        slopes = own_slopes or (lambda p: loss_slopes(model, p, folds))
        self.slopes = np.array(
            [slopes(each) for each in way(self._jackknife(0), self._jackknife(-1))]
        )

    def _jackknife(self, end):
        """Each fold's params by the infinitesimal jackknife from one end of the way, (n_folds,
        D).
        """
        return self.places[end] + np.linalg.solve(self.hessians[end], self.pulls[end].T).T

    def constants(self, root):
        """L_p, L_g, L_Hinv, lambda_min, C and distance in the coordinates root' params, root (D,
        D).
        """
        inverse = np.linalg.inv(root)
        hessians, pulls = inverse @ self.hessians @ inverse.T, self.pulls @ inverse.T
        step = np.linalg.norm(root.T @ (self.places[1] - self.places[0]))
        slope = np.linalg.norm(self.slopes @ inverse.T, axis=-1).max()
        smallest = np.linalg.eigvalsh(hessians)[:, 0].min()
        pull = np.linalg.norm(np.diff(pulls, axis=0), axis=-1).max() / step
        inverses = (
            np.linalg.norm(np.diff(np.linalg.inv(hessians), axis=0), 2, axis=(1, 2)).max() / step
        )
        total = slope * (1 + pull / smallest + inverses * np.linalg.norm(pulls[0], axis=-1).mean())
        found = {"L_p": slope, "L_g": pull, "L_Hinv": inverses, "lambda_min": smallest, "C": total}
        return found | {"distance": (POINTS - 1) * step}


def proposition2(model, full, iterates, folds, reference, own_slopes=None):
    """One row an iterate: the observed error, the bound in both coordinates,
    and the constants behind them.

    full: the `Fit` at the optimum; iterates: params by label; reference: exact CV of the folds.
    error: |L_IJ - L_CV|; applies: whether the objective is convex at all places looked at; *_se: in
    standard errors.
    """
    at_optimum = abs(_mean(infinitesimal_jackknife(model, full, folds)) - _mean(reference))
    rows = {}
    for label, params in track(list(iterates.items()), "Proposition 2"):
        here, results = at_iterate(model, params, folds, (infinitesimal_jackknife,))
        error = abs(_mean(results["infinitesimal_jackknife"]) - _mean(reference))
        rows[label] = {"grad_norm": here.grad_norm, "error": error}
        path = Path(model, full, params, folds, own_slopes)
        for suffix, root in (
            ("", np.eye(len(params))),
            ("_se", np.linalg.cholesky(np.asarray(full.metric))),
        ):
            found = path.constants(root)
            found |= {
                "applies": found["lambda_min"] > 0,
                "bound": found["C"] * found["distance"] + at_optimum,
            }
            rows[label] |= {f"{name}{suffix}": value for name, value in found.items()}
    return pd.DataFrame(rows).T.rename_axis("iterate")


def summary(table):
    """Violations and the median of bound over error among iterates to which the proposition
    applies, in both coordinates: a dict.
    """
    found = {}
    for suffix in ("", "_se"):
        rows = table[table[f"applies{suffix}"].astype(bool)]
        found[f"violated{suffix}"] = int((rows.error > rows[f"bound{suffix}"]).sum())
        found[f"tightness{suffix}"] = float(
            (rows[f"bound{suffix}"] / rows.error).astype(float).median()
        )
    return found


def convex_iterates(model, iterates, n):
    """At most n of an optimiser's iterates, evenly spread over the last ones at which the Hessian
    is positive definite; a dict by number. The optimum itself, where the distance is rounding, is
    left out.
    """
    decrements = np.array([fit_at(model, params).newton_decrement for params in iterates])
    good = np.isfinite(decrements) & (decrements > 1e-3)
    first = np.max(np.flatnonzero(~np.isfinite(decrements)), initial=-1) + 1
    tail = np.flatnonzero(good[first:]) + first
    chosen = np.unique(np.linspace(0, len(tail) - 1, n).round().astype(int)) if len(tail) else []
    return {int(tail[i]): iterates[tail[i]] for i in chosen}
