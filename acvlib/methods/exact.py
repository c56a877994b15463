"""theta_o = argmin F(theta, w_o), continued from theta_hat: what other methods approximate."""

from ..checks import real_number, warn
from ..derivatives import is_equation
from ..fit import TOLERANCE, UnconvergedFit
from ..folds import Folds
from ..model import Refits
from ..parallel import has_machines
from ..results import CVResult, Fit
from .refits import refit_folds, refit_in_parts
from .run import Run


def exact(fit: Fit, folds: Folds, tolerance: float = TOLERANCE) -> CVResult:
    """Refit each fold from the full fit until its Newton decrement is at most `tolerance`.

    A cold start may reach another local optimum, so exact means the continuation from the full fit;
    `from_scratch` starts anew.
    Steps are quasi-Newton steps from the full fit's Hessian, by gradients alone; Newton's method,
    with Hessians as in `newton_step`, refits the folds that meet negative curvature or do not
    converge by these, and all folds where the model has their Hessians cheaply. Folds of a convex
    model start from the optimum of all data, even where the fit is not there yet. A decrement below
    1e-9 is rounding. Folds that did not converge are warned of once.

    Within `joblib.parallel_config("dask")` the workers of a cluster refit the folds in up to 64
    parts, whose params agree with those of one machine to the tolerance, and to the bit for any
    number of workers. `joblib.Memory(folder).cache(acv.exact)` keeps what is finished.

    diagnostics: decrement, steps, converged and, for an estimating equation, residual, |r| at the
    end; `indefinite`: whether the fold's last Hessian is, where it needed one.
    """
    tolerance = real_number("tolerance", tolerance, least=0.0)
    run = Run("exact", fit, folds, tolerance=tolerance)
    solve = refit_in_parts if has_machines() else refit_folds

    def refit(folds):
        found = solve(fit, folds, tolerance)
        run.derivatives.defaults.check_refits(found.params, folds)
        return found

    return finished(run, run.each(refit))


def finished(run: Run, found: Refits) -> CVResult:
    """The result of refits; warns of those that did not converge."""
    lost = ~found.converged
    lost[list(run.lost)] = False
    if lost.any():
        count = f"{lost.sum()} of {len(run.folds)} folds did not converge"
        message = f"{run.method}: {count}; largest decrement {found.decrement[lost].max():.2g}"
        warn(message, UnconvergedFit)
    diagnostics = {name: getattr(found, name) for name in ("decrement", "steps", "converged")}
    if is_equation(run.fit.model):
        diagnostics["residual"] = found.residual
    return run.finish(found.params, found.evaluations, found.indefinite, **diagnostics)
