"""The studies and figures of the chapter on hidden fields,
on a small map whose answers can be had otherwise.
"""

import numpy as np
import pandas as pd
import pytest
from acvbook import figures
from acvbook.datasets import Areas
from acvbook.datasets.philadelphia import hexagons
from acvbook.studies import calibration, mrf

import acvlib as acv
from acvlib.models import EmptyState


@pytest.fixture(scope="module")
def data():
    outlines, edges = hexagons(6, 5)
    counts = np.random.default_rng(0).poisson(np.where(np.arange(30) < 14, 4, 15))
    return Areas(counts, edges, "simulated", "", "small", outlines)


@pytest.fixture(scope="module")
def fields(data):
    return {beta: mrf.every_rung(data, beta, acv.folds.leave_one_out(30)) for beta in (0.1, 0.3)}


def test_the_papers_coupling_counts_every_edge_twice(data):
    assert mrf.hidden_field(data, 0.3).coupling == 0.6


def test_optima_compare_em_with_the_gradient_fit(fields):
    table = mrf.optima(fields)
    assert (table.em_minus_gradient_se <= 1e-6).all()
    assert (table.decrement <= 1e-6).all()
    np.testing.assert_allclose(table.high_rate, [np.exp(f.fit.params[1]) for f in fields.values()])


def test_errors_are_against_exact(fields):
    table = mrf.errors(fields)
    assert set(table.index.get_level_values("rung")) == set(fields[0.1].results) - {"exact"}
    exact, ij = (fields[0.3].results[name] for name in ("exact", "infinitesimal_jackknife"))
    expected = np.mean(abs(ij.fold_losses - exact.fold_losses) / exact.fold_losses)
    assert table.loc[(0.3, "infinitesimal_jackknife"), "relative_error"] == pytest.approx(expected)


def test_differences_are_what_leaving_out_moves(fields):
    table, results = mrf.errors(fields).loc[0.3], fields[0.3].results
    none, ij, exact = (
        results[name].fold_totals for name in ("no_adjustment", "infinitesimal_jackknife", "exact")
    )
    assert np.isnan(table.differences["no_adjustment"])
    expected = np.corrcoef(ij - none, exact - none)[0, 1]
    assert table.differences["infinitesimal_jackknife"] == pytest.approx(expected)
    worst = max(abs(ij - exact)) / np.std(exact)
    assert table.worst["infinitesimal_jackknife"] == pytest.approx(worst)


def test_neighbours_among_sites():
    edges = np.array([[0, 1], [1, 2], [2, 3], [4, 5]])
    assert mrf.with_neighbours(edges, [0, 1, 3, 5]) == 2
    assert mrf.with_neighbours(edges, [0, 2, 4]) == 0


def test_em_from_random_starts_reaches_the_gradient_fit(fields):
    table = mrf.em_starts(fields, 3, np.random.default_rng(0))
    assert len(table) == 3 * len(fields)
    assert table.gap.max() <= 1e-6
    np.testing.assert_allclose(table.nats_above, 0.0, atol=1e-9)
    starts = [mrf.random_start(fields[0.3].model, np.random.default_rng(i)) for i in range(9)]
    assert all(np.diff(start) > 0 for start in starts)
    assert np.ptp(starts) > 0.5


def test_cold_em_finds_the_exact_refits(fields):
    field = fields[0.3]
    cold = mrf.cold_em(field.model, field.fit, field.results["exact"].folds)
    assert acv.theta_errors(field.results["exact"], cold).max() <= 1e-5
    assert cold.diagnostics["converged"].all()
    assert cold.evaluations["em_step"] > 30 * 5


def test_a_step_by_tract_is_a_step_of_em(fields):
    model, params = fields[0.3].model, fields[0.3].fit.params + 0.1
    weights = acv.folds.weights(30, [3, 4])
    expected = mrf.maximise(model, params, weights)
    np.testing.assert_allclose(mrf.maximise_by_tract(model, params, weights), expected, rtol=1e-12)


def test_authors_em_is_near_the_exact_refits(fields):
    """It stops when the log-likelihood does, so that the params are less exact than ours."""
    field = fields[0.3]
    exact = field.results["exact"]
    authors = mrf.authors_em(field.model, field.fit, exact.folds)
    error = acv.theta_errors(exact, authors).max()
    assert error <= 0.1 * acv.theta_errors(exact, field.results["no_adjustment"]).max()
    assert authors.evaluations["em_step"] == authors.diagnostics["steps"].sum()


def test_seconds_cover_all_folds_once(fields):
    seconds, cold, authors = mrf.fold_seconds(fields[0.3], 4, np.random.default_rng(0))
    assert len(seconds) == 4
    left_out = np.concatenate([result.folds.omitted for result in cold])
    assert sorted(np.concatenate(left_out)) == list(range(30))
    assert [len(result.folds) for result in authors] == [1, 1, 1, 1]
    assert (seconds.to_numpy() > 0).all()
    gaps = mrf.gaps_to(fields[0.3], cold)
    assert gaps.shape == (30,)
    assert gaps.max() <= 1e-5
    none = [fields[0.3].results["no_adjustment"]]
    expected = acv.theta_errors(fields[0.3].results["exact"], none[0])
    np.testing.assert_allclose(mrf.gaps_to(fields[0.3], none), expected)


def test_times_over_acv_in_total_and_net():
    seconds = pd.DataFrame(
        {
            "no_adjustment": [1.0],
            "infinitesimal_jackknife": [2.0],
            "exact": [5.0],
            "log_partition": [0.1],
        }
    )
    table = mrf.work(seconds, 10)
    assert table.over_acv["exact"] == 2.5
    assert table.net_of_scoring["exact"] == 4.0
    assert table.seconds["exact"] == 50.0


def test_choice_has_every_rung_at_every_coupling(data, fields):
    table = mrf.choice(data, [0.1, 0.3], acv.folds.leave_one_out(30))
    assert table.loc[0.3, "exact"] == pytest.approx(fields[0.3].results["exact"].loss, rel=1e-12)
    assert table.shape == (2, 3)


def test_choice_reuses_what_is_known(data, fields):
    folds = acv.folds.leave_one_out(30)
    table = mrf.choice(data, [0.1, 0.3], folds, fields)
    pd.testing.assert_frame_equal(table, mrf.choice(data, [0.1, 0.3], folds))


def test_larger_folds_are_balls_and_regions(data):
    runs = mrf.balls(data, 0.2, radii=(1,))
    assert list(runs) == ["ball of radius 1"]
    exact = runs["ball of radius 1"].results["exact"]
    assert len(exact.folds) == 30
    losses = mrf.buffered_loss(data, 0.2, 1)
    centres = [
        part[list(fold).index(i)]
        for i, (fold, part) in enumerate(zip(exact.folds, exact.losses, strict=True))
    ]
    assert losses == pytest.approx(np.mean(centres), rel=1e-12)
    parts = mrf.regions(data, 0.2, 4, 2, np.random.default_rng(0))
    every = [list(field.results["exact"].folds) for field in parts.values()]
    assert [sorted(np.concatenate(folds)) for folds in every] == [list(range(30))] * 2
    assert sorted(map(tuple, every[0])) != sorted(map(tuple, every[1]))


def test_coverage_is_that_of_the_estimates(fields):
    table = mrf.coverage({0.3: fields[0.3]}, (5, 30), 40, np.random.default_rng(0))
    results = fields[0.3].results
    pair = results["exact"], results["no_adjustment"]
    drawn = calibration.estimates(*pair, 5, 40, np.random.default_rng(0))
    none = table["no_adjustment"].loc[(0.3, 5)]
    assert none.coverage == drawn.covers.mean()
    assert none.narrower == pytest.approx((drawn.se / drawn.se_alone).median())


def test_theta_table_has_every_rung(fields):
    table, results = mrf.theta_table(fields[0.3]), fields[0.3].results
    assert table.shape == (30, 4)
    expected = acv.theta_errors(results["exact"], results["newton_step"])
    np.testing.assert_array_equal(table.newton_step, expected)


def test_difference_of_log_likelihoods_is_the_loss_of_an_island(data):
    """Without edges a tract's place on the map says nothing:
    both readings of the held-out loss agree.
    """
    apart = Areas(data.counts, np.zeros((0, 2), int), "simulated", "", "apart", data.outlines)
    field = mrf.every_rung(
        apart, 0.3, acv.folds.leave_one_out(30), (acv.infinitesimal_jackknife, acv.exact)
    )
    assert mrf.difference_loss(field) == pytest.approx(field.results["exact"].loss, rel=1e-10)


def test_difference_of_log_likelihoods_by_definition(data, fields):
    """The log density of all counts is -F less the log normaliser of the field without counts."""
    field = fields[0.3]
    assert mrf.difference_loss(field) != pytest.approx(field.results["exact"].loss, rel=1e-3)
    one, params = np.ones(30), mrf.em(field.model).params
    silent = field.model.potentials(
        0.0 * field.model.log_densities(params), field.model.scheme(one, data.edges)
    )
    normaliser = acv.graph.log_partition(*silent, field.model.elimination)
    expected = -field.model.objective(params, one) - normaliser
    assert mrf._log_density(field.model, params, one) == pytest.approx(expected, rel=1e-12)


def test_figures_draw(data, fields):
    fig, axes = figures.subplots(1, 3)
    values = np.where(np.arange(30) == 3, np.nan, data.counts)
    figures.areas(axes[0], data, values, "counts", vmin=0)
    shapes = axes[0].collections[0]
    assert len(shapes.get_paths()) == 30
    assert np.ma.getmaskarray(shapes.get_array())[3]
    seconds, _, _ = mrf.fold_seconds(fields[0.1], 2, np.random.default_rng(0))
    marks = figures.seconds_by_method(axes[1], mrf.work(seconds, 30))
    assert len(marks.lines) == 7
    chosen = mrf.choice(data, [0.1, 0.3], acv.folds.leave_one_out(30)[:4])
    assert len(figures.losses_against(axes[2], chosen).lines) == 6
    figures.plt.close(fig)


def test_figures_draw_holes():
    ring = np.array([[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]], float)
    hole = np.array([[1, 1], [1, 2], [2, 2], [2, 1], [1, 1]], float)
    data = Areas(np.array([1]), np.zeros((0, 2), int), "simulated", "", "hole", [[ring, hole]])
    fig, ax = figures.subplots()
    figures.areas(ax, data, [1.0], "", vmin=0, vmax=1)
    fig.canvas.draw()
    pixels = np.asarray(fig.canvas.buffer_rgba())

    def colour(x, y):
        across, up = ax.transData.transform((x, y)).astype(int)
        return pixels[pixels.shape[0] - up, across, :3].tolist()

    assert colour(1.5, 1.5) == [255, 255, 255]
    assert colour(3, 3) != [255, 255, 255]
    figures.plt.close(fig)


def test_em_never_raises_the_objective_and_sorts(fields):
    model, weights = fields[0.3].model, acv.folds.weights(30, [3, 20])
    params, values = fields[0.3].fit.params[::-1], []
    for _ in range(8):
        values.append(model.objective(params, weights))
        params = mrf.maximise(model, params, weights)
    assert (np.diff(values) < 0).all()
    switched = mrf.em(model, weights, params).params
    assert switched[0] < switched[1]
    np.testing.assert_allclose(switched, mrf.em(model, weights).params, rtol=0, atol=1e-8)
    with pytest.raises(EmptyState, match="the states hold"):
        mrf.em(model, start=np.array([-1e3, 3.0]))
