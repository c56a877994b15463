"""Data sets: how they are read and scaled, and what is known of the real files."""

import os
import subprocess
import sys
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from acvbook import datasets
from acvbook.datasets import fetch, registry
from acvbook.datasets.columns import columns
from acvbook.datasets.mocap import Mocap
from acvbook.datasets.tagged import merge, simulated_text, to_iob2
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles.wrappers import raises
from sklearn.datasets import load_svmlight_file

from acvlib.inference import graph
from acvlib.models.mrf.areas import neighbours

DATA = Path(os.environ.get("ACVLIB_DATA", "/nonexistent"))
needs_real_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs $ACVLIB_DATA")


def test_import_is_light():
    code = "import sys, acvbook.datasets as d; d.data_sets(); "
    code += "print({'pandas', 'pooch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_part_keeps_what_the_whole_is_of():
    series = datasets.simulate_dodgers(np.random.default_rng(0))
    head = series.head(500)
    assert (len(head), len(head.day), head.sha256) == (500, 500, series.sha256)
    assert repr(series) == "Dodgers(dodgers: 50,400 five-minute counts, simulated)"
    raises(r"head\(0\) of a series of 50400", series.head, 0)
    genes = datasets.simulate_genomics(np.random.default_rng(0), 400)
    few = genes.take(20, 10)
    assert (few.means[few.train] == genes.means[genes.train[:20]]).all()
    assert (few.means[few.test] == genes.means[genes.test[:10]]).all()
    assert few.sha256 == genes.sha256
    assert set(genes.train) | set(genes.test) == set(range(400))
    check_replicates(genes)
    text = simulated_text("x", np.random.default_rng(0), (9, 8, 7), 5.0, 0.2).head(5, 4, 3)
    assert [len(part.words) for part in (text.train, text.valid, text.test)] == [5, 4, 3]
    assert repr(text) == "TaggedText(x: 5/4/3 sentences, simulated)"


@pytest.mark.parametrize("centred", [False, True])
def test_forest_is_scaled_to_unit_variance(centred):
    forest = datasets.simulate_covtype(np.random.default_rng(0), 20_000)
    examples = forest.spruce_fir(centred)
    varies = forest.X.std(axis=0) > 0
    assert_allclose(examples.X.std(axis=0)[varies], 1.0, rtol=1e-9)
    assert np.allclose(examples.X.mean(axis=0), 0.0, atol=1e-9) == centred
    assert_array_equal(examples.y, np.where(forest.cover == 1, 1.0, -1.0))
    assert (forest.spruce_fir(centred, constant=True).X[:, 54:] == 1.0).all()
    few = forest.take(np.flatnonzero(forest.X[:, 13] == 0)[:50])
    assert (few.spruce_fir().X[:, 13] == 0).all()


def test_original_traffic_becomes_the_canonical_file(tmp_path):
    """A game that ends on a full five minutes is on in that row or not, never in a missing one."""
    lines = [f"4/10/2005 {h}:{m:02d},{-1 if m == 5 else m}\n" for h in (0, 1) for m in (0, 5, 10)]
    (tmp_path / "Dodgers.data").write_text("".join(lines))
    game = "04/10/05,00:00:00,00:10:00,5,Pe\xf1a,W 1-0\n"
    (tmp_path / "Dodgers.events").write_text(game, encoding="latin-1")
    for inclusive, in_game in (("both", "101000"), ("left", "100000")):
        rows = fetch.canonical(tmp_path, inclusive).decode().splitlines()
        assert rows[:2] == ["timestamp,count,in_game", "2005-04-10 00:00,0,1"]
        assert "".join(row[-1] for row in rows[1:]) == in_game


def test_faces_are_reduced_to_means_and_recordings_scaled_by_the_reference_alone():
    faces = datasets.simulate_att_faces(np.random.default_rng(0))
    small = faces.reduced(4).take(np.arange(20))
    assert small.images.shape == (20, 28, 23)
    assert_allclose(small.images[3, 0, 1], faces.images[3, :4, 4:8].mean())
    raises("factor = 5 does not divide 112 x 92", faces.reduced, 5)
    rng = np.random.default_rng(1)
    a, b = (Mocap([rng.normal(size=(n, 12)) * n], 30, "simulated", "") for n in (30, 9))
    assert a.scaled().sequences[0].std(axis=0) == pytest.approx(1.0)
    assert_allclose(b.scaled(a).sequences[0], b.sequences[0] / a.sequences[0].std(axis=0))


def check_replicates(genes):
    """Rebuilt replicates keep the means and have the variance asked for, by their seed."""
    first, again = (genes.replicates(np.random.default_rng(1), 0.5) for _ in range(2))
    assert (first == again).all()
    assert_allclose(first.mean(axis=2), genes.means, atol=1e-12)
    assert_allclose(first.var(axis=2, ddof=1).mean(), 0.5, rtol=0.15)


@pytest.mark.parametrize("files", [True, False])
def test_scalings_of_songs(files, monkeypatch, tmp_path):
    if not files:
        monkeypatch.delenv("ACVLIB_DATA", raising=False)
        monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / name)
    songs = datasets.simulate_msd(np.random.default_rng(0), 20_000)
    variance, centred, rows = map(songs.regression, ("unit_variance", "centred", "unit_rows"))
    assert_allclose([variance.X.std(axis=0), centred.X.std(axis=0)], 1.0, rtol=1e-9)
    assert_allclose(centred.X.mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(np.linalg.norm(rows.X, axis=1), 1.0, rtol=1e-12)
    assert_array_equal(variance.y, (songs.year - 1922) / 89)


def test_the_map_of_the_stand_in_is_as_narrow():
    data = datasets.simulate_philadelphia(np.random.default_rng(0))
    assert graph.eliminate(384, data.edges, 2).width <= 15
    shapes = geopandas.GeoSeries([shapely.Polygon(*rings) for rings in data.outlines])
    assert np.array_equal(graph.check_edges(neighbours(shapes), 384), data.edges)


@needs_real_data
def test_real_files_are_as_described_and_as_published():
    june = datasets.load_philadelphia()
    assert june.counts.sum() == 3578
    assert graph.eliminate(384, june.edges, 2).width == 15
    tracts = geopandas.read_file(DATA / "philadelphia" / "tracts_2010.geojson")
    assert np.array_equal(graph.check_edges(neighbours(tracts), 384), june.edges)
    assert 1.29 < june.aspect < 1.31  # 40 degrees north
    with pytest.raises(KeyError, match="no column 'crimes'.*violent_2015_06"):
        datasets.load_philadelphia("crimes")
    genes = datasets.load_genomics()
    assert_allclose((genes.donors**2).sum(axis=2).mean() / 2, 0.21, atol=0.01)
    check_replicates(genes)
    abalone = datasets.load_libsvm("abalone")
    X, y = load_svmlight_file(str(DATA / "libsvm" / "abalone_scale.gz"), n_features=8)
    assert_allclose(abalone.scaled(), X.toarray(), atol=1e-6)
    assert_array_equal(abalone.y, y)
    results = datasets.load_giordano_results()
    assert results.genomics_seconds.n_params.loc[[4, 8]].unique().tolist() == [25325, 54797]
    assert results.genomics_seconds.n_folds.loc[6].tolist() == [7, 21, 35]
    errors = results.genomics_errors.xs("mean", axis=1, level=1)
    assert (errors.ij < errors.exact).all()
    assert (errors.test.loc[8] > errors.test.loc[7]).all()
    assert (errors.train.loc[8] < errors.train.loc[7]).all()
    summary = pd.read_csv(registry.find("msd", "summary_full_first12.csv"), index_col=0)
    quartiles = summary.loc[["min", "25%", "50%", "75%", "max"]]
    known = {name: law.quantiles[[0, 2, 3, 4, 6]] for name, law in columns("msd").items()}
    pd.testing.assert_frame_equal(quartiles, pd.DataFrame(known, quartiles.index), rtol=1e-4)
    tables = datasets.simulate_msd(np.random.default_rng(0), 100_000), datasets.load_msd()
    ours, theirs = (np.corrcoef(t.X[:, :12].T)[np.triu_indices(12, 1)] for t in tables)
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95


NAMED = st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 3))
LINES = ["-DOCSTART- O", "", "", "Ada NNP I-PER", "wrote VBD O", "", "-DOCSTART- O", "Bo NNP I-PER"]


@given(st.lists(NAMED, min_size=1, max_size=5))
def test_schemes_round_trip(spans):
    """IOB1 written independently: B- only behind an entity of the same type."""
    iob2 = [f"{'I' if i else 'B'}-{k}" if k else "O" for k, size in spans for i in range(size)]
    pairs = list(zip(["O", *iob2[:-1]], iob2, strict=True))
    iob1 = [f"I{t[1:]}" if t[0] == "B" and b[1:] != t[1:] else t for b, t in pairs]
    assert to_iob2(iob2) == to_iob2(iob1) == tuple(iob2)


def test_blank_lines_document_starts_and_merged_types():
    """Blank lines repeat, one -DOCSTART- has none behind it, and the last sentence none at all."""
    kept = datasets.read_columns(LINES)
    assert kept.words == (("-DOCSTART-",), ("Ada", "wrote"), ("-DOCSTART-",), ("Bo",))
    assert kept.tags == (("O",), ("B-PER", "O"), ("O",), ("B-PER",))
    merged = [merge(tag) for tag in ("O", "B-person", "I-group", "B-corporation", "I-product")]
    assert merged == ["O", "B-PER", "I-ORG", "B-ORG", "I-MISC"]
