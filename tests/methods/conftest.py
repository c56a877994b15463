"""Fits, folds and exact refits that the tests of all methods share."""

from ladder_cases import fits, traffic_exact, traffic_fit, traffic_folds

__all__ = ["fits", "traffic_exact", "traffic_fit", "traffic_folds"]
