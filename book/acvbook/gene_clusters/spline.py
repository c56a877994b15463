"""The regression basis of the genomics model: a spline for early times, levels for late ones."""

import numpy as np
from scipy.interpolate import BSpline

DEGREE = 3


def spline_basis(hours: np.ndarray, df: int, n_levels: int = 3) -> np.ndarray:
    """B-splines of degree 3 in all but the last `n_levels` times, an indicator of each of those.

    hours (n_times,) ascending; df >= 4: the splines' degrees of freedom, intercept included; df - 4
    inner knots are equally spaced. Returns (n_times, df + n_levels), whose span holds the constant.
    Raises ValueError for too few times. Source: Giordano et al. (2019), Section 6.
    """
    hours = np.asarray(hours, float)
    early = hours[: len(hours) - n_levels]
    if df <= DEGREE or len(early) < df or not (np.diff(hours) > 0).all():
        raise ValueError(
            f"df = {df} needs to be at least {DEGREE + 1} and at most the number of early times, "
            f"{len(early)}, which must be distinct and ascending: lower df or n_levels"
        )
    basis = np.zeros((len(hours), df + n_levels))
    inner = np.linspace(early[0], early[-1], df - DEGREE + 1)
    knots = np.pad(inner, DEGREE, mode="edge")
    basis[: len(early), :df] = BSpline.design_matrix(early, knots, DEGREE).toarray()
    basis[len(early) :, df:] = np.eye(n_levels)
    return basis
