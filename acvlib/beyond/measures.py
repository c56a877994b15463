"""What each site does to a fit: its leverage, Cook's distance, dfbetas; and linear conclusions."""

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.numpy.numpy_boxes import ArrayBox
from autograd.tracer import Node, trace
from scipy.linalg import solve_triangular

from ..checks import require
from ..declared import declared
from ..folds import leave_one_out
from ..folds.sites import Known
from ..methods.ladder import newton_step
from ..models import GLM
from ..results import AFit
from .certify.verified import NotCertified

NUDGE = 1e-4  # standard errors, over which derivatives of sites are differences
# What is linear in all that it is applied to, and what is so in one of two.
SUMS = {ArrayBox.__getitem__, anp.add, anp.subtract, anp.negative, anp.sum}
SCALES = {anp.multiply, anp.dot, anp.matmul, anp.divide, anp.true_divide}


@declared
def influence(fit: AFit) -> Any:
    """Tabulate what each site does to a fit, as `get_influence` of statsmodels does.

    A DataFrame, one row an observed site, by its name if it has one. leverage: tr H^-1 H_n, H_n the
    curvature of site n; cooks_distance: d' H d / (D s2), d the change of params by a step without
    the site; dfbetas_0, ...: d over standard errors, those at the fit. s2 is 1 but for a gaussian
    GLM, whose losses have variance 1: there it is the variance of the residuals, and in dfbetas
    that without the site. Of a gaussian, logistic or Poisson GLM without penalty these are
    statsmodels' numbers; elsewhere its Cook's distance is another formula.

    Raises
    ------
    TypeError : an `EstimatingEquation`, or a model whose Hessian is not formed
    ValueError : a GLM of several targets; a `PairwiseLinear`, of which no point has a loss alone

    Source: Cook (1977); Belsley, Kuh and Welsch (1980); Pregibon (1981).
    """
    model, derivatives = fit.model, fit.derivatives
    if derivatives.is_equation or derivatives.matrix_free:
        raise TypeError("leverages are those of a Model whose Hessian is in memory")
    if isinstance(model, GLM) and model.y.ndim > 1:
        raise ValueError("y has several targets: fit a GLM to each")
    fit.warn_unconverged("influence")
    known = Known.of(model)
    sites = known.numbers
    directions = solve_triangular(fit.hessian.factor[0], np.eye(len(fit.params)))
    errors = np.linalg.norm(directions, axis=1)
    leverage = _leverages(fit, directions)[sites]
    moved = newton_step(fit, leave_one_out(model)).params
    distance = fit.standard_errors_between(fit.params, moved) ** 2
    variance, without = _variances(model, fit.params, sites, leverage)
    columns = {"leverage": leverage, "cooks_distance": distance / (len(errors) * variance)}
    scaled = (fit.params - moved) / (errors * np.sqrt(without)[:, None])
    columns |= {f"dfbetas_{j}": scaled[:, j] for j in range(len(errors))}
    pandas = require("pandas", extra="tables")
    names = pandas.Index(sites, name="site") if known.index is None else known.names
    return pandas.DataFrame(columns, names)


def _leverages(fit, directions):
    """tr H^-1 H_n (n,): the sum over directions, orthonormal in H, of the sites' curvatures."""
    if hasattr(fit.derivatives, "traces") and not fit.model.balanced:
        return fit.derivatives.traces(fit)[0]
    weights = np.ones(fit.model.n_sites)
    total = np.zeros(len(weights))
    for direction in directions.T:
        ahead = fit.derivatives.cross_matrix(fit.params + NUDGE * direction, weights)
        behind = fit.derivatives.cross_matrix(fit.params - NUDGE * direction, weights)
        total += direction @ (ahead - behind) / (2.0 * NUDGE)
    return total


def _variances(model, params, sites, leverage):
    """(s2, s2 without each site): of the residuals of a gaussian GLM, 1 of any other model."""
    if not isinstance(model, GLM) or model.family.name != "gaussian":
        return 1.0, np.ones(len(sites))
    residuals = (model.y - model.predictors(model.columns.inward(params))[0])[sites]
    squares = model.sample_weight[sites] * residuals**2
    freedom = len(sites) - len(params)
    if freedom < 2:
        raise ValueError(f"{len(sites)} rows, {len(params)} parameters: no residual variance")
    without = (squares.sum() - squares / (1.0 - leverage)) / (freedom - 1)
    return squares.sum() / freedom, without


def check_linear(phi: Callable, params: np.ndarray) -> None:
    """Raise NotCertified unless every operation of phi on params (D,) is known to be linear.

    Nothing is sampled: autograd hands over each operation, a comparison or a rounding as well. It
    does not see what phi reads of params as a truth value or a text.
    """
    trace(_Linear.new_root(), phi, params)


class _Linear(Node):
    """A result within phi, of an operation on results at some places among its arguments."""

    def initialize_root(self):
        pass

    def __init__(self, value, fun, args, kwargs, places, parents):
        above = fun not in {anp.divide, anp.true_divide} or places == (0,)
        known = fun in SUMS or (fun in SCALES and len(places) == 1 and above)
        bare = {name for name, given in kwargs.items() if given is not None} <= {"axis", "keepdims"}
        if not (known and bare and np.result_type(value).char == "d"):  # no dtype that rounds
            name = fun.__name__
            raise NotCertified(f"certify: phi may not be linear, it uses {name}: bound c @ params")
