"""Hidden Markov random fields against enumeration; equal answers for equal graphs, or refusals."""

import autograd.numpy as anp
import geopandas
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import shapely
from autograd.scipy.special import gammaln, logsumexp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumerate import paths
from oracles.refit import derivatives
from oracles.wrappers import ByAutograd, raises
from scipy.sparse import coo_matrix, csc_array, csr_matrix

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.inference import graph
from acvlib.models import EmptyState, HiddenMRF
from acvlib.models.mrf.areas import Islands, neighbours
from acvlib.weighting import drop_latents, keep_latents

LINKS = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 3), (5, 4)]  # a ring with a tail; site 6 is an island
LISTED = [1, 9, 12, 2, 0, 8, 3]
TIMES = np.array([2, 1, 3, 1, 0, 1, 2])  # how often each count stands for itself
GRID = [(i, i + 1) for i in range(48) if i % 8 != 7]  # 6 rows of 8
GRID += [(i, i + 8) for i in range(40)]
EMPTY = [(20.0, 4, r"at coupling 20, state \d of the fit holds .* Lower the coupling")]
EMPTY += [(0.5, 0, r"with \S+ counts: its log rate")]
COUNTS, EDGES = np.array(LISTED), np.array(LINKS)
PARAMS = np.log([2.0, 8.0])
NAMES = list("qwertyu")
TWICE = ["q", *NAMES[:6]]
ALL = np.arange(7)


def enumerated(counts, edges, coupling, n_states, scheme, exposure=1.0, times=1.0):
    """F(params, weights) of Eqs. 4 and 5, by a sum over all states of the field."""
    counts, edges, z = np.array(counts), np.array(edges), paths(len(counts), n_states)
    agree = (z[:, edges[:, 0]] == z[:, edges[:, 1]]).astype(float)
    per = np.broadcast_to(exposure, len(counts))[:, None]

    def objective(params, weights):
        log_rate = params + np.log(per)
        density = counts[:, None] * log_rate - anp.exp(log_rate) - gammaln(counts[:, None] + 1.0)
        observed = anp.sum(weights * times * density[np.arange(len(counts)), z], axis=1)
        present = weights * (np.broadcast_to(times, len(counts)) > 0)
        both = present[edges[:, 0]] * present[edges[:, 1]]
        kept = both if scheme is drop_latents else np.ones(len(edges))
        return -logsumexp(observed + coupling * anp.sum(kept * agree, axis=1))

    return objective


def params_of(n_states):
    return np.log(np.array([2.0, 8.0, 4.0])[:n_states])


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    coupling=st.floats(-1, 3),
    n_states=st.integers(1, 3),
    scheme=st.sampled_from([keep_latents, drop_latents]),
    kind=st.sampled_from(["one", "real", "fold", "bootstrap"]),
    times=st.sampled_from([1.0, TIMES]),
)
def test_objective_and_derivatives_equal_enumeration(seed, coupling, n_states, scheme, kind, times):
    rng = np.random.default_rng(seed)
    weights = {
        "one": np.ones(7),
        "real": rng.uniform(0.2, 0.9, 7),
        "fold": acv.folds.weights(7, [1, 4]),
        "bootstrap": 1.0 * rng.multinomial(7, np.full(7, 1 / 7)),
    }[kind]
    exposure = rng.uniform(0.5, 4.0, 7)
    model = HiddenMRF(LISTED, LINKS, coupling, n_states, scheme, exposure, times)
    params = params_of(n_states)
    objective = enumerated(LISTED, LINKS, coupling, n_states, scheme, exposure, times)
    value, *expected = derivatives(objective, params, weights)
    for each in (model, ByAutograd(model)):
        ours = derivatives_of(each)
        found, gradient = ours.value_and_gradient(params, weights)
        assert found == pytest.approx(value, rel=1e-12, abs=1e-11)
        matrices = ours.hessian(params, weights), ours.cross_matrix(params, weights)
        for part, known in zip((gradient, *matrices), expected, strict=True):
            np.testing.assert_allclose(part, known, rtol=0, atol=1e-10)


@pytest.mark.parametrize("times", [np.ones(7), TIMES])
def test_heldout_loss_equals_enumeration(times):
    """-log p(x_t | x outside the fold): log-sum without t's count less log-sum with it, once."""
    objective, params = enumerated(LISTED, LINKS, 0.7, 2, keep_latents, 1.0, times), params_of(2)
    model, fold = HiddenMRF(LISTED, LINKS, 0.7, sample_weight=times), np.array([0, 3, 6])
    outside = acv.folds.weights(7, fold)
    joint = [objective(params, outside + np.eye(7)[t] / times[t]) for t in fold]
    expected = np.array(joint) - objective(params, outside)
    np.testing.assert_allclose(model.heldout_loss(params, fold), expected, rtol=1e-12)


@pytest.mark.parametrize(("coupling", "low", "message"), EMPTY)
def test_a_state_without_sites_or_counts_says_so(coupling, low, message, rng):
    left = np.arange(48) % 8 < 4
    counts = np.where(left, 0, 20)
    if low:
        counts = rng.poisson(np.where(left ^ (rng.random(48) < 0.15), low, 15))
    raises(message, acv.fit, HiddenMRF(counts, GRID, coupling), error=EmptyState)


def dense(edges=EDGES, n=7):
    matrix = np.zeros((n, n), int)
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = 1
    return matrix


def network(edges=EDGES, nodes=range(7)):
    made = nx.empty_graph(nodes)
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
TWO_WAYS = [
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
]


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
        for node, ball in zip(nodes, acv.folds.balls(model, form, 1), strict=True):
            assert set(nodes[ball]) == {node, *shuffled[node]}
        assert len(acv.folds.regions(model, form, 2, 0)) == 2
    raises("not by their places", acv.folds.balls, model, list(shuffled.edges), 1)


@pytest.mark.parametrize(("counts", "form", "message"), TWO_WAYS)
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
    assert model.log_partition(weights) == pytest.approx(logsumexp(0.7 * agree @ kept), rel=1e-12)
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
