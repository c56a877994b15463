"""The studies and figures of the chapter on hidden fields,
on a small map whose answers can be had otherwise.
"""

import numpy as np
import pytest
from acvbook import figures
from acvbook.datasets.philadelphia import hexagons
from acvbook.studies import mrf

import acvlib as acv
from acvlib.models import em
from acvlib.models.mrf.areas import Areas


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
    assert (table.em_minus_gradient <= 1e-6).all()
    assert (table.decrement <= 1e-6).all()
    np.testing.assert_allclose(table.high_rate, [np.exp(f.fit.params[1]) for f in fields.values()])


def test_errors_are_against_exact(fields):
    table = mrf.errors(fields)
    assert set(table.index.get_level_values("rung")) == set(fields[0.1].results) - {"exact"}
    exact, ij = (fields[0.3].results[name] for name in ("exact", "infinitesimal_jackknife"))
    expected = np.mean(abs(ij.fold_losses - exact.fold_losses) / exact.fold_losses)
    assert table.loc[(0.3, "infinitesimal_jackknife"), "relative_error"] == pytest.approx(expected)


def test_cold_em_finds_the_exact_refits(fields):
    field = fields[0.3]
    cold = mrf.cold_em(field.model, field.fit, field.results["exact"].folds)
    assert acv.theta_errors(field.results["exact"], cold).max() <= 1e-5
    assert cold.diagnostics["converged"].all()
    assert cold.evaluations["em_step"] > 30 * 5
    table = mrf.work(field._replace(results=field.results | {"cold_em": cold}))
    assert table.over_acv["infinitesimal_jackknife"] == 1.0
    assert "em_step" in table.counted["cold_em"]


def test_choice_has_every_rung_at_every_coupling(data, fields):
    table = mrf.choice(data, [0.1, 0.3], acv.folds.leave_one_out(30))
    assert table.loc[0.3, "exact"] == pytest.approx(fields[0.3].results["exact"].loss, rel=1e-12)
    assert table.shape == (2, 3)


def test_larger_folds_are_balls_and_regions(data):
    runs = mrf.larger_folds(data, 0.2, 4, np.random.default_rng(0), radii=(1,))
    assert list(runs) == ["ball of radius 1", "4 regions"]
    assert len(runs["ball of radius 1"].results["exact"].folds) == 30
    assert sorted(np.concatenate(runs["4 regions"].results["exact"].folds)) == list(range(30))
    losses = mrf.buffered_loss(data, 0.2, 1)
    exact = runs["ball of radius 1"].results["exact"]
    centres = [
        part[list(fold).index(i)]
        for i, (fold, part) in enumerate(zip(exact.folds, exact.losses, strict=True))
    ]
    assert losses == pytest.approx(np.mean(centres), rel=1e-12)


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
    one, params = np.ones(30), em(field.model).params
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
    bars = figures.seconds_by_method(axes[1], mrf.work(fields[0.1]))
    assert len(bars.patches) == 5
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
