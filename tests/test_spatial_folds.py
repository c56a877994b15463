"""Folds on graphs: balls by brute force, partitions into connected blocks, graphs in several
parts.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

import acvlib as acv
from acvlib import spatial_folds
from acvlib.models import HiddenMRF

GRID = [(i, i + 1) for i in range(30) if i % 6 != 5] + [
    (i, i + 6) for i in range(24)
]  # 5 rows of 6


def test_buffers_are_balls_on_the_grid():
    row, column = np.divmod(np.arange(30), 6)
    apart = abs(row[:, None] - row) + abs(column[:, None] - column)
    for radius in (0, 1, 3):
        folds = spatial_folds.balls(30, GRID, radius)
        assert all(
            np.array_equal(fold, np.flatnonzero(apart[i] <= radius)) for i, fold in enumerate(folds)
        )


def test_a_buffer_that_leaves_nothing_says_so():
    with pytest.raises(ValueError, match="radius 5: all 30 sites lie that close to site 14"):
        spatial_folds.buffered(30, GRID, 5)


def parts(n_sites, edges, sites):
    matrix = csr_matrix((np.ones(len(edges)), np.array(edges).T), shape=(n_sites, n_sites))[sites][
        :, sites
    ]
    return connected_components(matrix, directed=False)[0]


@settings(max_examples=30)
@given(k=st.integers(2, 12), seed=st.integers(0, 10**6))
def test_regions_are_a_partition_into_connected_blocks(k, seed):
    blocks = spatial_folds.regions(30, GRID, k, np.random.default_rng(seed))
    assert len(blocks) == k
    assert sorted(np.concatenate(blocks)) == list(range(30))
    assert all(parts(30, GRID, block) == 1 for block in blocks)


def test_regions_of_a_graph_in_several_parts():
    edges = [(0, 1), (1, 2), (4, 5)]  # 3 and 6 are islands
    blocks = spatial_folds.regions(7, edges, 2, np.random.default_rng(0))
    assert sorted(np.concatenate(blocks)) == list(range(7))
    with pytest.raises(ValueError, match="k = 8 regions of 7 sites"):
        spatial_folds.regions(7, edges, 8, np.random.default_rng(0))


def test_buffers_are_omitted_and_their_centres_scored():
    counts = np.random.default_rng(0).poisson(np.where(np.arange(30) % 6 < 3, 3, 15))
    model = HiddenMRF(counts, GRID, 0.5)
    fit, folds = acv.fit(model), spatial_folds.buffered(30, GRID, 1)
    result = acv.no_adjustment(fit, folds)
    expected = [
        model.heldout_loss(fit.params, fold)[list(fold).index(i)] for i, fold in enumerate(folds)
    ]
    assert np.array_equal(result.fold_losses, expected)
    assert np.array_equal(result.pointwise, expected)
    assert np.array_equal(np.concatenate(folds), np.concatenate(spatial_folds.balls(30, GRID, 1)))


@settings(max_examples=30)
@given(k=st.integers(2, 6), buffer=st.integers(0, 3), seed=st.integers(0, 10**6))
def test_regions_are_omitted_with_their_buffers_and_scored_without(k, buffer, seed):
    plain = spatial_folds.regions(30, GRID, k, np.random.default_rng(seed))
    buffered = spatial_folds.regions(30, GRID, k, np.random.default_rng(seed), buffer)
    apart = spatial_folds.distances(30, GRID)
    for block, omitted, scored in zip(plain, buffered.omitted, buffered.scored, strict=True):
        near = apart[block].min(axis=0) <= buffer
        assert np.array_equal(scored, block)
        assert np.array_equal(omitted, np.flatnonzero(near))


@settings(max_examples=30)
@given(st.data())
def test_balls_and_regions_of_any_graph_are_sound(data):
    """Islands, several parts and loops: distances by brute force, every site in one region."""
    n = data.draw(st.integers(3, 12))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1])
    edges = sorted(data.draw(st.sets(pairs, max_size=15)))
    radius, k = data.draw(st.integers(0, 3)), data.draw(st.integers(2, n))
    step = np.eye(n, dtype=int)
    for a, b in edges:
        step[a, b] = step[b, a] = 1
    near = np.linalg.matrix_power(step, radius) > 0
    if near.all(axis=1).any():
        with pytest.raises(ValueError, match=f"all {n} sites lie that close"):
            spatial_folds.balls(n, edges, radius)
    else:
        balls = spatial_folds.buffered(n, edges, radius)
        assert all(map(np.array_equal, balls, map(np.flatnonzero, near)))
        assert np.array_equal(np.concatenate(balls.scored), np.arange(n))
    blocks = spatial_folds.regions(n, edges, k, np.random.default_rng(0))
    assert sorted(np.concatenate(blocks)) == list(range(n))
    assert min(blocks.sizes) > 0


def test_a_large_map_needs_no_table_of_all_distances():
    side = 300
    sites = np.arange(side * side).reshape(side, side)
    across = np.stack([sites[:, :-1].ravel(), sites[:, 1:].ravel()], axis=1)
    down = np.stack([sites[:-1].ravel(), sites[1:].ravel()], axis=1)
    folds = spatial_folds.buffered(side * side, np.concatenate([across, down]), 2)
    assert folds.sizes.max() == 13
    assert len(folds) == side * side
