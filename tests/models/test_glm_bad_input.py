"""What a GLM refuses, and says so: each a clear error, never a number."""

import numpy as np
import pytest

import acvlib as acv
from acvlib.models import GLM, NoFiniteOptimum
from acvlib.trials import UnconvergedFit, separated

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.tile([0.0, 1.0, 1.0], 10)


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("overlap", ["none", "one point shared"])
def test_separable_classes_have_no_fit(family, overlap):
    x = np.sort(X[:, :1], axis=0)
    y = (np.arange(30) >= 15) * 1.0
    if overlap != "none":  # quasi-separation: both classes at one x
        x[15] = x[14]
    with pytest.raises(NoFiniteOptimum, match="separates the responses"):
        acv.fit(GLM(x, y, family))


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_a_group_of_one_class_has_no_fit_nor_a_fold_that_leaves_one(family):
    """In any unit of the linear predictor: scores of probit are half as far apart."""
    group, y = np.repeat([0.0, 1.0], 15)[:, None], np.where(np.arange(30) < 15, Y, 1.0)
    with pytest.raises(NoFiniteOptimum, match="separates the responses"):
        acv.fit(GLM(group, y, family))
    y[15] = 0.0
    with pytest.warns(UnconvergedFit, match=f"without fold 1 the {family} likelihood"):
        refits = acv.exact(acv.fit(GLM(group, y, family)), acv.Folds([[0], [15]]))
    assert np.isfinite(refits.fold_losses).tolist() == [True, False]


@pytest.mark.parametrize("family", ["logistic", "probit", "poisson"])
def test_fits_are_refused_just_where_a_linear_program_separates_their_responses(family):
    """Which is asked only where the rows that still pull leave a direction free."""
    refused = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 3, (20, 2)) + (0.0 if seed % 2 else rng.normal(size=(20, 2)))
        eta = 10.0 ** rng.uniform(-0.5, 1.0) * (x - 1.0) @ rng.normal(size=2)
        mean = np.exp(np.clip(eta - 2.0, -8.0, 2.0))
        y = rng.poisson(mean) if family == "poisson" else rng.logistic(size=20) < eta
        if len(np.unique(y)) == 1:
            continue
        model = GLM(x, 1.0 * y, family)
        rows = model.columns.standard[:, model.columns.free]
        refused.append(separated(*model.family.gains(rows, model.responses)))
        try:
            acv.fit(model)
            assert not refused[-1]
        except NoFiniteOptimum:
            assert refused[-1]
    assert 3 < sum(refused) < len(refused) - 3


def test_no_linear_program_is_solved_where_rows_on_both_sides_pull(rng, monkeypatch):
    x = rng.normal(size=(200, 3))
    y = 1.0 * (4.0 * x[:, 0] + rng.normal(size=200) > 0)
    monkeypatch.setattr("acvlib.models.glm.columns.separated", None)
    fit = acv.fit(GLM(x, y, "probit"))
    sure = fit.model.family.certainty(fit.model.predictors(fit.params[None]), y)
    assert sure.max() > 50.0
    for folds in (acv.folds.leave_one_out(200), acv.folds.k_fold(200, 5)):
        assert acv.exact(fit, folds).diagnostics["converged"].all()


def test_counts_that_are_all_zero_in_a_group_have_no_fit(rng):
    group = np.repeat([0.0, 1.0], 15)
    counts = np.where(group == 1, 0, rng.poisson(3.0, 30))
    with pytest.raises(NoFiniteOptimum, match="poisson likelihood"):
        acv.fit(GLM(group[:, None], counts, "poisson"))


@pytest.mark.parametrize("cuts", [[0.0], [-0.5, 0.5]])
def test_a_direction_with_a_penalty_separates_nothing(cuts):
    y = np.digitize(X[:, 0], cuts)
    free, tiny = (GLM(X, y, "multinomial", penalty=[0.01, least]) for least in (0.0, 1e-9))
    np.testing.assert_allclose(acv.fit(free).params, acv.fit(tiny).params, atol=1e-5)
    with pytest.raises(NoFiniteOptimum, match="separates the responses"):
        acv.fit(GLM(X, y, "multinomial", penalty=[0.0, 0.01]))


def test_what_a_penalty_identifies_is_fitted():
    groups = np.arange(30) // 10
    x = np.column_stack([X[:, 0], np.eye(3)[groups]])  # collinear, but for the penalty
    models = [GLM(x, Y, penalty=[least, 1.0, 1.0, 1.0]) for least in (0.0, 1e-9)]
    folds = acv.folds.leave_group_out(groups)
    free, tiny = (acv.exact(acv.fit(model), folds).fold_losses for model in models)
    np.testing.assert_allclose(free, tiny, rtol=1e-7)


def test_well_fitted_but_inseparable_classes_have_one():
    x = np.concatenate([np.linspace(-300, 300, 60), [1.0, -1.0]])[:, None]
    y = np.concatenate([(np.linspace(-300, 300, 60) > 0) * 1.0, [0.0, 1.0]])
    model = GLM(x, y)
    fit = acv.fit(model)
    assert abs(x @ fit.params[1:]).max() > 15
    assert fit.newton_decrement <= 1e-6


RUNGS = [acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step, acv.exact]


@pytest.mark.parametrize("family", ["gaussian", "logistic", "multinomial", "poisson", "probit"])
def test_a_large_penalty_is_that_of_a_small_unit(family):
    models = GLM(X, Y, family, penalty=1e12), GLM(1e-6 * X, Y, family, penalty=np.ones(2))
    for method in RUNGS:
        ours, theirs = (method(acv.fit(model), acv.folds.k_fold(30, 5)) for model in models)
        np.testing.assert_allclose(ours.fold_losses, theirs.fold_losses, rtol=1e-8)


@pytest.mark.parametrize("method", RUNGS)
@pytest.mark.parametrize("table", [True, False])
def test_a_fold_that_leaves_one_class_is_named(method, table):
    y = np.zeros(30)
    y[[4, 9]] = 1.0
    model = GLM(X, y, penalty=1.0)
    folds = [np.array([0, 1]), np.array([4, 9])]
    why = "fold 1: NoFiniteOptimum: fold 1 leaves responses of one class alone"
    with pytest.warns(UnconvergedFit, match=why):
        result = method(acv.fit(model), np.array(folds) if table else folds)
    assert np.isfinite(result.fold_losses).tolist() == [True, False]
    with pytest.raises(NoFiniteOptimum, match="fold 0 leaves responses of one class"):
        method(acv.fit(model), folds[1:])


@pytest.mark.parametrize("method", RUNGS)
def test_a_fold_that_alone_identifies_a_column_is_named(method, rng):
    x = np.column_stack([X, np.arange(30) == 7])
    model = GLM(x, rng.normal(size=30), "gaussian")
    folds = [np.array([3]), np.array([7])]
    with pytest.warns(UnconvergedFit, match="fold 1: LinAlgError: .* singular without fold 1"):
        result = method(acv.fit(model), folds)
    assert np.isfinite(result.fold_losses).tolist() == [True, False]


def test_a_fit_that_is_singular_names_no_fold():
    model = GLM(np.column_stack([X, X[:, 0] + 1e-8 * X[:, 1]]), Y, "logistic", penalty=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="all but collinear") as singular:
        acv.fit(model)
    assert "fold" not in str(singular.value)


@pytest.mark.parametrize("family", ["gaussian", "logistic"])
def test_a_column_that_a_fold_only_shares_is_fitted_without_it(family):
    """Two rows hold the column: either may go, and both together may not."""
    model = GLM(np.column_stack([X, np.isin(np.arange(30), [3, 7])]), Y, family)
    fit = acv.fit(model)
    pair = np.array([[3, 7]])
    with pytest.raises(np.linalg.LinAlgError, match="singular without fold 0"):
        acv.infinitesimal_jackknife(fit, pair)
    if family == "gaussian":
        left = np.delete(np.arange(30), 3)
        refit = np.linalg.lstsq(model.design[left], Y[left], rcond=None)[0]
        found = acv.newton_step(fit, [[3]]).params[0]
        np.testing.assert_allclose(found, refit, atol=1e-10)
    penalised = GLM(model.X, Y, family, penalty=0.1)
    assert np.isfinite(acv.infinitesimal_jackknife(acv.fit(penalised), pair).loss)


def test_a_fold_that_leaves_separated_classes_has_no_refit():
    x = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 0.5, -0.5])[:, None]
    model = GLM(x, np.array([0, 0, 0, 1, 1, 1, 0, 1]), "logistic")
    fit = acv.fit(model)
    folds = acv.Folds([[0, 5], [6, 7]])
    with pytest.warns(UnconvergedFit, match="without fold 1 the logistic likelihood"):
        refits = acv.exact(fit, folds)
    assert np.isfinite(refits.fold_losses).tolist() == [True, False]
    assert refits.diagnostics["converged"].tolist() == [True, False]
    result = acv.newton_step(fit, folds)
    assert acv.check_result(result).unreliable[1]
    with pytest.warns(UnconvergedFit, match="1 of 1 folds are nan|fold 1"):
        assert np.isnan(acv.refit_unreliable(result).fold_losses[1])
    assert acv.exact(fit, folds[:1]).diagnostics["converged"].all()
