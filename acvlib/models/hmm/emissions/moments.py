"""Sums of a linear regression's residuals over frames, in each state: all that a Gaussian needs."""

from functools import cached_property
from typing import Any

import numpy as np

from ..sequences import Frames
from .base import likely

ENOUGH = 1e-9  # an expected count that second derivatives take: see `curvature.THRESHOLD`


def residual(weights: Any, frames: Frames, has_lags: bool) -> Any:
    """x - W y (n, R) of one state's weights (R, q), 0 where missing; differentiable."""
    if has_lags:
        return frames.x - frames.design @ weights.T
    gap = frames.x - weights[:, 0]
    gap *= frames.seen
    return gap


class Moments:
    """Sums over frames, weighted by how often each is expected in each state, of gaps x - W y.

    count (K, 1), or (K, R) where channels may be missing; squares (K, R), or (K, R, R) if full;
    met (K, R, q): with y; gram (K, 1, q, q) or (K, R, 1, 1): of y with itself.
    """

    def __init__(self, weights: Any, frames: Frames, mass: Any, has_lags: bool, is_full: bool):
        self.weights = weights
        self._kind = has_lags, is_full
        self._parts = [(frames.rows(used), counts) for used, counts in likely(mass)]
        by_channel = not has_lags and not is_full
        self.count = mass.T @ frames.seen if by_channel else mass.sum(axis=0)[:, None]
        self.squares, self.met = self.summed(weights)

    def summed(self, weights: Any) -> tuple[np.ndarray, np.ndarray]:
        """(squares, met) of x - V y, of weights V, from the frames: exact however far V is."""
        has_lags, is_full = self._kind
        by_pair = "nr,ns->rs" if is_full else "nr,nr->r"
        squares, met = [], []
        for own, (part, counts) in zip(weights, self._parts, strict=True):
            gap = residual(own, part, has_lags)
            weighted = counts[:, None] * gap
            met.append(weighted.T @ part.design if has_lags else counts @ gap)
            squares.append(np.einsum(by_pair, weighted, gap, optimize=is_full))
        return np.array(squares), np.reshape(met, weights.shape)

    @cached_property
    def gram(self) -> np.ndarray:
        if self.weights.shape[2] == 1:
            return self.count[:, :, None, None]
        grams = []
        for part, counts in self._parts:
            used = abs(counts) > ENOUGH
            y, counts = part.design[used], counts[used]
            grams.append((y.T * counts) @ y)
        return np.array(grams)[:, None]

    def about(self, weights: Any) -> tuple[np.ndarray, np.ndarray]:
        """The same of weights V nearby, real or complex, from the sums."""
        d = weights - self.weights
        if not d.any():
            return self.squares, self.met
        met = self.met - np.squeeze(d[:, :, None] @ self.gram, 2)
        if self._kind[1]:
            lost = self.met @ d.swapaxes(1, 2)
            return self.squares - lost - d @ met.swapaxes(1, 2), met
        return self.squares - np.einsum("krq,krq->kr", d, self.met + met), met
