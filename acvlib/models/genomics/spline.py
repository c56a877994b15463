"""The regression basis of the genomics model: a smooth spline for the early times, a level each for the last ones."""

import numpy as np
from scipy.interpolate import BSpline

DEGREE = 3


def spline_basis(hours, df, n_levels=3):
    """B-splines of degree 3 in all but the last `n_levels` times, and an indicator for each of these.

    hours (n_times,) ascending; df >= 4: the splines' degrees of freedom, intercept included; df - 4 inner knots are
    equally spaced. Returns (n_times, df + n_levels). The gene's additive offset lies in its span, and the clustering
    takes it out. Raises ValueError for fewer times than basis functions. Source: Giordano et al. (2019), Section 6.
    """
    hours = np.asarray(hours, float)
    early = hours[: len(hours) - n_levels]
    if df <= DEGREE or len(early) < df or not (np.diff(hours) > 0).all():
        raise ValueError(
            f"df = {df} needs to be at least {DEGREE + 1} and at most the number of early times, {len(early)}, "
            "which must be distinct and ascending: lower df or n_levels"
        )
    basis = np.zeros((len(hours), df + n_levels))
    basis[: len(early), :df] = BSpline.design_matrix(early, _knots(early, df), DEGREE).toarray()
    basis[len(early) :, df:] = np.eye(n_levels)
    return basis


def _knots(times, df):
    inner = np.linspace(times[0], times[-1], df - DEGREE + 1)
    return np.concatenate([[times[0]] * DEGREE, inner, [times[-1]] * DEGREE])
