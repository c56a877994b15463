"""theta_o = argmin F(theta, w_o), continued from theta_hat: what other methods approximate."""

from contextlib import suppress
from typing import Any

import numpy as np
from joblib.parallel import get_active_backend
from scipy.linalg import solve_triangular

from ..checks import warn
from ..declared import NonNegative, declared
from ..derivatives import at, kept_share
from ..folds import WHOLE, Folds
from ..folds.sites import Known
from ..model import Refits
from ..parallel import pieces, spread
from ..results import TOLERANCE, AFit, CVResult, Fit, Run
from ..solvers.inverse import folds_at_once
from ..solvers.newton import lockstep, newton
from ..solvers.newton_cg import MAX_STEPS, newton_cg
from ..trials import UnconvergedFit
from ..weighting import unit_of

PARTS = 64  # for any number of workers, which thus changes no bit
NUDGE = 0.01  # standard errors off the start: no symmetry then leads a descent to a saddle
SETTLED = 1e-4  # standard errors from the optimum within which all folds may start
FEW = 4  # blocks of sites a parameter: so many scores tell which folds may be hollow
KEPT = 0.1  # of the fit's curvature along some direction: a fold that keeps less is hollow
SAID = 1e-10  # of the most that scores say of a direction: what they say less of is rounding
FLAT = 1e-12  # of the fit's curvature, up to which a fold's is rounding


@declared
def exact(fit: AFit, folds: Folds, tolerance: NonNegative = TOLERANCE) -> CVResult:
    """Refit each fold from the full fit until its Newton decrement is at most `tolerance`.

    A cold start may reach another local optimum, so exact means the continuation from the full fit;
    `from_scratch` starts anew.
    Steps are quasi-Newton steps from the full fit's Hessian, by gradients alone; Newton's method,
    with Hessians as in `newton_step`, refits the folds that meet negative curvature or do not
    converge by these, those that hold nearly all that is known of some direction of params, and all
    folds of an estimating equation or where Hessians are cheap. A fold without which a parameter is
    not identified is lost. Folds of a convex model start from the optimum of all data, even where
    the fit is not there yet. A decrement below 1e-9 is rounding. Standard errors are those of
    sample weights that are 1 in the mean, where theirs is less. Folds that did not converge are
    warned of once.

    Within `joblib.parallel_config("dask")` the workers of a cluster refit the folds in up to 64
    parts, whose params agree with those of one machine to the tolerance, and to the bit for any
    number of workers. `joblib.Memory(folder).cache(acv.exact)` keeps what is finished.

    diagnostics: decrement, steps, converged and, for an estimating equation, residual, |r| at the
    end; `indefinite`: whether the fold's last Hessian is, where it needed one.
    """
    run = Run("exact", fit, folds)

    def refit(folds: Folds) -> Refits:
        backend, _ = get_active_backend()
        if "dask" in type(backend).__module__:  # a cluster, which shares no memory with us
            refits = Refits.unfinished(len(folds), len(fit.params))
            parts = pieces(len(folds), -(-len(folds) // PARTS))
            tasks = [(fit, folds[part], tolerance) for part in parts]
            done = spread(refit_folds, tasks, "processes", "exact")
            for part, of_part in zip(parts, done, strict=True):
                refits.take(part, of_part)
        else:
            refits = refit_folds(fit, folds, tolerance)
        run.derivatives.defaults.check_refits(refits.params, folds)
        return refits

    return finished(run, run.each(refit))


def finished(run: Run, refits: Refits) -> CVResult:
    """The result of refits; warns of those that did not converge."""
    lost = ~refits.converged
    lost[list(run.lost)] = False
    if lost.any():
        count = f"{lost.sum()} of {len(run.folds)} folds did not converge"
        message = f"{run.method}: {count}; largest decrement {refits.decrement[lost].max():.2g}"
        warn(message, UnconvergedFit)
    diagnostics = {name: getattr(refits, name) for name in ("decrement", "steps", "converged")}
    if run.derivatives.is_equation:
        diagnostics["residual"] = refits.residual
    return run.finish(refits.params, refits.evaluations, refits.indefinite, **diagnostics)


def refit_folds(
    fit: Fit,
    folds: Folds,
    tolerance: float,
    starts: np.ndarray | None = None,
    looks: int | None = None,
) -> Refits:
    """Find every fold's own optimum, by the solver that suits the model.

    tolerance: as that of `exact`; starts: (n_folds, D) near the optima, in place of the fit's
    params; looks: at most so many steps, by gradients alone, where one wants to know what such
    steps come to.
    """
    derivatives = fit.derivatives
    tolerance = tolerance * unit_of(fit.model)
    own = derivatives.refits(fit.params, folds, tolerance)
    if own is not None:
        return own
    if derivatives.matrix_free:
        if starts is None:  # each fold's Newton step, in which all folds share work, if it descends
            before, gradients = derivatives.fold_gradients(fit.params, folds)
            moved = derivatives.fold_hessians(fit.params, folds).solve(gradients)
            after, _ = derivatives.fold_gradients(fit.params - moved, folds)
            starts = fit.params - np.where((after < before)[:, None], moved, 0.0)
        return newton_cg(derivatives, starts, folds, tolerance, looks or MAX_STEPS)
    start = fit.params
    if derivatives.defaults.convex and fit.newton_decrement > SETTLED:
        start = newton(derivatives, start, WHOLE, SETTLED).params[0]
    by_newton = derivatives.is_equation or fit.hessian.indefinite
    if starts is None:
        by_newton |= derivatives.hessians_first
    refits = Refits.unfinished(len(folds), len(start))
    if by_newton:
        for part in derivatives.portions(folds, len(start)):
            near = start if starts is None else starts[part]
            newton(derivatives, near, folds[part], tolerance, refits.part(part))
        return refits
    _by_gradients(fit, folds, tolerance, start if starts is None else starts, looks, refits)
    return refits


def _by_gradients(fit, folds, tolerance, starts, looks, refits):
    """Refit folds by quasi-Newton steps, and hollow ones and those left over by Newton's method.

    From starts (n_folds, D), or near one (D,) of all folds; writes to `refits`.
    """
    derivatives = fit.derivatives
    unit = unit_of(fit.model)
    n_params = len(fit.params)
    inverse = fit.hessian.solve(np.eye(n_params))
    if starts.ndim == 1:
        draws = np.random.default_rng(0).standard_normal(n_params)
        size = NUDGE * unit / np.linalg.norm(draws)
        starts = starts + size * solve_triangular(fit.hessian.factor[0], draws)
    doubtful = _doubtful(fit, folds, refits.evaluations)
    for part in pieces(len(folds), folds_at_once(n_params)):
        some, found = folds[part], refits.part(part)
        found.params[:] = at(starts, part)
        inverses = inverse / kept_share(fit.model, some)[:, None, None]
        doubts = np.flatnonzero(doubtful[part])
        hollow = np.zeros(len(some), bool)
        if doubts.size:
            refits.evaluations["hessian"] += doubts.size
            hollow[doubts] = _own_curvature(fit, some.part(doubts), inverses, doubts)
        rows: Any = np.flatnonzero(~hollow)
        if rows.size:
            solid = Refits.unfinished(len(rows), n_params)
            of_rows = found.params[rows], some[rows], tolerance, inverses[rows]
            lockstep(derivatives, *of_rows, solid, looks)
            found.take(rows, solid)
        left: Any = np.flatnonzero(hollow | ~found.converged & (looks is None))
        if left.size:  # what is near by a curvature of next to nothing may still be far
            near = min(tolerance, TOLERANCE * unit)
            steps = found.steps[left]
            found.take(left, newton(derivatives, found.params[left], some[left], near))
            found.steps[left] += steps


def _doubtful(fit, folds, evaluations):
    """Which folds may be hollow, (n_folds,): all where Hessians cost little, or scores are too few;
    else those of which scores of sites say so.

    Of a direction the scores, dF/dparams by the sites' weights, say the sum of their squares. They
    are summed over blocks of sites that are left out together.
    """
    sites = Known.of(fit.model).numbers
    most = FEW * len(fit.params)
    if len(sites) < most or fit.derivatives.hessians_first:
        return np.ones(len(folds), bool)
    evaluations["cross"] += 1
    first = np.full(fit.model.n_sites, len(folds))  # of the folds that omit a site
    np.minimum.at(first, folds.omitted.sites, np.repeat(np.arange(len(folds)), folds.sizes))
    sites = sites[np.argsort(first[sites], kind="stable")]
    ends = np.linspace(0, len(sites), most + 1).astype(int)[1:-1]
    ends = np.union1d(ends, 1 + np.flatnonzero(np.diff(first[sites])))
    blocks = Folds(np.split(sites, ends))
    scores = fit.derivatives.cross(fit.params, blocks)
    scores = solve_triangular(fit.hessian.factor[0], scores.T, trans="T").T
    shares, said, _ = np.linalg.svd(scores, full_matrices=False)
    if said[-1] <= SAID * said[0]:
        return np.ones(len(folds), bool)
    touched = folds.indicator(fit.model.n_sites) @ blocks.indicator(fit.model.n_sites).T
    rows = np.split(touched.indices, touched.indptr[1:-1])
    return np.array([np.linalg.norm(shares[row], 2) ** 2 > 1.0 - KEPT for row in rows])


def _own_curvature(fit, folds, inverses, rows):
    """Whether folds are hollow: keep less than KEPT of the fit's curvature along some direction.

    Writes the inverse Hessians of the others, at the fit's params, to these rows of `inverses`.
    Raises LinAlgError for a fold that alone identifies some parameter.
    """
    hessians = fit.derivatives.fold_hessians(fit.params, folds, 0.0, fit.hessian)
    upper = fit.hessian.factor[0]
    own = inverses[rows]
    curvatures = np.zeros((len(folds), len(upper)))
    with suppress(np.linalg.LinAlgError):  # whose curvatures stay 0
        own = hessians.inverses(len(upper))
        curvatures = 1.0 / np.linalg.eigvalsh(upper @ own @ upper.T)
    if (flat := (abs(curvatures) <= FLAT).any(axis=1)).any():
        alone = f"without {folds.name(np.argmax(flat))}, which alone identifies some parameter"
        remedy = "leave it in, or add a penalty or a prior"
        raise np.linalg.LinAlgError(f"the Hessian is singular {alone}: {remedy}")
    hollow = curvatures.min(axis=1) < KEPT
    inverses[rows[~hollow]] = own[~hollow]
    return hollow
