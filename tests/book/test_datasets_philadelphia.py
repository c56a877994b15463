"""Maps with counts: the tracts of Philadelphia where the files are, their stand-in,
and any geojson.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import shapely
from acvbook import datasets

from acvlib.inference import graph
from acvlib.models.mrf.areas import neighbours, read_features, shapes_of

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "philadelphia"
needs_real_data = pytest.mark.skipif(
    not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/philadelphia"
)


@needs_real_data
def test_real_tracts_are_narrow_enough_for_exact_sums():
    june = datasets.load_philadelphia()
    assert june.counts.sum() == 3578
    assert graph.eliminate(384, june.edges, 2).width == 15
    with pytest.raises(KeyError, match="no column 'crimes'.*violent_2015_06"):
        datasets.load_philadelphia("crimes")


@needs_real_data
def test_outlines_give_back_the_adjacency():
    june = datasets.load_philadelphia()
    features = read_features(DATA_FOLDER / "tracts_2010.geojson")
    assert np.array_equal(neighbours(shapes_of(features)), june.edges)
    assert 1.29 < june.aspect < 1.31  # 40 degrees north


def test_so_is_the_stand_in():
    data = datasets.simulate_philadelphia(np.random.default_rng(0))
    assert np.bincount(data.edges.ravel(), minlength=384).max() == 6
    assert graph.eliminate(384, data.edges, 2).width <= 15
    assert data.aspect == 1.0
    shapes = np.array([shapely.Polygon(*rings) for rings in data.outlines])
    assert np.array_equal(neighbours(shapes), data.edges)


def feature(x, y, count, **properties):
    ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
    return {
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {"n": count} | properties,
    }


@pytest.fixture
def write(tmp_path):
    def written(*features):
        path = tmp_path / "cells.geojson"
        path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        return path

    return written


def test_any_geojson_with_a_column_of_counts(write):
    """Three cells: two share a side, the third touches one of them in a corner;
    a fourth is an island of two parts.
    """
    island = feature(9, 9, 4)
    island["geometry"] = {
        "type": "MultiPolygon",
        "coordinates": [island["geometry"]["coordinates"]] * 2,
    }
    data = datasets.areas_from_map(
        write(feature(0, 0, 3), feature(1, 0, 7), feature(2, 1, 0), island), "n"
    )
    assert data.counts.tolist() == [3, 7, 0, 4]
    assert data.edges.tolist() == [[0, 1], [1, 2]]
    assert [len(rings) for rings in data.outlines] == [1, 1, 1, 2]
    assert data.in_degrees


def test_holes_turn_the_other_way(write):
    cell = feature(0, 0, 1)
    (ring,) = cell["geometry"]["coordinates"]
    cell["geometry"]["coordinates"] = [ring[::-1], (0.25 + 0.5 * np.array(ring)).tolist()]
    outer, hole = datasets.areas_from_map(write(cell), "n").outlines[0]
    assert outer.tolist() == ring
    assert hole.tolist() == (0.25 + 0.5 * np.array(ring))[::-1].tolist()


def test_bad_geojson_is_named(write):
    with pytest.raises(ValueError, match="row 0 has no column 'crimes'; it has n, name"):
        datasets.areas_from_map(write(feature(0, 0, 3, name="a")), "crimes")
    for bad in (-1, 0.5, None, "3"):
        with pytest.raises(ValueError, match=f"row 1: n = {bad!r}.* is no (whole )?number"):
            datasets.areas_from_map(write(feature(0, 0, 3), feature(1, 0, bad)), "n")
    point = {"geometry": {"type": "Point", "coordinates": [0, 0]}, "properties": {"n": 1}}
    with pytest.raises(ValueError, match="row 0 is no polygon but Point"):
        datasets.areas_from_map(write(point), "n")
