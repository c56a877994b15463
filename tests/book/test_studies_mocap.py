"""The studies and figures of the chapter on motion capture,
on recordings small enough to check by other means.
"""

import numpy as np
import pytest
from acvbook import figures
from acvbook.datasets.mocap import Mocap
from acvbook.studies import mocap_costs, mocap_draws, mocap_fits, mocap_orders, mocap_steps

import acvlib as acv
from acvlib.models import HMM

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*indefinite Hessian"
)  # 8 sequences say little about a network


def recordings(rng, n, length=25, channels=2):
    """Sequences of an autoregression that switches its direction now and then."""
    sequences = []
    for _ in range(n):
        x, sign = [rng.normal(size=channels)], 1.0
        for _ in range(length - 1):
            sign = -sign if rng.random() < 0.1 else sign
            x.append(0.7 * sign * x[-1] + sign + rng.normal(0.0, 0.5, channels))
        sequences.append(np.array(x))
    return Mocap(sequences, 30, "simulated", "")


FREE = {"dense_limit": 0}  # small models on the path of large ones


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    return mocap_fits.split(recordings(rng, 12), 8, rng)


@pytest.fixture(scope="module")
def studied(split):
    train, test = split
    models = mocap_fits.emissions((0, 1), (1,))
    fitted = mocap_fits.fit_all(
        train.sequences, 2, models, np.random.default_rng(1), 2, context=2, **FREE
    )
    return {
        name: mocap_orders.leave_one_sequence_out(one, test.sequences)
        for name, one in fitted.items()
    }


def test_the_split_scales_by_what_trains(split):
    train, test = split
    assert (len(train), len(test)) == (8, 4)
    assert np.concatenate(train.sequences).std(axis=0) == pytest.approx(1.0)
    assert np.concatenate(test.sequences).std(axis=0) != pytest.approx(1.0)


def test_fits_are_optima_of_what_is_not_held(studied):
    for result in studied.values():
        one = result.fitted
        assert one.fit.newton_decrement <= 1e-6
        assert len(one.whole) == one.model.n_nuisance + one.model.n_params
        np.testing.assert_array_equal(one.model.held, one.whole[: one.model.n_nuisance])


def test_a_neural_fit_is_better_for_being_shaken(split, monkeypatch):
    sequences, emission = split[0].sequences[:5], mocap_fits.emissions((), (1,))["NAR(1)"]
    model = HMM(sequences, 2, emission, "sequences", context=2)

    def least():
        one = mocap_fits.fitted(
            "", sequences, 2, emission, np.random.default_rng(1), 1, context=2, **FREE
        )
        return model.derivatives.value_and_gradient(one.whole, np.ones(len(sequences)))[0]

    shaken = least()
    monkeypatch.setattr(mocap_fits, "N_ROUNDS", 0)
    assert shaken < least()


def test_all_orders_predict_the_same_frames(studied):
    assert {len(result.fitted.model.frames.x) for result in studied.values()} == {8 * 23}
    assert {len(mocap_fits.states_of(result.fitted, 3)) for result in studied.values()} == {23}


def test_exact_folds_are_refits(studied):
    """Against L-BFGS on the weighted objective, from the full fit."""
    from scipy.optimize import minimize

    result = studied["AR(1)"]
    model, full, cv = result.fitted.model, result.fitted.fit, result.rungs["exact"]
    weights = acv.folds.weights(model.n_sites, [3])
    settings = {
        "method": "L-BFGS-B",
        "jac": True,
        "options": {"gtol": 1e-9, "ftol": 1e-15, "maxiter": 2000},
    }
    refit = minimize(model.derivatives.value_and_gradient, full.params, args=(weights,), **settings)
    assert full.standard_errors_between(cv.params[3], refit.x) <= 1e-3
    assert cv.losses[3][0] == pytest.approx(model.heldout_loss(refit.x, [3])[0], rel=1e-5)


def test_losses_and_winners(studied):
    table = mocap_orders.losses(studied)
    assert list(table.index) == ["AR(0)", "AR(1)", "NAR(1)"]
    assert table.exact["AR(1)"] == pytest.approx(studied["AR(1)"].rungs["exact"].fold_losses.mean())
    assert table.test["AR(1)"] == pytest.approx(studied["AR(1)"].test.mean())
    winners = mocap_orders.winners(table)
    assert winners["exact"] == table.exact.astype(float).idxmin() == "AR(1)"
    assert not any(column.startswith("se_") for column in winners)


def test_errors_are_against_exact(studied):
    table = mocap_orders.errors(studied)
    assert (table.xs("exact", level="rung")[["bias", "mean_error", "theta_max"]] == 0.0).all(
        axis=None
    )
    rungs = studied["AR(1)"].rungs
    gap = rungs["newton_step"].fold_losses - rungs["exact"].fold_losses
    assert table.loc[("AR(1)", "newton_step"), "mean_error"] == pytest.approx(abs(gap).mean())
    indefinite = studied["NAR(1)"].rungs["newton_step"].indefinite
    assert table.loc[("NAR(1)", "newton_step"), "indefinite"] == indefinite.sum()


def test_errors_by_how_far_the_refit_moves(studied):
    table = mocap_orders.errors_by_move(studied["AR(1)"])
    assert table.folds.sum() == 8
    assert (table.no_adjustment >= [bin.left for bin in table.index]).all()
    assert (table.no_adjustment <= [bin.right for bin in table.index]).all()


def test_costs_count_every_rung(studied):
    table = mocap_orders.costs(studied, 1)
    assert table.D["AR(1)"] == studied["AR(1)"].fitted.model.n_params == 12
    assert (table[["gradient", "infinitesimal_jackknife", "exact"]].astype(float) > 0.0).all(
        axis=None
    )
    ratios = mocap_costs.solves(studied["AR(1)"], 1)
    assert ratios["ns_to_ij"] == pytest.approx(ratios["ns"] / ratios["ij"])
    assert mocap_costs.largest_residual(studied["AR(1)"]) <= 1e-6


def test_the_summary_of_a_split(studied):
    table = mocap_draws.summary(studied)
    rungs, test = studied["AR(0)"].rungs, studied["AR(0)"].test
    exact, none = rungs["exact"], rungs["no_adjustment"]
    ij = rungs["infinitesimal_jackknife"]
    row = table.loc["AR(0)", "infinitesimal_jackknife"]
    assert row.loss == pytest.approx(ij.fold_losses.mean())
    assert row.gap == pytest.approx(abs(ij.loss - exact.loss) / exact.se)
    theta = exact.fit.standard_errors_between(exact.params, ij.params)
    moves = exact.fit.standard_errors_between(exact.params, exact.fit.params)
    assert row.theta == pytest.approx(np.median(theta))
    assert row.share == pytest.approx(np.median(theta) / np.median(moves))
    assert row.beats_none == pytest.approx((theta < moves).mean())
    added = [cv.fold_losses - none.fold_losses for cv in (ij, exact)]
    assert row.differences == pytest.approx(np.corrcoef(*added)[0, 1])
    assert table.differences["AR(0)", "no_adjustment"] == 0.0
    assert table.share["AR(0)", "no_adjustment"] == 1.0
    over = test - studied["AR(1)"].test
    assert table.over_ar1["AR(0)", "test"] == pytest.approx(
        over.mean() / over.std(ddof=1) * np.sqrt(len(over))
    )
    assert (table.over_ar1["AR(1)"] == 0.0).all()
    assert table.indefinite["NAR(1)", "newton_step"] == (
        studied["NAR(1)"].rungs["newton_step"].indefinite.sum()
    )


SIZES = {"n_train": 8, "n_folds": 3, "n_restarts": 1}


def test_draws_are_splits_of_their_own():
    data = recordings(np.random.default_rng(0), 12)
    models = mocap_fits.known_variance(mocap_fits.emissions((0, 1), ()), 1.0)
    drawn = mocap_draws.draws(data, models, 2, 5, n_states=2, context=2, **SIZES)
    assert list(drawn.index.unique("draw")) == [1, 2]
    assert len(drawn.loss.xs(("AR(1)", "exact"), level=("model", "rung")).unique()) == 2
    best = mocap_draws.winners_of(drawn)
    assert set(best.exact) == {"AR(1)"}
    assert list(best.index) == [1, 2]
    rng = np.random.default_rng([5, 2])
    again = mocap_draws.drawn(data, models, rng, n_states=2, context=2, **SIZES)
    assert again.loss.equals(drawn.loss.loc[2])


def test_readings_differ_in_what_they_say():
    rng = np.random.default_rng(0)
    by_rate = {30: recordings(rng, 12), 10: recordings(rng, 12, 12)}
    chosen = [
        mocap_draws.Reading(1.0, 30, 2, mocap_draws.EM, 1),
        mocap_draws.Reading(1.0, 10, 2, mocap_draws.EM, 1),
        mocap_draws.Reading(None, 30, 2, mocap_draws.EM, 1),
        mocap_draws.Reading(1.0, 30, 2, mocap_draws.SEARCH, 1),
    ]
    table = mocap_draws.readings(chosen, by_rate, (0, 1), 5, {}, **SIZES)
    assert list(table.rate) == [30, 10, 30, 30]
    assert set(table.exact) | set(table.test) <= {"AR(0)", "AR(1)"}
    assert table["theta no_adjustment"].nunique() == 4
    one = mocap_draws.read(chosen[0], by_rate, (0, 1), 5, **SIZES)
    assert table["theta no_adjustment"][0] == one.theta["AR(1)", "no_adjustment"]


def test_a_reading_that_was_drawn_is_not_fitted_again():
    data = recordings(np.random.default_rng(0), 12)
    models = mocap_fits.known_variance(mocap_fits.emissions((0, 1), ()), 1.0)
    drawn = mocap_draws.draws(data, models, 2, 5, n_states=2, **SIZES)
    first = mocap_draws.Reading(1.0, 10, 2, mocap_draws.EM, 1)
    chosen = [first, first._replace(split=2)]
    fitted = mocap_draws.readings(chosen, {10: data}, (0, 1), 5, {}, **SIZES)
    taken = mocap_draws.readings(chosen, {}, (0, 1), 5, {first: drawn}, **SIZES)
    assert taken.equals(fitted)


def test_there_are_twelve_readings():
    assert len(set(mocap_draws.READINGS)) == 12


def test_one_search_is_no_better_than_the_best_of_several(split):
    emission = mocap_fits.emissions((1,), ())["AR(1)"]

    def objective(**settings):
        rng = np.random.default_rng(1)
        one = mocap_fits.fitted(
            "", split[0].sequences, 2, emission, rng, 4, context=2, **FREE, **settings
        )
        model, whole = one.model, one.whole
        assert one.fit.newton_decrement <= 1e-6
        free = HMM(model.sequences, 2, emission, "sequences", context=2)
        return free.derivatives.value_and_gradient(whole, np.ones(8))[0]

    assert objective() <= objective(once=True) + 1e-3


def test_memory_and_minutes(studied):
    gigabytes, dense = mocap_costs.newton_gigabytes(studied["AR(1)"])
    assert dense == 8 * 12**2 / 1e9
    assert dense < gigabytes < 0.1
    rungs = sum(cv.seconds for one in studied.values() for cv in one.rungs.values())
    assert mocap_costs.minutes(studied) * 60 > rungs


@pytest.fixture(scope="module")
def steps():
    x = recordings(np.random.default_rng(3), 1, 60).sequences[0]
    return mocap_steps.models(x, 2, np.random.default_rng(4), 1, variance=None)


def test_frames_left_out_at_random_and_in_blocks(steps):
    one = steps["Gaussian"]
    results = mocap_steps.within(one.model, one.fit, (5, 10), 2, np.random.default_rng(5))
    assert list(results) == [("iid", 5), ("iid", 10), ("contiguous", 5), ("contiguous", 10)]
    table = mocap_steps.table(results)
    assert table.loc[("contiguous 10 %", "exact"), "mean_error"] == 0.0
    assert len(mocap_steps.all_losses(results["iid", 10]["exact"])) == 2 * int(
        0.1 * one.model.n_sites
    )


def test_folds_and_fits_drawn_again(steps):
    rungs, table = mocap_steps.within_draws([steps, steps], (10,), 2, np.random.default_rng(5))
    assert list(rungs) == [("iid", 10), ("contiguous", 10)]
    assert list(table.index.unique("draw")) == [1, 2]
    assert (
        table.theta.loc[1, "iid 10 %", "no_adjustment"]
        != (table.theta.loc[2, "iid 10 %", "no_adjustment"])
    )
    row = table.loc[1, "iid 10 %", "infinitesimal_jackknife"]
    none, exact = (mocap_steps.all_losses(rungs["iid", 10][m]) for m in ("no_adjustment", "exact"))
    ij = mocap_steps.all_losses(rungs["iid", 10]["infinitesimal_jackknife"])
    assert row.differences == pytest.approx(np.corrcoef(ij - none, exact - none)[0, 1])
    assert row.share == row.theta / table.theta.loc[1, "iid 10 %", "no_adjustment"]
    settings = {"late": ("AR(1)", 55, 1), "later": ("Gaussian", 56, 1)}
    table = mocap_steps.future_draws([steps], settings)
    assert list(table.index.unique("setting")) == ["late", "later"]
    every_other = mocap_steps.future(steps["AR(1)"], 53, 2)["exact"]
    assert [fold[0] for fold in every_other.folds] == [53, 55, 57]
    late = mocap_steps.future(steps["AR(1)"], 55)
    row = mocap_steps.table({"late": late}, mocap_steps.first_losses).iloc[1]
    assert row.theta == table.theta.loc[1, "late", row.name[1]]


def test_sigma_is_known_unless_it_is_estimated(steps):
    x = recordings(np.random.default_rng(3), 1, 60).sequences[0]
    known = mocap_steps.models(x, 2, np.random.default_rng(4), 1, names=("AR(1)",))
    assert list(known) == ["AR(1)"]
    sigmas = [one["AR(1)"].model.held[-1] for one in (known, steps)]
    assert sigmas == pytest.approx([0.0, np.log(0.5)], abs=0.2)
    assert abs(sigmas[0]) < 1e-3 < abs(sigmas[1])


def test_the_future_left_out(steps):
    assert {one.model.n_sites for one in steps.values()} == {59}
    rungs = mocap_steps.future(steps["AR(1)"], 55)
    assert [list(fold) for fold in rungs["exact"].folds] == [
        [55, 56, 57, 58],
        [56, 57, 58],
        [57, 58],
        [58],
    ]
    assert len(mocap_steps.first_losses(rungs["exact"])) == 4


def test_figures_draw_every_rung(studied, steps):
    fig, axes = figures.subplots(1, 2)
    rungs = studied["AR(1)"].rungs
    figures.rung_scatter(axes[0], rungs)
    figures.shared_legend(fig, axes, 1)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == [
        "no adjustment",
        "infinitesimal jackknife",
        "one frozen step",
        "one Newton step",
    ]
    assert not axes[1].axison
    rungs["newton_step"].indefinite[2] = True
    crosses = figures.rung_scatter(axes[0], rungs).lines[-1]
    np.testing.assert_array_equal(crosses.get_xdata(), rungs["exact"].fold_losses[[2]])
    future = mocap_steps.future(steps["AR(1)"], 56)
    figures.rung_scatter(axes[0], future, mocap_steps.all_losses)
    figures.plt.close(fig)


def test_newton_steps_beyond_the_picture_do_not_set_its_scale(studied):
    fig, ax = figures.subplots()
    columns = ["exact", "newton_step", "test"]
    table = mocap_orders.losses(studied)
    figures.losses_with_errors(ax, table, columns, "emission")
    before = ax.get_ylim()
    table.iloc[0, table.columns.get_loc("newton_step")] = 1e13
    ax.clear()
    figures.losses_with_errors(ax, table, columns, "emission")
    assert ax.get_ylim() == before
    assert [line.get_ydata()[0] for line in ax.lines if line.get_marker() == "^"] == [before[1]]
    figures.plt.close(fig)
