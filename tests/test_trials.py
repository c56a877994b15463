"""A trial that cannot be evaluated is named, the others go on, and it never wins: at every door."""

import re
import warnings
from dataclasses import dataclass, replace

import autograd.numpy as anp
import numpy as np
import pytest
from oracles.wrappers import raises
from sklearn.linear_model import Ridge

import acvlib as acv
from acvlib.beyond.from_scratch import fit_restarts
from acvlib.trials import AllFailed, NoFiniteOptimum, UnconvergedFit

RNG = np.random.default_rng(2)
Y = 1.0 + RNG.standard_normal(12)
X = RNG.standard_normal((40, 3))
VALUES = X[:, 0] + RNG.standard_normal(40)
FOLDS = acv.folds.k_fold(12, 4)
FAR = -40.0
LOST = "ignore:(choose|approx_tune|from_scratch):acvlib.trials.UnconvergedFit"
pytestmark = pytest.mark.filterwarnings(LOST, "ignore:one start alone:acvlib.fit.UnrepeatedOptimum")
REASONS = {
    "singular": "LinAlgError: Singular matrix",
    "overflow": "OverflowError: math range error",
    "nan": "NotFinite: .*(nan|infinity)",
    "flat": "UnconvergedFit: .*not an optimum",
    "ray": "NoFiniteOptimum: ",
}


@dataclass(frozen=True)
class Mean:
    """A mean with a ridge; where it is broken F has no minimum that a fit can find."""

    ridge: float = 1.0
    kind: str = ""  # how it is broken
    border: float = np.inf  # below which params it is
    starts: tuple = (0.0,)
    broken_folds: tuple = ()  # (a site of the fold, how it is broken without it)
    sample_weight: np.ndarray | float = 1.0
    n_sites = len(Y)
    y = Y

    def how(self, weights):
        return next((kind for site, kind in self.broken_folds if weights[site] == 0.0), self.kind)

    def objective(self, params, weights):
        weights = weights * self.sample_weight
        gaps = anp.sum(weights * (Y - params[0]) ** 2)
        whole = (gaps + self.ridge * params[0] ** 2 + params[1] ** 2) / 2.0
        how = self.how(weights)
        if not params[0] < self.border or not how:
            return whole
        if how == "singular":
            raise np.linalg.LinAlgError("Singular matrix")
        if how == "overflow":
            raise OverflowError("math range error")
        if how == "mistake":
            raise TypeError("a mistake in the model")
        return {
            "nan": whole * np.nan,
            "flat": 0.0 * params[0] + params[1] ** 2,
            "ray": anp.exp(params[0]) + params[1] ** 2,
        }[how]

    def check_optimum(self, params):
        if self.how(self.sample_weight * np.ones(len(Y))) == "ray" and params[0] < self.border:
            raise NoFiniteOptimum("F falls for ever")

    def heldout_loss(self, params, fold):
        return (Y[fold] - params[0]) ** 2 / 2.0

    def initial_params(self, rng):
        return np.array([0.0, 0.0])

    def restart_points(self, rng, n):
        return [np.array([start, 0.0]) for start in self.starts[:n]]


# A door is given trials by how they are broken, "" for not at all. It returns the scores of those
# that were evaluated, by their numbers; which won; and why others were rejected.


def choose(kinds):
    models = [Mean(0.3 * 2.0**n, kind) for n, kind in enumerate(kinds)]
    found = acv.choose(models, FOLDS, "exact", 1)
    assert all(name in str(found) for name, _ in found.rejected)
    scores = {int(name): elpd for name, elpd in found.table.elpd.items()}
    return scores, int(found.best), {int(name): reason for name, reason in found.rejected}


def approx_tune(kinds):
    values = 2.0 ** np.arange(len(kinds))

    def scorer(estimator, X, y):
        kind = kinds[int(np.log2(estimator.alpha))]
        if kind == "flat":
            warnings.warn("it is not an optimum", UnconvergedFit, stacklevel=1)
        model = Mean(kind=kind)
        model.check_optimum(np.zeros(2))
        spoilt = np.nan if np.isnan(model.objective(np.zeros(2), np.ones(12))) else 0.0
        return spoilt - np.mean((y - estimator.predict(X)) ** 2)

    found = acv.approx_tune(Ridge().fit(X, VALUES), X, VALUES, values, scoring=scorer, cv=5)
    assert found.estimator.alpha == found.best
    scores = {n: score for n, score in enumerate(found.scores) if np.isfinite(score)}
    rejected = {int(np.log2(value)): reason for value, reason in found.rejected}
    return scores, int(np.log2(found.best)), rejected


def restarts(kinds):
    found = fit_restarts(_started(kinds), len(kinds), RNG)
    scores = {n: -F for n, F in enumerate(found.objectives) if np.isfinite(F)}
    return scores, int(np.argmin(found.objectives)), dict(found.rejected)


def folds_from_scratch(kinds):
    folds = FOLDS[: len(kinds)]
    broken = zip(folds.scored, kinds, strict=True)
    model = Mean(broken_folds=tuple((sites[0], kind) for sites, kind in broken if kind))
    found = acv.from_scratch(acv.fit(model), folds, 1)
    good = found.diagnostics["converged"]
    assert np.isnan(found.params[~good]).all()
    assert np.array_equal(np.isfinite(found.fold_losses), good)
    scores = {n: found.fold_losses[n] for n in np.flatnonzero(good)}
    return scores, None, {n: found.diagnostics["rejected"][n] for n in np.flatnonzero(~good)}


def _started(kinds):
    """The model with a start a trial, those that are to fail beyond FAR."""
    starts = tuple(2.0 * FAR if kind else float(n) for n, kind in enumerate(kinds))
    return Mean(starts=starts, kind=next(filter(None, kinds), ""), border=FAR)


DOORS = [choose, approx_tune, restarts, folds_from_scratch]


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("door", DOORS)
def test_the_others_go_on_as_without_it(door, kind):
    whole, *_ = door(["", "", ""])
    for place in range(3):
        kinds = ["", "", ""]
        kinds[place] = kind
        scores, best, rejected = door(kinds)
        assert set(rejected) == {place}
        assert re.search(REASONS[kind], rejected[place])
        others = {n: score for n, score in whole.items() if n != place}
        assert scores == pytest.approx(others, rel=1e-9)
        assert best is None or scores[best] == max(scores.values())


@pytest.mark.parametrize("door", DOORS)
def test_where_all_fail_the_error_names_each_reason_and_mistakes_are_raised(door):
    kinds = ["nan"] * 3 if door is restarts else ["singular", "nan", "ray"]
    with pytest.raises(AllFailed, match="can be evaluated") as caught:
        door(kinds)
    assert all(re.search(REASONS[kind], str(caught.value)) for kind in kinds)
    assert all(str(n) in str(caught.value) for n in range(3))
    if door is not approx_tune:
        raises("a mistake in the model", door, ["", "mistake", ""], error=TypeError)


@pytest.mark.parametrize("kind", REASONS)
def test_starts_of_folds_are_rejected_one_by_one(kind):
    fit = acv.fit(Mean())
    whole = acv.from_scratch(replace(fit, model=Mean(starts=(0.0, 1.0))), FOLDS, 2)
    found = acv.from_scratch(replace(fit, model=_started(["", kind, ""])), FOLDS, 3)
    assert found.fold_losses == pytest.approx(whole.fold_losses, rel=1e-9)
    assert not whole.diagnostics["rejected"].any()
    assert all(re.match(f"1: {REASONS[kind]}", why) for why in found.diagnostics["rejected"])
    assert found.to_frame().rejected.tolist() == found.diagnostics["rejected"].tolist()


def test_what_a_user_named_and_lost_is_warned_of():
    with pytest.warns(UnconvergedFit, match="choose: rejected candidates: 1: .*LinAlgError"):
        found = acv.choose([Mean(), Mean(1.0, "singular")], FOLDS)
    assert found.best == "0"
    assert "rejected: 1: " in str(found)

    def score(estimator, X, y):
        return np.nan if estimator.alpha == 0.5 else estimator.score(X, y)

    ridge = Ridge().fit(X, VALUES)
    with pytest.warns(UnconvergedFit, match="approx_tune: rejected values: 0.5: NotFinite"):
        found = acv.approx_tune(ridge, X, VALUES, [1.0, 0.5, 10.0], scoring=score, cv=5)
    assert np.isnan(found.scores).tolist() == [False, True, False]
    model = Mean(broken_folds=((FOLDS[1][0], "singular"),))
    message = "losses of 1 of 4 folds are nan. 1: LinAlgError"
    with pytest.warns(UnconvergedFit, match=message) as told:
        found = acv.from_scratch(acv.fit(model), FOLDS, 1)
    assert told[0].filename == __file__
    assert found.evaluations["fits"] == 4
    assert found.evaluations["heldout"] == 3
    mended = replace(found, fit=replace(found.fit, model=Mean()))
    assert np.isfinite(acv.refit_unreliable(mended, ~found.diagnostics["converged"]).loss)


# tune: alpha is the ridge, and trials fail on one side of an alpha that the search would meet


def tune(kind="", border=0.0, start=9.0, **settings):
    models = {}

    def model_of(alpha):
        return models.setdefault(alpha[0], Mean(alpha[0], kind if alpha[0] < border else ""))

    return acv.tune(model_of, [start], FOLDS, **settings)


@pytest.mark.parametrize("kind", REASONS)
def test_tune_steps_back(kind):
    whole = tune(start=0.3)
    assert not whole.rejected
    assert whole.alphas.min() < 0.9 * whole.alpha[0]  # it goes too far, and comes back
    border = 0.5 * (whole.alphas.min() + whole.alpha[0])
    found = tune(kind, border, start=0.3)
    assert found.converged
    assert found.loss == pytest.approx(whole.loss, abs=1e-5 * whole.result.se)
    assert found.alpha == pytest.approx(whole.alpha, rel=0.02)
    assert found.rejected
    for alpha, reason in found.rejected:
        assert alpha[0] < border
        assert re.search(REASONS[kind].replace("objective", "loss"), reason)
    assert len(found.rejected) == np.isinf(found.losses).sum()
    assert np.array_equal(found.alphas[np.isinf(found.losses)], [a for a, _ in found.rejected])
    assert found.losses[np.argmin(found.losses)] == pytest.approx(found.loss, rel=1e-9)
    assert "rejected=[[" in repr(found)


def test_tune_needs_a_start_and_ends_at_the_edge_of_what_can_be_evaluated():
    for kind, reason in REASONS.items():
        raises(f"its start, alpha .9.*elsewhere.*{reason}", tune, kind, 10.0, error=AllFailed)
    raises("a mistake in the model", tune, "mistake", 8.0, error=TypeError)
    whole = tune()
    border = 2.0 * whole.alpha[0]
    found = tune("singular", border)
    assert border < found.alpha[0] < 1.1 * border
    assert found.loss > whole.loss
