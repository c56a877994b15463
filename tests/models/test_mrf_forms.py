"""Graphs and maps as users have them: equal answers for equal graphs, refusals by name."""

import geopandas
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import shapely
import test_mrf
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumerate import paths
from oracles.wrappers import raises
from scipy.sparse import coo_matrix, csc_array, csr_matrix
from scipy.special import logsumexp

import acvlib as acv
from acvlib.inference import graph
from acvlib.models import HiddenMRF
from acvlib.models.mrf.areas import Islands, neighbours
from acvlib.weighting import drop_latents, keep_latents

COUNTS, EDGES = np.array(test_mrf.COUNTS), np.array(test_mrf.EDGES)
PARAMS = np.log([2.0, 8.0])
NAMES = list("qwertyu")
TWICE = ["q", *NAMES[:6]]
ALL = np.arange(7)


def dense(edges=EDGES, n=7):
    matrix = np.zeros((n, n), int)
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = 1
    return matrix


def network(edges=EDGES, nodes=range(7)):
    made = nx.Graph()
    made.add_nodes_from(nodes)
    made.add_edges_from(edges.tolist() if isinstance(edges, np.ndarray) else edges)
    return made


def same(model):
    plain = HiddenMRF(COUNTS, EDGES, 0.7)
    fold = np.array([1, 4])
    weights = acv.folds.weights(7, fold)
    both = [{frozenset(pair) for pair in edges.tolist()} for edges in (model.edges, EDGES)]
    assert both[0] == both[1]
    value = plain.objective(PARAMS, weights)
    assert model.objective(PARAMS, weights) == pytest.approx(value, rel=1e-13)
    losses = plain.heldout_loss(PARAMS, fold)
    np.testing.assert_allclose(model.heldout_loss(PARAMS, fold), losses, rtol=1e-12)


FORMS = [EDGES.tolist(), network(), dense(), set(map(tuple, EDGES.tolist()))]
FORMS += [zip(*EDGES.T.tolist(), strict=True), dense().astype(bool)]
FORMS += [dense().astype(np.uint8).tolist(), csr_matrix(dense()), csc_array(dense().astype(bool))]
FORMS += [coo_matrix(dense().astype(np.float32)), pd.DataFrame(dense(), NAMES, NAMES)]
FORMS += [nx.to_scipy_sparse_array(network())]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_graph_gives_the_same_model(form):
    same(HiddenMRF(COUNTS, form, 0.7))


def test_nodes_are_sites_by_their_names_and_folds_of_a_graph_go_by_these_too():
    """In the order of the nodes or rows, to which counts, exposure and weights are put."""
    named = nx.relabel_nodes(network(), dict(enumerate(NAMES)))
    frame = pd.DataFrame(dense(), NAMES, NAMES)
    counts = pd.Series(COUNTS, NAMES)
    exposure = pd.Series(np.arange(1.0, 8.0), NAMES)
    losses = HiddenMRF(COUNTS, EDGES, 0.7, exposure=exposure.to_numpy()).heldout_loss(PARAMS, ALL)
    places = np.array([3, 1, 0, 2, 4, 6, 5])
    other = nx.relabel_nodes(network(nodes=places.tolist()), dict(enumerate(NAMES)))
    for form, order in ((named, ALL), (other, places)):
        for observed, people in ((counts, exposure[::-1]), (counts[::-1], exposure)):
            model = HiddenMRF(observed, form, 0.7, exposure=people)
            np.testing.assert_allclose(model.heldout_loss(PARAMS, ALL), losses[order], rtol=1e-12)
    raises("names to all or to none", HiddenMRF, COUNTS, named, 0.7, exposure=exposure[::-1])
    with pytest.raises(ValueError, match="put the graph in the order of the data"):
        HiddenMRF(counts[::-1], frame, 0.7, exposure=exposure[::-1])
    for by_number in (network(), EDGES):
        same(HiddenMRF(pd.Series(COUNTS), by_number, 0.7, sample_weight=pd.Series(1.0, ALL[::-1])))
    for model in (HiddenMRF(COUNTS, named, 0.7), HiddenMRF(COUNTS, frame, 0.7)):
        assert acv.folds.leave_one_out(model).labels.tolist() == list(NAMES)
    # Edges of names were read as places: balls held sites that are no neighbours
    nodes = np.array([3, 1, 0, 2, 4, 6, 5])
    shuffled = network(nodes=nodes.tolist())
    model = HiddenMRF(pd.Series(COUNTS), shuffled, 0.7)
    frame = pd.DataFrame(dense(), ALL, ALL)
    for form in (shuffled, network(), frame, model.edges):
        balls = acv.folds.balls(model, form, 1)
        for node, ball in zip(nodes, balls, strict=True):
            assert set(nodes[ball]) == {node, *shuffled[node]}
        assert len(acv.folds.regions(model, form, 2, 0)) == 2
    raises("not by their places", acv.folds.balls, model, list(shuffled.edges), 1)


@pytest.mark.parametrize(
    ("counts", "form", "message"),
    [
        (COUNTS, network(EDGES + 1, range(1, 8)), "not by their places .*: give names to both"),
        (pd.Series(COUNTS, range(1, 8)), EDGES, "not by their places"),
        (pd.Series(COUNTS, NAMES)[::-1], network(), "the index of counts differs"),
        (COUNTS[:6], network(), "the graph has 7 nodes, and there are 6 sites"),
        (COUNTS, network().to_directed(), "directed"),
        (COUNTS, network([(1, 2, {"weight": 0.5})]), r"edge \(1, 2\) has weight 0.5: one coupling"),
        (COUNTS, nx.MultiGraph([*EDGES.tolist(), (1, 0), (5, 6), (6, 5)]), "more than once"),
        (COUNTS, network(np.append(EDGES, [[6, 6]], 0)), "joins a site to itself"),
        (pd.Series(COUNTS, [0, 0, *range(2, 7)]), network(), "the index of counts differs"),
        (COUNTS, dense() * 0.5, "entries are 0 or 1; found 0.5: one coupling"),
        (pd.Series(COUNTS, TWICE), pd.DataFrame(dense(), TWICE, TWICE), "2 sites are named 'q'"),
        (COUNTS, pd.DataFrame(dense(), NAMES, NAMES[::-1]), "the same sites; got rows"),
    ],
)
def test_graphs_that_can_be_read_in_two_ways_or_none_are_refused(counts, form, message):
    raises(message, HiddenMRF, counts, form, 0.7)


def test_graphs_that_are_too_wide_are_refused_when_the_model_is_made_if_no_restart_can_help():
    """How soon: benchmarks/doors.py."""
    whole, drawn = np.ones((200, 200)) - np.eye(200), nx.gnm_random_graph(5000, 200_000, seed=1)
    for n, wide, width in ((200, whole, "199"), (5000, drawn, r"\d{2,4}")):
        with pytest.raises(graph.TooWide, match=f"reaches width {width}: tables of 2") as caught:
            HiddenMRF(np.arange(n), wide, 0.5)
        assert "limit of 2 GiB" in str(caught.value)
    # A 12 x 12 grid of three states: too wide by min-fill, too, and refused only there.
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12))
    model = HiddenMRF(np.arange(144), grid, 0.5, 3)
    with pytest.raises(graph.TooWide, match="best of 20 orders has width 15"):
        model.objective(np.zeros(3), np.ones(144))
    narrow = nx.convert_node_labels_to_integers(nx.grid_2d_graph(20, 8))
    assert HiddenMRF(np.arange(160), narrow, 0.5).elimination.width < 14


@pytest.mark.parametrize("scheme", [keep_latents, drop_latents])
def test_log_partition_is_what_the_objective_leaves_out(scheme):
    """exp(-F - log Z), summed over the counts of one site, is 1: a distribution."""
    z = paths(7, 2)
    agree = z[:, EDGES[:, 0]] == z[:, EDGES[:, 1]]
    model = HiddenMRF(COUNTS, EDGES, 0.7, scheme=scheme)
    assert model.log_partition() == pytest.approx(logsumexp(0.7 * agree.sum(1)), rel=1e-12)
    weights = np.array([1, 0, 0.5, 1, 1, 1, 1])
    kept = scheme(weights, EDGES).edge
    expected = logsumexp(0.7 * agree @ kept)
    assert model.log_partition(weights) == pytest.approx(expected, rel=1e-12)
    lone = [HiddenMRF([n, 1], [(0, 1)], 0.7, 1) for n in range(2, 60)]
    first = [-m.objective(PARAMS[:1], np.ones(2)) - m.log_partition() for m in lone]
    other = -2.0 + np.log(2.0)
    ends = [np.exp(-2.0), 2.0 * np.exp(-2.0)]
    assert np.exp(logsumexp(first) - other) + sum(ends) == pytest.approx(1.0, rel=1e-10)


# maps

BOXES = {  # a long side with two areas beside it, a corner, a hole with an area in it, two islands
    "long": shapely.box(0, 0, 1, 3),
    "low": shapely.box(1, 0, 2, 1),
    "middle": shapely.box(1, 1, 2, 2),  # its corners are none of `long`
    "corner": shapely.box(2, 2, 3, 3),
    "ring": shapely.box(10, 10, 14, 14) - shapely.box(11, 11, 13, 13),
    "inside": shapely.box(11, 11, 13, 13),
    "parts": shapely.MultiPolygon([shapely.box(20, 0, 21, 1), shapely.box(3, 2, 4, 3)]),
    "alone": shapely.box(30, 30, 31, 31),
}


def frame():
    columns = {"n": np.arange(1, 9), "people": np.linspace(1, 2, 8)}
    return geopandas.GeoDataFrame(columns, index=list(BOXES), geometry=list(BOXES.values()))


def touching(shapes, rook):
    """Neighbours by shapely: the same point, or a border of positive length."""
    pairs = []
    for i, a in enumerate(shapes):
        for j in range(i + 1, len(shapes)):
            both = a.intersection(shapes[j])
            pairs += [(i, j)] if (both.length > 0 if rook else not both.is_empty) else []
    return pairs


@pytest.mark.parametrize("contiguity", ["queen", "rook"])
def test_neighbours_are_those_of_shapely(contiguity):
    """Also where corners lie on another's side, in holes, and of areas in several parts."""
    table = frame()
    expected = touching(list(BOXES.values()), contiguity == "rook")
    with pytest.warns(Islands, match=r"1 areas have no neighbours, such as those of rows \[7\]"):
        borders = neighbours(table, contiguity)
    model = HiddenMRF(table["n"], borders, 0.5, exposure=table["people"])
    assert sorted(map(tuple, model.edges.tolist())) == expected
    turned = HiddenMRF(table["n"][::-1], borders, 0.5, exposure=table["people"])
    assert sorted(map(tuple, turned.edges.tolist())) == expected
    assert np.array_equal(turned.counts, model.counts)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_neighbours_of_random_tilings_are_those_of_shapely(seed):
    """Voronoi cells, turned, moved far away and scaled: no coordinates are special."""
    points = shapely.MultiPoint(np.random.default_rng(seed).random((12, 2)))
    cells = list(shapely.voronoi_polygons(points).geoms)
    turned = geopandas.GeoSeries(cells).rotate(33, (0, 0)).scale(1e4, 1e4, 1, (0, 0))
    moved = turned.translate(5e5, 6e6)
    tables = (np.triu(neighbours(moved, kind)) for kind in ("rook", "queen"))
    rook, queen = (set(zip(*table.nonzero(), strict=True)) for table in tables)
    assert set(touching(cells, rook=True)) <= rook <= queen


@pytest.mark.filterwarnings("ignore::acvlib.models.mrf.areas.Islands")
def test_bad_maps_are_named():
    table = frame()
    for last, message in (
        (None, "row 7 is no polygon but None"),
        (shapely.Polygon(), "row 7 is no polygon but POLYGON EMPTY"),
        (shapely.Point(1, 2), "row 7 is no polygon but POINT"),
        (BOXES["parts"], "rows 6 and 7 are the same area twice"),
    ):
        raises(message, neighbours, table.set_geometry([*table.geometry[:7], last]))
    raises("unknown contiguity 'bishop'", neighbours, table, "bishop")
