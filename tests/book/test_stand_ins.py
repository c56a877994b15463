"""Stand-ins have the types, ranges and supports that the real data have, which are checked too.

What is typed here was measured on the real files and agrees with the README that each set has. The
columns of tables are in `columns.csv`, from which the stand-ins are drawn.
"""

import logging
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets import _SIMULATED, columns, msd, registry
from acvbook.datasets.tagged import TAGS, to_iob2
from oracles.wrappers import raises

SETS = _SIMULATED | {"msd": (datasets.load_msd, partial(datasets.simulate_msd, n_rows=20_000))}
KINDS = ("stand-in", "real")
TABLES = {
    "libsvm, abalone": lambda data: np.column_stack([data.X, data.y]),
    "libsvm, cpusmall": lambda data: np.column_stack([data.X, data.y]),
    "libsvm, svmguide3": lambda data: data.X,
    "covtype": lambda data: data.X[:, :10],
    "msd": lambda data: np.column_stack([data.year, data.X[:, :12]]),
}


@cache
def simulated(name, seed=0):
    with pytest.MonkeyPatch.context() as patch:  # a stand-in is that of a reader without data
        patch.delenv("ACVLIB_DATA", raising=False)
        patch.setattr(registry, "cache_folder", lambda name: registry.Path("/nonexistent") / name)
        return SETS[name][1](np.random.default_rng(seed))


@cache
def real(name):
    try:
        return SETS[name][0]()
    except datasets.DataNotFound:
        return None


def loaded(name, kind):
    data = simulated(name) if kind == "stand-in" else real(name)
    if data is None:
        pytest.skip("the real set is not here")
    return data


class Facts(NamedTuple):
    """Of an array: a value is a multiple of step, which is 0 where it is measured, not counted.

    free: by how much of the range a stand-in may exceed it, where no law bounds the values.
    """

    dtype: str
    shape: tuple
    least: float
    most: float
    median: float
    step: float = 0.0
    distinct: int = 0
    free: float = 0.0


def lengths(parts):
    return np.array([len(part) for part in parts])


def text_facts(name, *splits):
    """(set, what, how to take it, facts) of tags, and of how long sentences of each split are."""
    for split, (n, most, median, free) in zip(("train", "valid", "test"), splits, strict=True):
        facts = Facts("int64", (n,), 1, most, median, 1, free=free)
        yield name, split, lambda data, split=split: lengths(getattr(data, split).words), facts
    facts = Facts("int64", (None,), 0, 8, 0, 1, 9)
    yield name, "tags", lambda data: tag_numbers(data.train.tags), facts


def tag_numbers(tags):
    return np.array([TAGS.index(tag) for sentence in tags for tag in sentence])


ARRAYS = [
    ("dodgers", "counts", lambda d: d.counts, Facts("int64", (50_400,), -1, 90, 21, 1, 71, 0.1)),
    ("dodgers", "in_game", lambda d: d.in_game, Facts("bool", (50_400,), 0, 1, 0, 1, 2)),
    ("libsvm, svmguide3", "y", lambda d: d.y, Facts("float64", (1243,), -1, 1, -1, 1, 2)),
    ("libsvm, w2a_standin", "X", lambda d: d.X, Facts("float64", (3470, 300), 0, 1, 0, 1, 2)),
    ("libsvm, w2a_standin", "y", lambda d: d.y, Facts("float64", (3470,), -1, 1, -1, 1, 2)),
    ("libsvm, a9a", "X", lambda d: d.X, Facts("float64", (32_561, 123), 0, 1, 0, 1, 2)),
    ("libsvm, a9a", "y", lambda d: d.y, Facts("float64", (32_561,), -1, 1, -1, 1, 2)),
    ("covtype", "codes", lambda d: d.X[:, 10:], Facts("float64", (397_050, 44), 0, 1, 0, 1, 2)),
    ("covtype", "cover", lambda d: d.cover, Facts("int64", (397_050,), 1, 7, 2, 1, 7)),
    ("att_faces", "images", lambda d: d.images,
     Facts("float64", (400, 112, 92), 0, 251 / 255, 0.44, 1 / 255, 250, 0.05)),
    ("att_faces", "person", lambda d: d.person, Facts("int64", (400,), 0, 39, 19.5, 1, 40)),
    ("genomics", "means", lambda d: d.means,
     Facts("float64", (1000, 14), -3.96481078, 4.87723725, 0.0, free=0.2)),
    ("genomics", "donors", lambda d: d.donors,
     Facts("float64", (50, 14, 3), -2.949254333, 3.835688667, 0.0, free=0.2)),
    ("genomics", "train", lambda d: d.train, Facts("int64", (700,), 0, 999, 500, 1, 700)),
    ("mocap", "frames", lambda d: np.concatenate(d.sequences),
     Facts("float64", (None, 12), -97.76, 126.852, 0.0, 0.001, free=0.5)),
    ("mocap", "lengths", lambda d: lengths(d.sequences), Facts("int64", (124,), 37, 100, 100, 1)),
    ("mocap, 10 fps", "frames", lambda d: np.concatenate(d.sequences),
     Facts("float64", (None, 12), -94.256, 115.524, 0.0, 0.001, free=0.5)),
    ("mocap, 10 fps", "lengths", lambda d: lengths(d.sequences),
     Facts("int64", (124,), 13, 100, 40.5, 1)),
    ("mocap, long", "frames", lambda d: d.sequences[0],
     Facts("float64", (1484, 12), -69.549, 111.538, 0.0, 0.001, free=0.5)),
    ("philadelphia", "counts", lambda d: d.counts, Facts("int64", (384,), 0, 49, 7, 1, 33)),
    ("philadelphia, May 2016", "counts", lambda d: d.counts,
     Facts("int64", (384,), 0, 45, 8, 1, 37)),
    ("philadelphia, toy", "counts", lambda d: d.counts, Facts("int64", (21,), 6, 119, 46, 1, 19)),
    *text_facts("conll2003", (14_987, 113, 9, 0), (3_466, 109, 10, 0), (3_684, 124, 8, 0)),
    *text_facts("wnut17", (3_394, 41, 18, 0.5), (1_009, 82, 13, 0), (1_287, 105, 15, 0)),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "take", "facts"),
    [pytest.param(name, take, facts, id=f"{name}: {what}") for name, what, take, facts in ARRAYS],
)
def test_arrays(name, take, facts, kind):
    values = take(loaded(name, kind))
    reach = facts.most - facts.least
    assert values.dtype == facts.dtype
    known = [(n, m) for n, m in zip(values.shape, facts.shape, strict=True) if m]
    assert all(n == m for n, m in known)
    values = values.astype(float)
    if facts.step:
        multiples = values / facts.step
        np.testing.assert_allclose(multiples, np.round(multiples), atol=1e-6)
    distinct = len(np.unique(values))
    if kind == "real":
        assert (values.min(), values.max()) == pytest.approx((facts.least, facts.most))
        assert np.median(values) == pytest.approx(facts.median, abs=0.02 * reach)
        assert distinct == facts.distinct or not facts.distinct
    else:
        assert facts.least - facts.free * reach * (facts.least != 0) <= values.min()
        assert values.max() <= facts.most + facts.free * reach
        assert np.ptp(values) >= 0.4 * reach
        assert abs(np.median(values) - facts.median) <= 0.25 * reach
        assert 0.5 * facts.distinct <= distinct
        assert distinct <= 1.2 * facts.distinct or not facts.distinct


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "number", "column"),
    [
        pytest.param(name, number, column, id=f"{name}: {what}")
        for name in TABLES
        for number, (what, column) in enumerate(columns.columns(name.split()[-1]).items())
    ],
)
def test_columns_of_tables(name, number, column, kind):
    """Zeros, steps, range and quantiles; the songs at hand are a few of those that are meant."""
    values = TABLES[name](loaded(name, kind))[:, number]
    others = values[values != 0] if column.zeros else values
    few = kind == "real" and name == "msd"
    assert values.dtype == float
    assert len(values) == {"msd": 1176}.get(name) if few else len(values) > 1000
    assert column.quantiles[0] - 1e-6 <= others.min() <= others.max()
    assert others.max() <= column.quantiles[-1] + 1e-6
    if column.quantiles[0] > 0:
        assert np.mean(values == 0) == pytest.approx(column.zeros, abs=0.04)
    if column.step > 1e-4:
        multiples = values / column.step
        np.testing.assert_allclose(multiples, np.round(multiples), atol=1e-6)
    # Shares up to each quantile, counting values that equal it once as above and once as below.
    for level, quantile in zip(columns.LEVELS, column.quantiles, strict=True):
        slack = 0.15 if few else 0.04
        near = 0.01 * abs(quantile) + column.step
        assert np.mean(others < quantile - near) <= level + slack
        assert np.mean(others <= quantile + near) >= level - slack
    distinct = len(np.unique(values))
    if column.distinct and kind == "real":
        assert distinct == column.distinct
        ends = column.quantiles[0], column.quantiles[-1]
        assert (others.min(), others.max()) == pytest.approx(ends, abs=1e-7)
    elif column.distinct and column.step > 1e-4:
        assert column.distinct / 2 <= distinct <= 5 * column.distinct


def run_lengths(flags):
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    return np.diff(edges)[::2]


@pytest.mark.parametrize("kind", KINDS)
def test_traffic_has_nights_games_and_gaps(kind):
    data = loaded("dodgers", kind)
    np.testing.assert_array_equal(data.day, np.arange(50_400) // 288 % 7)
    missing = run_lengths(~data.observed)
    assert (missing[0], missing.size, missing.sum(), data.observed.argmax()) == (379, 55, 2903, 379)
    counts = np.where(data.observed, data.counts, np.nan)
    assert 300 < (counts == 0).sum() < 800
    assert np.nanmean(counts) == pytest.approx(20.915, abs=5e-4 if kind == "real" else 0.8)
    hours = np.nanmean(counts.reshape(175, 24, 12), axis=(0, 2))
    assert hours[3] < 3.5
    assert hours[8:19].min() > 24.0
    means = [np.nanmean(counts[data.day == day]) for day in range(7)]
    np.testing.assert_allclose(means, [16.7, 19.5, 23.1, 22.9, 22.5, 23.2, 18.7], atol=0.9)
    games = run_lengths(data.in_game)
    assert games.size == 79 if kind == "real" else 75 < games.size < 90
    ends = np.flatnonzero(np.diff(data.in_game.astype(int)) == -1)
    after = np.concatenate([counts[end : end + 6] for end in ends])
    usual = np.concatenate([counts[end + 288 : end + 294] for end in ends if end + 294 < 50_400])
    assert 8 < np.nanmean(after) - np.nanmean(usual) < 22


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "outside", "begins"),
    [("conll2003", 0.8336, [6600, 7140, 6321, 3438]), ("wnut17", 0.9496, [660, 548, 485, 282])],
)
def test_tags(name, outside, begins, kind):
    data = loaded(name, kind)
    exact = kind == "real"
    tags = tag_numbers(data.train.tags)
    assert np.mean(tags == 0) == pytest.approx(outside, abs=1e-4 if exact else 0.01)
    counts = np.bincount(tags)[1::2]
    np.testing.assert_allclose(counts / sum(begins), np.divide(begins, sum(begins)),
                               atol=1e-9 if exact else 0.06)  # fmt: skip
    for sentence in data.train.tags[:200]:
        assert to_iob2(sentence) == tuple(sentence)
    assert data.shareable == (name != "conll2003" or not exact)


@pytest.mark.parametrize("name", SETS)
def test_real_sets_say_what_they_are(name):
    said = {"covtype": "real, partial", "msd": "real, partial", "genomics": "rebuilt"}
    said["libsvm, w2a_standin"] = "real, partial"
    data = loaded(name, "real")
    assert data.provenance == said.get(name, "real")
    if not name.startswith("philadelphia"):  # one checksum of two files
        assert data.sha256 in registry.get(name.partition(",")[0]).files.values()


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    monkeypatch.delenv("ACVLIB_DATA", raising=False)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache"


def asked_for(name):
    """As a chapter asks for it: songs are simulated, whether or not there are real ones."""
    rng = np.random.default_rng(0)
    return SETS[name][1](rng) if name == "msd" else datasets.load_or_simulate(name, rng)


@pytest.mark.parametrize("name", SETS)
def test_a_stand_in_says_so_once_and_hangs_on_the_seed_alone(no_data, caplog, name):
    with caplog.at_level(logging.WARNING):
        data = asked_for(name)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{name}: SIMULATED" in caplog.text
    assert data.provenance == "simulated"
    assert "simulated" in repr(data)
    assert data.sha256 == simulated(name).sha256
    assert SETS[name][1](np.random.default_rng(1)).sha256 != data.sha256
    raises(f"{name.split(',')[0]}: no .* To get it: ", SETS[name][0], error=datasets.DataNotFound)


@pytest.mark.parametrize(
    ("name", "file"), [("dodgers", "dodgers_counts.csv"), ("msd", msd.ROWS_FILE)]
)
def test_a_corrupt_file_is_never_stood_in_for(no_data, name, file):
    (no_data / name).mkdir(parents=True)
    (no_data / name / file).write_text("timestamp,count,in_game\n")
    raises(f"{file}: sha256 is", asked_for, name, error=datasets.DataCorrupt)


@pytest.mark.parametrize("name", SETS)
def test_a_mistyped_folder_is_never_stood_in_for(monkeypatch, tmp_path, name):
    monkeypatch.setenv("ACVLIB_DATA", str(tmp_path / "nowhere"))
    raises("ACVLIB_DATA=.*nowhere is not a directory", asked_for, name, error=NotADirectoryError)
    with pytest.raises(KeyError, match="no simulator for 'giordano_results'"):
        datasets.load_or_simulate("giordano_results", np.random.default_rng(0))
