"""Each site given those before it, by steps between refits at a few of them.

F_t is the objective of what comes before origin t, and g_t its gradient; one forward pass at any
params gives g_t of all t. Between refits at a and b, s of the way, with H_s between H_a and H_b:

    theta_t = (1 - s) (theta_a - H_s^-1 g_t(theta_a)) + s (theta_b - H_s^-1 g_t(theta_b))

The two steps agree where both are right: their difference estimates the error, and says where the
next refit is needed. Scores are expanded about theta_a and theta_b, and mixed in the same shares.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from ..checks import check_whole, warn
from ..declared import declared
from ..fit import TOLERANCE
from ..folds import STARTS, Folds
from ..folds import leave_future_out as future_folds
from ..folds import weights as fold_weights
from ..folds.sites import Known, as_fold
from ..methods.exact import refit_folds
from ..parallel import one_blas_thread
from ..results import AFit, Fit
from ..scores import HeldOutLosses
from .prefixes import futures

LIMIT = 0.5  # standard errors: a larger estimate asks for another refit


class UnreliableOrigins(UserWarning):
    """The refits that were allowed leave some origins too far from their own."""


@dataclass(frozen=True, eq=False, repr=False)
class FutureLosses(HeldOutLosses):
    """Held-out losses of n origins, as of `exact` on `folds()`, and the params behind them.

    losses: -log p(x_t | past) of each scored site, origin by origin: (n,) of a single sequence;
    sites (n, N): what an origin scores of each of N sequences, -1 where it scores none; params
    (n, D); errors (n,): the estimated distance from the refit, in standard errors of the full fit;
    refitted (n,) bool.
    """

    fit: Fit = field(repr=False)
    starts: np.ndarray = field(repr=False)
    sites: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    params: np.ndarray = field(repr=False)
    errors: np.ndarray = field(repr=False)
    refitted: np.ndarray = field(repr=False)
    seconds: float
    evaluations: Counter

    method = "leave_future_out"

    @property
    def n_sites(self) -> int:
        """How many sites the model has."""
        return self.fit.model.n_sites

    @property
    def n_folds(self) -> int:
        """How many folds there are."""
        return len(self.starts)

    @property
    def _is_unreliable(self):
        return ~(self.errors <= LIMIT)

    @property
    def _pairs(self):
        scored = self.sites >= 0
        return np.nonzero(scored)[0], self.sites[scored], self.losses

    def folds(self, rows: Any = slice(None)) -> Folds:
        """The `Folds` of some origins, for exact refits; those of all may fill the memory."""
        return _folds(self.fit.model, self.starts[rows])


def _lengths(model):
    """Of the sequences, in sites; a model without frames is one."""
    frames = getattr(model, "frames", None)
    return np.array([model.n_sites]) if frames is None else np.diff(frames.starts)


def _folds(model, starts):
    return future_folds(model, starts, 1, lengths=_lengths(model))


class _Anchor(NamedTuple):
    params: np.ndarray
    hessian: np.ndarray
    prior: np.ndarray  # gradient of minus the log prior


def _part(futures, part):
    return type(futures)(*(each[part] for each in futures))


def _moved(futures, moves):
    """log p (n, N) after moves (n, D) of params, to first order."""
    return futures.log_p + np.einsum("nsd,nd->ns", futures.slopes, moves)


@declared
def leave_future_out(fit: AFit, starts: Sequence[int], anchors: int = 8) -> FutureLosses:
    """Score each site t in `starts` given all sites before it.

    For an `HMM` with sites="steps", and `PoissonTraffic`. The losses are those of `exact` on
    `folds.leave_future_out(n_sites, starts, 1, lengths=lengths)`, for the price of at most
    `anchors` refits and as many passes through the series. Of several sequences t counts from the
    beginning of each, and all lose their futures together, as in a panel: site t of each is scored
    given what all sequences have before t, also those that end there. Half of the refits are spread
    evenly; the others go where the estimated error is above half a standard error and largest.
    Warns `UnreliableOrigins` where some remain. For windows or a gap: `exact` on such folds.

    Raises
    ------
    ValueError : starts that do not ascend, are observed nowhere, or come too early for a fit
    TypeError : a model that is no series in time
    """
    started = time.perf_counter()
    fit.warn_unconverged("leave_future_out")
    origins = _Origins(fit, starts)
    n = len(origins.starts)
    anchors = check_whole("anchors", anchors, min(n, 2))
    first = np.linspace(0, n - 1, max(2, -(-anchors // 2)))
    origins.refit(np.unique(first.astype(int)))
    while origins.tried.sum() < anchors and (origins.open > LIMIT).any():
        origins.refit(origins.worst(anchors - origins.tried.sum()))
    return origins.result(time.perf_counter() - started)


class _Origins:
    """What is known of every origin so far."""

    def __init__(self, fit, starts):
        self.derivatives = fit.derivatives
        self.n_sites = fit.model.n_sites
        self.fit = fit
        self.observed = Known.of(fit.model).observed
        self.starts = as_fold(starts, "starts", 1, STARTS)
        self._check()
        n = len(self.starts)
        self.params = np.empty((n, len(fit.params)))
        self.log_p = np.empty(self.sites.shape)
        self.errors = np.zeros(n)
        self.tried = np.zeros(n, bool)
        self.anchors = {}  # of the tried rows, those whose refits converged
        self.evaluations = Counter()

    @property
    def open(self):
        """The errors, but 0 where a refit was tried."""
        return np.where(self.tried, 0.0, self.errors)

    def _check(self):
        if not len(self.starts):
            raise ValueError("no starts: give the sites to score")
        if (np.diff(self.starts) <= 0).any():
            raise ValueError("starts must ascend, each a site of its own")
        futures(self.derivatives, self.fit.params, np.ones(1, int))  # is it a series?
        ends = _folds(self.fit.model, self.starts[[0, -1]])  # the last one is a site, too
        if self.derivatives.matrix_free:
            n_params = len(self.fit.params)
            raise ValueError(f"{n_params} parameters: raise dense_limit, to form Hessians")
        times, lengths = self.starts[:, None], _lengths(self.fit.model)
        self.sites = np.where(times < lengths, np.cumsum(lengths) - lengths + times, -1)
        self.sites[~self.observed[self.sites]] = -1
        missing = self.starts[(self.sites < 0).all(axis=1)]
        if missing.size:
            raise ValueError(f"{missing.size} starts are not observed, such as {missing[0]}")
        self.derivatives.defaults.check_folds(ends[:1])  # later ones leave more

    def worst(self, n_more: int):
        """Rows with the largest errors above the limit, at most one between two refits."""
        errors = self.open
        rows = np.array([a + np.argmax(errors[a : b + 1]) for a, b in pairwise(self._ends())])
        rows = rows[np.argsort(-errors[rows], kind="stable")[:n_more]]
        return np.sort(rows[errors[rows] > LIMIT])

    def _ends(self):
        """The rows that have been refitted; a single one counts as both ends."""
        rows = sorted(self.anchors)
        return rows if len(self.starts) > 1 else rows * 2

    def refit(self, rows):
        """Refit some rows, and step to all others anew. The first and the last must converge."""
        self.tried[rows] = True
        labels = [f"from {start} on" for start in self.starts[rows]]
        folds = replace(_folds(self.fit.model, self.starts[rows]), labels=labels)
        found = refit_folds(self.fit, folds, TOLERANCE)
        good = np.flatnonzero(found.converged)
        self.derivatives.defaults.check_refits(found.params, folds)
        self.evaluations.update({"refit": len(folds), "hessian": len(good)})
        for i in good:
            hessian = self.derivatives.hessian(
                found.params[i], fold_weights(self.n_sites, folds[i])
            )
            _, prior = self.derivatives.value_and_gradient(found.params[i], np.zeros(self.n_sites))
            if not hessian.indefinite:
                self.anchors[int(rows[i])] = _Anchor(found.params[i], np.asarray(hessian), prior)
        for end in {0, len(self.starts) - 1}.difference(self.anchors):
            start = self.starts[end]
            (n_after,) = _folds(self.fit.model, [start]).sizes
            sites = f"the {self.observed.sum() - n_after} sites before {start}"
            raise ValueError(f"no refit to {sites} ends at one optimum: start later, or simplify")
        self._step()

    def _step(self):
        """Params, errors and scores of all origins."""
        ends = self._ends()
        reach = [ends[0], *ends, ends[-1]]
        before = None
        for i, end in enumerate(ends):
            served = self.starts[reach[i] : reach[i + 2] + 1]
            at_end = futures(self.derivatives, self.anchors[end].params, served)
            if i > 0:
                here = _part(at_end, slice(end - reach[i] + 1))
                # threads would wait for each other, a column a parameter
                with one_blas_thread.inside():
                    self._between(ends[i - 1], end, before, here)
            before = _part(at_end, slice(end - reach[i], None))
        self.evaluations["pass"] += len(ends)

    def _between(self, first, last, at_a, at_b):
        """The origins between two refits, given the futures at both's params: the equation on top.

        H_s^-1 = V diag(scale) V', as V'H_a V = I and V'H_b V = diag(curvature).
        """
        a = self.anchors[first]
        b = self.anchors[last]
        curvature, V = eigh(b.hessian, a.hessian)
        rows = slice(first, last + 1)
        starts = self.starts[rows, None]
        s = (starts - starts[0]) / max(starts[-1] - starts[0], 1)
        scale = 1.0 / (1.0 - s + s * curvature)
        g_a = (a.prior - at_a.gradient) @ V
        g_b = (b.prior - at_b.gradient) @ V
        step = (scale * ((1.0 - s) * g_a + s * g_b)) @ V.T
        params = (1.0 - s) * a.params + s * b.params - step
        apart = b.params - a.params - (scale * (g_b - g_a)) @ V.T
        distance = self.fit.standard_errors_between(apart, 0.0)
        from_a = _moved(at_a, params - a.params)
        from_b = _moved(at_b, params - b.params)
        self.params[rows] = params
        self.errors[rows] = (4.0 * s * (1.0 - s))[:, 0] * distance
        self.log_p[rows] = from_a + s * (from_b - from_a)
        for row, anchor, log_p in ((last, b, at_b.log_p[-1]), (first, a, at_a.log_p[0])):
            self.params[row], self.log_p[row] = anchor.params, log_p

    def result(self, seconds: float):
        """The `FutureLosses`; warns of errors above the limit."""
        bad = self.errors > LIMIT
        if bad.any():
            worst = f"the largest {self.errors.max():.2g} standard errors"
            message = f"{bad.sum()} of {len(bad)} origins may be off, {worst}: raise anchors"
            warn(message, UnreliableOrigins)
        return FutureLosses(
            fit=self.fit,
            starts=self.starts,
            sites=self.sites,
            losses=-self.log_p[self.sites >= 0],
            params=self.params,
            errors=self.errors,
            refitted=np.isin(np.arange(len(bad)), list(self.anchors)),
            seconds=seconds,
            evaluations=self.evaluations,
        )
