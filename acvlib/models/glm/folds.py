"""All folds of a `GLM` around one fit: the infinitesimal jackknife, Newton steps and chords in closed form.

Leaving out the sites o changes the Hessian at theta_hat by a few outer products,

    H(w_o) = H - X_o' diag(s curvature) X_o - t_o P,      t_o = site_penalty sum_o s_n,

so that single sites need one inverse for all (Sherman and Morrison) and larger folds a block downdate each.
"""

from functools import cached_property

import numpy as np
from numba import njit

from ...folds import indicator, is_table
from ...parallel import blas_for, in_threads, pieces, shares

ROWS = 512  # sites handled together: their rows stay in the cache
SINGULAR = 1e-12  # share of the curvature in some direction that a fold may leave


class Expansion:
    """What a fit of a GLM is expanded in: eta, s slope and s curvature (n,), gradient (D,) and H (D, D)."""

    def __init__(self, fast, fit):
        self.params, self.hessian = fit.params, fit.metric
        self.eta, self.beta = fast.eta(fit.params), fast.penalised * fit.params
        self.slopes = fast.s * fast.family.slope(self.eta, fast.y)
        self.curvature = fast.s * fast.family.curvature(self.eta, fast.y)
        self.gradient = self.slopes @ fast.x + fast.ridge(fast.s.sum()) * self.beta
        self.pull = (
            fast.model.site_penalty * self.beta
        )  # what a unit of a site's weight adds to the gradient


def left_out_weight(s, folds):
    """The sample weight that each fold leaves out, (n_folds,)."""
    return s[folds].sum(axis=1) if is_table(folds) else np.array([s[fold].sum() for fold in folds])


def shared_gradients(fast, params, folds):
    """`fold_gradients` where every fold has the same params (D,): one gradient, less each fold's own terms."""
    value, gradient = fast.value_and_gradient(params, np.ones(len(fast.y)))
    eta, beta = fast.eta(params), fast.penalised * params
    drop = indicator(folds, len(fast.y))
    light = fast.model.site_penalty * left_out_weight(fast.s, folds)
    own = drop @ (fast.s * fast.family.loss(eta, fast.y)) + 0.5 * light * (beta @ beta)
    slopes = fast.s * fast.family.slope(eta, fast.y)
    return value - own, gradient - drop @ (slopes[:, None] * fast.x) - light[:, None] * beta


def jackknife_params(fast, fit, folds, damping):
    """theta + H^-1 sum_o (s slope x + s site_penalty beta), (n_folds, D)."""
    at = Expansion(fast, fit)
    inverse = np.linalg.inv(at.hessian + damping * np.eye(len(at.hessian)))
    pull = inverse @ at.pull
    if _single(folds):
        flat = np.zeros_like(at.slopes)
        return rank_one(fast, folds[:, 0], inverse, at.slopes, flat, fit.params, 0.0 * pull, pull)[
            0
        ]
    left_out = indicator(folds, len(at.slopes)) @ (at.slopes[:, None] * fast.x)
    return fit.params + left_out @ inverse + left_out_weight(fast.s, folds)[:, None] * pull


def _single(folds):
    return is_table(folds) and folds.shape[1] == 1


def rank_one(fast, sites, inverse, slopes, curvature, params, centre, pull):
    """(params (n_folds, D), 1 - leverage, change of the site's own eta (n_folds,)) of single sites.

    By one matrix product for all. With z = inverse x and leverage = curvature x'z, the params are
    params + z (slope + curvature x'c) / (1 - leverage) + c,
    where c = centre + s pull is what the step has besides the site's own slope.
    """
    out, spare, change = np.empty((len(sites), len(params))), *np.empty((2, len(sites)))
    first = (
        sites[0] if (np.diff(sites) == 1).all() else None
    )  # of consecutive sites, whose rows need not be copied

    def steps(share):
        for cut in pieces(share.stop, ROWS, share.start):
            rows = sites[cut] if first is None else slice(first + cut.start, first + cut.stop)
            x, s = fast.x[rows], fast.s[rows]
            np.matmul(x, inverse, out=out[cut])
            _finish_steps(
                out[cut],
                spare[cut],
                change[cut],
                x,
                s,
                slopes[rows],
                curvature[rows],
                params,
                centre,
                pull,
            )

    in_threads(steps, shares(len(sites), out.size * len(params)))
    check_spare(spare, "site", sites)
    return out, spare, change


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _finish_steps(z, spare, change, x, s, slopes, curvature, params, centre, pull):
    for n in range(len(z)):
        size = along = pulled = 0.0
        for d in range(len(params)):
            size += z[n, d] * x[n, d]
            along += x[n, d] * centre[d]
            pulled += x[n, d] * pull[d]
        spare[n] = 1.0 - curvature[n] * size
        along += s[n] * pulled
        length = (slopes[n] + curvature[n] * along) / spare[n]
        change[n] = length * size + along
        for d in range(len(params)):
            z[n, d] = params[d] + length * z[n, d] + centre[d] + s[n] * pull[d]


def downdates(fast, at, folds, damping=0.0):
    """The Hessians of the folds around an `Expansion`: `SingleSites` for one site a fold, `Blocks` otherwise."""
    return (SingleSites if _single(folds) else Blocks)(fast, at, folds, damping)


class SingleSites:
    """H(w_n) for single sites n: a rank-one downdate of one inverse for each distinct sample weight."""

    def __init__(self, fast, at, folds, damping):
        self.fast, self.at, self.sites, self.damping = fast, at, folds[:, 0], damping
        shift = fast.model.site_penalty * fast.s[self.sites]
        values = np.unique(shift)  # one value where site_penalty = 0
        self.groups = [(np.flatnonzero(shift == t), self._inverse(t)) for t in values]

    def _inverse(self, shift):
        """[H - shift P + damping I]^-1."""
        diagonal = self.damping - shift * self.fast.penalised
        with blas_for(len(diagonal) ** 3):
            return np.linalg.inv(self.at.hessian + np.diag(diagonal))

    def newton(self):
        """(params (n_folds, D), lower bounds of the smallest eigenvalues, held-out losses (n_folds, 1))."""
        parts = [self._group_newton(folds, inverse) for folds, inverse in self.groups]
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate([folds for folds, _ in self.groups]))
        return tuple(np.concatenate(part)[order] for part in zip(*parts, strict=True))

    def _group_newton(self, folds, inverse):
        at, sites = self.at, self.sites[folds]
        steps = -inverse @ at.gradient, inverse @ at.pull
        params, spare, change = rank_one(
            self.fast, sites, inverse, at.slopes, at.curvature, at.params, *steps
        )
        heldout = self.fast.family.loss(at.eta[sites] + change, self.fast.y[sites])
        with blas_for(inverse.size * len(inverse)):
            return params, spare / np.linalg.eigvalsh(inverse)[-1], heldout[:, None]

    def solve(self, vectors, rows):
        """H(w_o)^-1 vectors for the folds numbered `rows`."""
        out = np.empty_like(vectors)
        for folds, inverse in self.groups:
            mine = np.isin(rows, folds) if len(self.groups) > 1 else slice(None)
            out[mine] = self._group_solve(vectors[mine], self.sites[rows[mine]], inverse)
        return out

    def _group_solve(self, vectors, sites, inverse):
        x, solved, curvature = self.fast.x[sites], vectors @ inverse, self.at.curvature[sites]
        z = x @ inverse
        along = np.einsum("nd,nd->n", solved, x)
        spare = 1.0 - curvature * np.einsum("nd,nd->n", z, x)
        return solved + (curvature * along / spare)[:, None] * z


def check_spare(spare, kind, numbers):
    """Raises LinAlgError for the first site or fold without which the Hessian is singular."""
    if (spare < SINGULAR).any():
        raise np.linalg.LinAlgError(
            f"the Hessian is singular without {kind} {numbers[np.argmax(spare < SINGULAR)]}, which alone identifies "
            "some parameter: leave it in, or pass penalty > 0"
        )


class Blocks:
    """H(w_o) of folds of any size: the inverse of each block downdate."""

    def __init__(self, fast, at, folds, damping):
        self.fast, self.at, self.folds, self.damping = fast, at, folds, damping

    @cached_property
    def eigen(self):
        """Eigenvalues (n_folds, D) and vectors (n_folds, D, D)."""
        values, vectors = np.linalg.eigh(np.array([self._downdated(fold) for fold in self.folds]))
        check_spare(values[:, 0] / values[:, -1], "fold", np.arange(len(values)))
        return values, vectors

    def _downdated(self, fold):
        x, fast = self.fast.x[fold], self.fast
        diagonal = self.damping - fast.model.site_penalty * fast.s[fold].sum() * fast.penalised
        return self.at.hessian - (x.T * self.at.curvature[fold]) @ x + np.diag(diagonal)

    def newton(self):
        """(params (n_folds, D), smallest eigenvalues, None: held-out losses are not at hand)."""
        _, gradients = shared_gradients(self.fast, self.at.params, self.folds)
        return (
            self.at.params - self.solve(gradients, np.arange(len(self.folds))),
            self.eigen[0][:, 0],
            None,
        )

    def solve(self, vectors, rows):
        """H(w_o)^-1 vectors for the folds numbered `rows`."""
        values, basis = (part[rows] for part in self.eigen)
        return np.einsum("nij,nj->ni", basis, np.einsum("nji,nj->ni", basis, vectors) / values)
