"""Whether a fit of the traffic model ended at an optimum, and if its prior pulls there."""

import warnings
from dataclasses import replace

import numpy as np

from ...derivatives import derivatives_of
from .prior import TrafficPrior

FAR = 12.0  # from the start: rates, odds or an excess e^12 times what the counts suggest
FLAT = 1e-9  # of the largest curvature: what rounding leaves of none
PULL = 0.1  # standard errors that a prior which nobody chose may move an optimum
AT_OPTIMUM = 1e-5  # standard errors from it
SUGGESTED_PRIOR = (
    "TrafficPrior((2.0, 0.1), 1.5, (2.0, 0.5), (2.0, 0.5), stay_quiet=(20.0, 2.0), "
    "stay_event=(4.0, 2.0))"
)


def check_optimum(model, params: np.ndarray) -> None:
    """Raise ValueError where the density has no maximum; warn of a default prior that pulls."""
    ones = np.ones(model.n_sites)
    hessian = np.asarray(derivatives_of(model).hessian(params, ones))
    curvatures = np.linalg.eigvalsh(hessian) if np.isfinite(hessian).all() else np.zeros(1)
    if curvatures[0] <= FLAT * curvatures[-1]:
        if np.abs(params - model.initial_params()).max() > FAR:
            raise ValueError(_runs_on(model.n_sites, model.unpack(params)))
        return
    _, gradient = derivatives_of(model).value_and_gradient(params, ones)
    if gradient @ np.linalg.solve(hessian, gradient) < AT_OPTIMUM**2:
        _warn_of_prior(model.prior, params, hessian)


def _runs_on(n_sites, named):
    rates, a, b, stay = named
    return (
        f"the posterior density has no maximum: it rises on towards rates {rates.min():.2g} ... "
        f"{rates.max():.2g}, excess_shape {a:.2g}, excess_rate {b:.2g}, stay {stay[0]:.6g} and "
        f"{stay[1]:.6g}. These {n_sites} counts do not tell events from quiet steps: take a longer "
        f"series, or a prior such as {SUGGESTED_PRIOR}"
    )


def _warn_of_prior(prior, params, hessian):
    flat = TrafficPrior((1.0, 0.0), 1.0, (1.0, 0.0), (1.0, 0.0))
    pulls, wider = [], []
    for name in ("base_rate", "excess_shape", "excess_rate"):
        law = getattr(prior, name)
        alone = replace(flat, **{name: law}).gradient(params)
        pull = np.sqrt(alone @ np.linalg.solve(hessian, alone))
        if law == getattr(TrafficPrior, name) and pull >= PULL:
            pulls.append(f"{name} = {law} by {pull:.2g}")
            wider.append(f"{name}={(law[0], law[1] / 10.0)}")
    if pulls:
        warnings.warn(
            f"the default prior moves the optimum, in standard errors: {', '.join(pulls)}: widen "
            f"it, TrafficPrior({', '.join(wider)}), or give one that you mean",
            stacklevel=5,
        )
