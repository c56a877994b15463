"""A fitted object of scikit-learn as it would be without each fold: itself, other coefficients."""

import time
import warnings
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import softmax

from ..check import check_result, refit_unreliable
from ..checks import check_choice, real_array
from ..extras import require
from ..fit import UnconvergedFit, fit
from ..folds import Folds, from_splitter, leave_one_out, pairs_of
from ..folds.checks import end_to_end
from ..methods import ladder
from ..parallel import blas_for
from ..results import CVResult, Fit
from ..trials import NoFiniteOptimum
from .estimators import coefficients_of, model_of, outcomes_of, settings_of, with_coefficients
from .pipelines import routed, unwrap, with_last
from .wide import dense, in_row_span

base = require("sklearn.base", extra="sklearn")
model_selection = require("sklearn.model_selection", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")

METHODS = ladder.METHODS
APPROXIMATE = ("infinitesimal_jackknife", "frozen_newton", "newton_step")
ACTIONS = ("refit", "warn", "raise", "ignore")
CLOSE = 0.1  # standard errors from the optimum at which an estimator passes without a warning


class UnreliableFolds(UserWarning):
    """Some folds of an approximate result are probably far from their refits."""


class Refits:
    """A user's fitted object, its data and its folds; `leave_out` finds what it is without these.

    last: the step that is fitted anew; inputs: what X is where it comes there; model: with the
    columns `design`; tests: the scored rows of each fold. And, once folds are left out, fit;
    result: of the folds that the model can do; coefficients: (n_folds, K, .) of the design's
    columns; by_theirs: {fold: the last step as scikit-learn refits it, or why it cannot}, of other
    folds; unreliable: (n_folds,).
    """

    fit: Fit
    result: CVResult | None = None
    coefficients: np.ndarray
    by_theirs: dict[int, Any]
    unreliable: np.ndarray
    seconds: float

    def __init__(
        self, whole: Any, X: Any, y: Any, params: Any, groups: Any, cv: Any, scoring: Any = None
    ):
        self.whole = whole
        self.weights, groups = routed(whole, params, groups, scoring)
        self.last, self.inputs = unwrap(whole, X)
        sparse = issparse(self.inputs)
        table = self.inputs.astype(float) if sparse else real_array("X", self.inputs, 2)
        self.outcomes = outcomes_of(self.last, table, y)
        self.X, self.y, groups = utils.indexable(X, y, groups)
        self.head = int(self.last.fit_intercept)
        settings = settings_of(self.last, self.outcomes)
        penalised = np.min(settings.get("penalty", settings.get("site_penalty"))) > 0.0
        is_wide = table.shape[1] > table.shape[0] and penalised
        self.basis: Any = None
        if is_wide:
            table, self.basis = in_row_span(table)
        self.design = dense(table)
        self.model = model_of(settings, self.design, self.weights)
        self.folds = self._folds(cv, groups)
        self.tests = self.folds.scored

    def _folds(self, cv, groups):
        n_rows = len(self.outcomes)
        if isinstance(cv, Folds):
            return Folds.of(cv, n_rows)
        cv = pairs_of(cv) if isinstance(cv, np.ndarray | list | tuple) else cv
        splitter = model_selection.check_cv(cv, self.y, classifier=base.is_classifier(self.last))
        if isinstance(splitter, model_selection.LeaveOneOut):
            return leave_one_out(n_rows)
        pairs = list(splitter.split(self.X, self.y, groups))  # once: a splitter may draw
        return Folds.of(from_splitter(pairs, self.design), n_rows)

    def with_setting(self, name: str, value: float) -> "Refits":
        """The same with a last step of another penalty."""
        twin = copy(self)
        twin.last = copy(self.last).set_params(**{name: value})
        twin.model = model_of(settings_of(twin.last, self.outcomes), self.design, self.weights)
        return twin

    @property
    def start(self) -> np.ndarray:
        """The model's params at the last step's coefficients."""
        rows = coefficients_of(self.last)
        if self.basis is not None:
            rows = np.hstack([rows[:, : self.head], (self.basis.T @ rows[:, self.head :].T).T])
        return (self.model.likelihood.spread.T @ rows).ravel()

    def leave_out(self, method: str, unreliable: str, start: Any = None) -> None:
        """Find the coefficients without each fold, by the arguments of `approx_cross_validate`.

        start: params of the model, where they are not the last step's own, which should be near.
        """
        check_choice("method", method, METHODS)
        point = self.start if start is None else start
        with blas_for(self.model.n_params**3):
            self.fit = fit(self.model, point)
            distance = self.fit.standard_errors_between(point, self.fit.params)
            if start is None and distance > CLOSE:
                warnings.warn(
                    f"the estimator's coefficients are {distance:.2g} standard errors from the "
                    "optimum on X and y: was it fitted to these data, to convergence?",
                    UnconvergedFit,
                    stacklevel=3,
                )
            started = time.perf_counter()
            rows, folds = self._solvable(unreliable)
            params = np.tile(self.fit.params, (len(self.tests), 1))
            if len(rows):
                self.result = self._result(rows, folds, method, unreliable)
                params[rows] = self.result.params
                lost = rows[np.isnan(params[rows]).any(axis=1)].tolist()
                self.by_theirs |= {fold: self._refit(fold) for fold in lost}
                self.unreliable[lost] = True
            self.seconds = time.perf_counter() - started
        self.coefficients = self._coefficients(params)

    def _coefficients(self, params):
        """(..., K, .) of params (..., D)."""
        rows = params.reshape(*params.shape[:-1], self.model.n_outputs, -1)
        return self.model.likelihood.spread @ rows

    def _solvable(self, unreliable):
        """(numbers, these folds) that the model can do; `by_theirs` has what they cannot do.

        A fold that omits rows of weight 0 alone is as if it omitted none.
        """
        every = np.arange(len(self.folds))
        observed = self.model.observed
        self.unreliable = np.isin(every, self._without_a_class(unreliable))
        self.by_theirs = {}
        if observed.all() and not self.unreliable.any():
            return every, self.folds
        kinds = (self.folds.omitted, self.folds.scored)
        omitted, scored = ([sites[observed[sites]] for sites in kind] for kind in kinds)
        idle = np.array([not len(sites) for sites in omitted])
        solvable = np.array([len(sites) > 0 for sites in scored]) & ~self.unreliable
        others = np.flatnonzero(~(solvable | idle)).tolist()
        self.by_theirs = {fold: self._refit(fold) for fold in others}
        failed = [last for last in self.by_theirs.values() if isinstance(last, Exception)]
        if len(failed) == len(every):
            raise failed[0]
        rows = np.flatnonzero(solvable)
        parts = [[kind[row] for row in rows] for kind in (omitted, scored)]
        return rows, Folds(*parts, self.folds.n_sites, rows)

    def _without_a_class(self, unreliable):
        """The folds that leave no row of some class, of which our model knows nothing."""
        if not base.is_classifier(self.last):
            return []
        members = (self.outcomes[:, None] == self.last.classes_) & self.model.observed[:, None]
        counts = members.sum(axis=0)
        if self.folds.sizes.max() < counts.min():
            return []
        left = counts - self.folds.indicator(len(members)) @ members
        folds, classes = np.nonzero(left == 0)
        if folds.size and unreliable != "ignore":
            label = self.last.classes_[classes[0]]
            first = f"fold {folds[0]} leaves no row of class {label}"
            if unreliable == "raise":
                raise NoFiniteOptimum(f"{first}: unreliable='refit' has scikit-learn refit it")
            count = f"{len(set(folds))} of {len(self.folds)} folds lack a class"
            warnings.warn(f"{count}, {first}: scikit-learn refits them", UnreliableFolds, 5)
        return folds

    def _refit(self, fold):
        kept = np.delete(np.arange(len(self.outcomes)), self.folds.omitted[fold])
        data = (utils._safe_indexing(each, kept) for each in (self.inputs, self.y))
        known = self.weights is not None
        weights = {"sample_weight": np.asarray(self.weights)[kept]} if known else {}
        try:
            return base.clone(self.last).fit(*data, **weights)
        except ValueError as error:  # one class is left
            return error

    def _result(self, rows, folds, method, unreliable):
        """What a method says of folds, those that it does badly refitted, or told of."""
        result = METHODS[method](self.fit, folds)
        is_exact = self.model.quadratic and method == "newton_step"
        if is_exact or method not in APPROXIMATE or unreliable == "ignore":
            return result
        check = check_result(result)
        self.unreliable[rows] |= check.unreliable
        if unreliable == "refit":
            return refit_unreliable(result, check)
        if check.unreliable.any():
            if unreliable == "raise":
                raise ValueError(f"{check}: use unreliable='refit', or method='exact'")
            warnings.warn(f"{check}: use unreliable='refit'", UnreliableFolds, stacklevel=4)
        return result

    def estimator(self, fold: int | None = None) -> Any:
        """The user's whole object as it would be without a fold; of all rows, if None."""
        last = self.by_theirs.get(fold)
        if isinstance(last, Exception):
            raise last
        if last is None:
            rows = self._coefficients(self.fit.params) if fold is None else self.coefficients[fold]
            if self.basis is not None:
                rows = np.hstack([rows[:, : self.head], (self.basis @ rows[:, self.head :].T).T])
            last = with_coefficients(self.last, rows)
        return with_last(self.whole, last)

    @cached_property
    def predictions(self) -> np.ndarray:
        """E[y | x], (n,) or (n, targets), or P(class) (n, K), of the tests' rows, end to end."""
        design = np.column_stack([np.ones((len(self.design), self.head)), self.design])
        if isinstance(self.tests, np.ndarray) and self.tests.shape[1] == 1:
            scores = np.einsum("fkd,fd->fk", self.coefficients, design[self.tests[:, 0]])
        else:
            pairs = zip(self.tests, self.coefficients, strict=True)
            scores = np.concatenate([design[test] @ rows.T for test, rows in pairs])
        is_classifier = base.is_classifier(self.last)
        if is_classifier:
            scores = np.hstack([0.0 * scores, scores]) if scores.shape[1] == 1 else scores
            mean = softmax(scores, axis=1)
        else:
            mean = self.model.family.mean(scores)
            mean = mean[:, 0] if np.ndim(self.last.coef_) == 1 else mean
        ends = np.cumsum(end_to_end(self.tests).sizes)
        for fold, last in self.by_theirs.items():
            rows = slice(ends[fold] - len(self.tests[fold]), ends[fold])
            inputs = utils._safe_indexing(self.inputs, self.tests[fold])
            if not is_classifier:
                mean[rows] = last.predict(inputs)
                continue
            mean[rows] = 0.0
            if not isinstance(last, Exception):
                known = np.searchsorted(self.last.classes_, last.classes_)
                mean[rows, known] = last.predict_proba(inputs)
        return mean
