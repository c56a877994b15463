"""Law 1: units and, where a location is free, levels change nothing but parameters in proportion.

A penalty on a coefficient is in its units: l |b|^2 is l s^2 |b / s|^2.
"""

import warnings

import numpy as np
from hypothesis import strategies as st

from acvlib.models.mrf import areas as maps

from .doors import DOORS
from .law import RNG, Said, ask, cases, hold, same

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
            level = min(level, 10_000)  # beyond, scikit-learn's own solvers stumble
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", maps.Islands)
            borders = ask(maps.neighbours, areas, "rook")
        assert borders.to_numpy().sum() == (0 if lane else 2 * 17)
