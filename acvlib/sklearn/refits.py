"""A fitted object of scikit-learn as it would be without each fold: itself, other coefficients.

What stands around the estimator that is fitted anew, a search or the other steps of a Pipeline,
stays as it was fitted to all rows: what refits of a StandardScaler or a PCA would add to a fold is
left out.
"""

import time
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..check import check_result, refit_unreliable
from ..checks import index_of, real_array, require, warn
from ..fit import fit
from ..folds import Folds, from_splitter, leave_one_out, pairs_of
from ..methods import ladder
from ..models.glm.derivatives import own_scores
from ..parallel import blas_for
from ..results import CVResult, Fit
from ..trials import NoFiniteOptimum, UnconvergedFit
from .columns import COLLINEAR, check_order, reduced
from .estimators import (
    FIRST,
    in_order,
    in_words_of,
    inputs_of,
    layers_of,
    model_of,
    outcomes_of,
    see_rows_alone,
    settings_of,
    weights_of,
    with_last,
)

base = require("sklearn.base", extra="sklearn")
linear_model = require("sklearn.linear_model", extra="sklearn")
model_selection = require("sklearn.model_selection", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")

METHODS = ladder.METHODS
APPROXIMATE = ("infinitesimal_jackknife", "frozen_newton", "newton_step")
ACTIONS = ("refit", "ignore")
CLOSE = 0.1  # standard errors from the optimum at which an estimator passes without a warning
NEARLY = 10.0  # times `tol`, at which a direction may be dropped without a fold
CHOOSING = {  # what chooses a penalty: what it then is, and the penalty's name
    linear_model.LogisticRegressionCV: (linear_model.LogisticRegression, "C"),
    linear_model.RidgeCV: (linear_model.Ridge, "alpha"),
}
TOLERANCE = 1e-9  # standard errors from an optimum, of our fit wherever theirs has stopped


class UnreliableFolds(UserWarning):
    """Some folds leave no row of a class."""


class Refits:
    """A user's fitted object, its data and its folds; `leave_out` finds what it is without these.

    last: the step that is fitted anew; inputs: what X is where it comes there; tests: the scored
    rows of each fold; plain: whether all around the last step is of scikit-learn's own classes, and
    what other steps make of a row depends on no other row, so that `inputs` are what it scores.
    And, once folds are left out, fit; result: of the folds that the model can do; points:
    (n_folds, D) its params; by_theirs: {fold: the last step as scikit-learn refits it, or why it
    cannot}, of other folds; unreliable: (n_folds,).
    """

    fit: Fit
    result: CVResult | None = None

    def __init__(self, whole: Any, X: Any, y: Any, params: dict | None, groups: Any, cv: Any):
        self.whole = whole
        self.layers = layers_of(whole)
        self.last = self.layers[-1]
        X = in_order(self.layers, X)
        weights = weights_of(self.layers, params)
        check_order({"X": X, "y": y, "groups": groups} | (params or {}))
        self.X, self.y, groups, self.weights = utils.indexable(X, y, groups, weights)
        self.inputs = inputs_of(self.layers, self.X, self.y)
        sparse = issparse(self.inputs)
        table = self.inputs.astype(float) if sparse else real_array("X", self.inputs, 2)
        self.outcomes = outcomes_of(self.last, table, y)
        self.head = int(self.last.fit_intercept)
        settings = settings_of(self.last, self.outcomes)
        self.design, self.basis = reduced(self.last, table, settings, self.weights)
        self.level = settings.get("level", 0.0)
        self.centre = np.median(self.design[:FIRST], axis=0) * self.head
        heaviest = 0 if self.weights is None else int(np.argmax(self.weights))
        self.row = table[[heaviest]], self.design[heaviest] - self.centre
        self.design -= self.centre
        with in_words_of(self.last):
            self.model = model_of(settings, self.design, self.weights)
        self.folds = self._folds(cv, groups)
        self.tests = self.folds.scored
        modules = [type(layer).__module__ for layer in self.layers]
        self.plain = all(module.startswith("sklearn.") for module in modules[:-1])
        if self.plain and self.inputs is not self.X:
            rows = np.arange(len(self.outcomes))
            parts = rows[::2], rows[1::2], self.tests[0], self.tests[len(self.tests) - 1]
            self.plain = see_rows_alone(self.layers, self.X, self.inputs, parts)

    def _folds(self, cv, groups):
        n_rows = len(self.outcomes)
        if isinstance(cv, Folds):
            cv.check_index(index_of(self.X, self.y))
            return Folds.of(cv, n_rows)
        cv = pairs_of(cv) if isinstance(cv, np.ndarray | list | tuple) else cv
        splitter = model_selection.check_cv(cv, self.y, classifier=base.is_classifier(self.last))
        if type(splitter) is model_selection.LeaveOneOut:
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
        coef = np.atleast_2d(self.last.coef_)
        rows = coef if self.basis is None else (self.basis.T @ coef.T).T
        if self.head:  # which has what coefficients do beside the basis, the same in each row
            theirs, ours = self.row
            intercepts = np.ravel(self.last.intercept_) - self.level
            intercepts = intercepts + np.ravel(theirs @ coef.T) - rows @ ours
            rows = np.column_stack([intercepts, rows])
        if len(rows) < len(self.model.spread):  # of two balanced classes
            rows = np.concatenate([-0.5 * rows, 0.5 * rows])
        return (self.model.spread.T @ rows).ravel()

    def leave_out(self, method: str, unreliable: str, start: np.ndarray | None = None) -> None:
        """Find the params without each fold, by the arguments of `approx_cross_validate`.

        start: params of the model, where they are not the last step's own, which should be near.
        """
        point = self.start if start is None else start
        with blas_for(self.model.n_params**3), in_words_of(self.last):
            self.fit = self._fit(point)
            distance = self.fit.standard_errors_between(point, self.fit.params)
            if start is None and distance > CLOSE:
                warn(
                    f"the estimator's coefficients are {distance:.2g} standard errors from the "
                    "optimum on X and y: was it fitted to these data, to convergence?",
                    UnconvergedFit,
                )
            started = time.perf_counter()
            rows, folds = self._solvable(unreliable)
            self.points = np.tile(self.fit.params, (len(self.tests), 1))
            if len(rows):
                try:
                    self.result = self._result(rows, folds, method, unreliable)
                    self.points[rows] = self.result.params
                except (np.linalg.LinAlgError, NoFiniteOptimum) as error:
                    self.points[rows] = np.nan
                    reason = str(error).partition(":")[0]
                    warn(f"scikit-learn refits all {len(rows)} folds: {reason}", UnconvergedFit)
            lost = np.flatnonzero(np.isnan(self.points).any(axis=1)).tolist()
            self.by_theirs |= {fold: self._refit(fold) for fold in lost}
            self.unreliable[lost] = True
            self.seconds = time.perf_counter() - started

    def _fit(self, point):
        """The fit, from a point that should be near: where that is far, from anywhere."""
        ones = np.ones(self.model.n_sites)
        starts = self.model.initial_params(), point
        begin = min(starts, key=lambda each: self.model.objective(each, ones))
        return fit(self.model, begin, tolerance=TOLERANCE)

    def _solvable(self, unreliable):
        """(numbers, these folds) that the model can do; `by_theirs` has what they cannot do.

        A fold that omits rows of weight 0 alone is as if it omitted none. Where LinearRegression
        dropped directions that X has, by its `tol`, or nearly so, each of its refits drops others.
        """
        sizes = getattr(self.last, "singular_", np.ones(1))
        least, near = sizes.max() * np.array([COLLINEAR, NEARLY * getattr(self.last, "tol", 0.0)])
        truncated = ((sizes > least) & (sizes < near)).any()
        self.unreliable = self._lack_a_class(unreliable) | truncated
        solvable = ~self.unreliable
        omits = np.ones(len(solvable), bool)
        observed = self.model.observed
        kinds: Any = (self.folds.omitted, self.folds.scored)
        if not observed.all():
            kinds = [[sites[observed[sites]] for sites in kind] for kind in kinds]
            omits, scores = (np.array([len(sites) > 0 for sites in kind]) for kind in kinds)
            solvable &= scores
        others = omits & ~solvable
        self.by_theirs = {fold: self._refit(fold) for fold in np.flatnonzero(others).tolist()}
        failed = [last for last in self.by_theirs.values() if isinstance(last, Exception)]
        if len(failed) == len(others):
            raise failed[0]
        rows = np.flatnonzero(solvable)
        if observed.all() and solvable.all():
            return rows, self.folds
        parts = [[kind[row] for row in rows] for kind in kinds]
        return rows, Folds(*parts, self.folds.n_sites, rows)

    def _lack_a_class(self, unreliable):
        """Flags of the folds that leave no row of some class, of which our model knows nothing."""
        if not base.is_classifier(self.last):
            return np.zeros(len(self.folds), bool)
        members = (self.outcomes[:, None] == self.last.classes_) & self.model.observed[:, None]
        left = members.sum(axis=0) - self.folds.indicator(len(members)) @ members
        lack = (left == 0).any(axis=1)
        if lack.any() and unreliable != "ignore":
            fold = np.argmax(lack)
            label = self.last.classes_[np.argmin(left[fold])]
            named = f"{lack.sum()} of {len(lack)} folds lack a class, fold {fold} leaves no row of"
            warn(f"{named} class {label}: scikit-learn refits them", UnreliableFolds)
        return lack

    def _refit(self, fold):
        kept = np.delete(np.arange(len(self.outcomes)), self.folds.omitted[fold])
        data = (utils._safe_indexing(each, kept) for each in (self.inputs, self.y))
        weights = {} if self.weights is None else {"sample_weight": self.weights[kept]}
        try:
            fitted = _as_chosen(self.last).fit(*data, **weights)
        except ValueError as error:  # one class is left
            return error
        last = copy(self.last)
        vars(last).update({key: own for key, own in vars(fitted).items() if key.endswith("_")})
        return last

    def _result(self, rows, folds, method, unreliable):
        """What a method says of folds, those that it does badly refitted."""
        settings = {"tolerance": TOLERANCE} if method == "exact" else {}
        result = METHODS[method](self.fit, folds, **settings)
        is_exact = self.model.quadratic and method == "newton_step"
        if is_exact or method not in APPROXIMATE or unreliable == "ignore":
            return result
        check = check_result(result)
        self.unreliable[rows] |= check.unreliable
        return refit_unreliable(result, check)

    def estimator(self, fold: int | None = None) -> Any:
        """The user's whole object as it would be without a fold; of all rows, if None."""
        last = self.by_theirs.get(fold)
        if isinstance(last, Exception):
            raise last
        if last is None:
            point = self.fit.params if fold is None else self.points[fold]
            rows = self.model.spread @ point.reshape(self.model.n_outputs, -1)
            last = copy(self.last)
            if len(rows) > len(np.atleast_2d(last.coef_)):  # of two balanced classes
                rows = rows[1:] - rows[:1]
            coef = rows[:, self.head :]
            intercepts = rows[:, 0] + self.level - coef @ self.centre
            coef = coef if self.basis is None else (self.basis @ coef.T).T
            flat = not base.is_classifier(last) and self.outcomes.ndim == 1
            last.coef_ = coef[0] if flat else coef
            if self.head:
                last.intercept_ = intercepts[0] if flat else intercepts
        return with_last(self.layers, last)

    def asked(self, fold: int, output: str) -> np.ndarray:
        """What the whole object predicts of a fold: 0 for classes that it has not seen there."""
        rows = utils._safe_indexing(self.X, self.tests[fold])
        answers = getattr(self.estimator(fold), output)(rows)
        if output == "predict" or fold not in self.by_theirs:
            return answers
        classes = self.last.classes_
        shares = np.zeros((len(answers), len(classes)))
        shares[:, np.searchsorted(classes, self.by_theirs[fold].classes_)] = answers
        return shares

    @cached_property
    def predictions(self) -> np.ndarray:
        """E[y | x], (n,) or (n, targets), or P(class) (n, K), of tests that are not `by_theirs`."""
        sites, sizes = self.tests.sites, self.tests.sizes
        mean = self.model.family.means(own_scores(self.model, self.points, sites, sizes))
        if base.is_classifier(self.last) and mean.ndim == 1:
            mean = np.column_stack([1.0 - mean, mean])
        if mean.ndim < self.outcomes.ndim:  # of one target in a column of its own
            mean = mean[:, None]
        return mean + self.level


def _as_chosen(estimator):
    """Make an estimator to fit anew, which has what a fitted one chose, and chooses nothing."""
    if type(estimator) not in CHOOSING:
        return base.clone(estimator)
    kind, name = CHOOSING[type(estimator)]
    given = estimator.get_params()
    shared = given.keys() & kind().get_params().keys() - {"n_jobs", "penalty"}  # none, or L2
    chosen = float(np.ravel(getattr(estimator, f"{name}_"))[0])
    return base.clone(kind(**{each: given[each] for each in shared}, **{name: chosen}))
