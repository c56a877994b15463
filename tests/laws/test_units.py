"""Law 1: units and, where a location is free, levels change nothing but parameters in proportion.

A penalty on a coefficient is in its units: l |b|^2 is l s^2 |b / s|^2.
"""

import warnings

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.stats import poisson

import acvlib as acv
from acvlib import models
from acvlib.models.mrf import areas as maps

from .doors import DOORS, compared_by
from .law import RNG, Said, ask, cases, hold, refused, same

LEVELS = (0, 65, -2017, 450_000)


def moved(value, column, scale, shift):
    """One column, or all of them, in another unit and at another level."""
    if isinstance(value, list):
        return [moved(own, column, scale, shift) for own in value]
    value = np.array(value, float)
    value[..., column] = (value[..., column] + shift) * scale
    return value


def followed(how, value, column, scale, shift, frames):
    """How an answer, or an input such as a penalty, follows the unit."""
    if how == "square of unit":
        value = np.array(value, float)
        value[(column,) * value.ndim] *= scale**2
        return value
    values = np.array(value.values, float)
    if how in ("density", "log per unit"):
        gain = frames * np.log(scale) if how == "density" else -np.log(scale)
        return Said(values + gain, value.unit)
    unit = np.array(np.broadcast_to(value.unit, values.shape))
    places = () if not values.ndim else (column,) if how == "per unit" else (..., column)
    if how == "in unit":
        values[places] += shift
    power = -1 if how == "per unit" else 1
    values[places] *= scale**power
    unit[places] *= scale**power
    return Said(values, unit)


@pytest.mark.filterwarnings("ignore:score of .* undefined")  # of counts that are all 0
@cases("units", [name for name, door in DOORS.items() if door.units])
def test_units_change_nothing(name):
    door = DOORS[name]
    ((key, (by_column, has_level, follow)),) = door.units.items()
    exponents = st.integers(-8, 8)
    drawn = {"level": st.sampled_from(LEVELS), "side": st.integers(0, 1)}

    @hold(door.examples, rng=RNG, exponent=exponents, **drawn)
    def check(rng, exponent, level, side):
        data = door.data(rng)
        one = data[key][0] if isinstance(data[key], list) else data[key]
        column = side * (one.shape[-1] - 1) if by_column else slice(None)
        scale = follow.get("scale", 10.0**exponent)
        if name.startswith("approx"):
            most = 1000 if "Poisson" in name else 10_000
            level = min(level, most)  # beyond, scikit-learn's own solvers stumble
        change = (column, scale, level if has_level else 0.0)
        other = data | {key: moved(data[key], *change)}
        expected = door.ask(**data)
        shape = np.shape(expected["posterior"].values) if "posterior" in expected else ()
        frames = shape[1] if len(shape) == 3 else 1
        for what, how in follow.items():
            if what in data:
                other[what] = followed(how, data[what], *change, frames)
            elif what in expected:
                expected[what] = followed(how, expected[what], *change, frames)
        same(ask(door.ask, **other), expected, door.share)


@cases("units", ["compare_models", "choose"], "of an exposure")
def test_rates_are_compared_as_counts(name):
    """The log density of a count is the same whatever its rate is per."""
    rng = np.random.default_rng(0)
    x, people = rng.normal(size=(40, 2)), rng.integers(1000, 9000, 40)
    counts = rng.poisson(people / 1000 * np.exp(0.3 * x[:, 0])) * 1.0
    folds = acv.folds.leave_one_out(40)

    def rates(unit, columns=2):
        y, exposure = unit * counts / people, people / unit
        return models.GLM(x[:, :columns], y, "poisson rate", sample_weight=exposure)

    def ask_of(one, two):
        return compared_by(name, {"one": one, "two": two}, folds, "exact")

    expected = ask_of(rates(1.0), rates(1.0, 1))
    numbers = expected.select_dtypes("number")
    for other in (ask_of(rates(1000.0), rates(7.0, 1)), ask_of(rates(7.0), rates(1.0, 1))):
        assert np.allclose(other[numbers.columns], numbers, rtol=1e-6, atol=1e-9)
    params = acv.exact(acv.fit(rates(1.0)), folds).params
    means = people * np.exp(params[:, 0] + (params[:, 1:] * x).sum(axis=1))
    assert np.isclose(expected.elpd["one"], poisson.logpmf(counts, means).sum())
    gaussian = models.GLM(x, counts / people, "gaussian", sample_weight=people)
    assert refused(ask_of, rates(1.0), gaussian)
    times = rng.gamma(2.0, size=40)
    measured = [models.GLM(x[:, :d], times, "poisson rate") for d in (1, 2)]
    assert refused(ask_of, measured[0], models.GLM(x, times, "gaussian"), words="no log densities")
    assert ask_of(*measured).elpd.isna().all()


@cases("units", ["HiddenMRF of a map"], "of a map")
def test_neighbours_do_not_depend_on_the_size_of_a_map(name):
    """Parcels with lanes between them, in metres of a country, and one area elsewhere."""
    import geopandas
    from shapely.geometry import box

    drawn = {"lane": st.sampled_from([0, 3]), "far": st.booleans()}

    @hold(4, **drawn)
    def check(lane, far):
        x, y = 1.2e6 + 12 * (np.arange(12) % 4), 6e6 + 12 * (np.arange(12) // 4)
        squares = [box(a, b, a + 12 - lane, b + 12 - lane) for a, b in zip(x, y, strict=True)]
        squares = squares + [box(0, 0, 1, 1)] if far else squares
        areas = geopandas.GeoSeries(squares)
        with warnings.catch_warnings(action="ignore", category=maps.Islands):
            borders = ask(maps.neighbours, areas, "rook")
        assert borders.to_numpy().sum() == (0 if lane else 2 * 17)
