"""Plots of a series with its folds, and of the errors of methods, in one style."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date
from typing import Any, NamedTuple

import numpy as np

from .checks import check_kind, in_order_of, index_of, real_array, require
from .folds import Folds, weights

require("matplotlib", extra="plots")


class Style(NamedTuple):
    """How a method looks in every figure."""

    label: str
    colour: str
    marker: str

    @property
    def look(self) -> dict:
        """Settings for `ax.plot`."""
        return {"label": self.label, "color": self.colour, "marker": self.marker}


# Any two of these colours can be told apart with deuteranopia, too.
RUNGS = {
    "no_adjustment": Style("no adjustment", "#999999", "s"),
    "as_printed": Style("Theorem 3.1 as printed", "#880e4f", "v"),
    "infinitesimal_jackknife": Style("infinitesimal jackknife", "#3f7fd9", "o"),
    "frozen_newton": Style("one frozen step", "#e69f00", "D"),
    "newton_step": Style("one Newton step", "#2e7d32", "p"),
    "exact": Style("exact refit", "#000000", "P"),
    "treecv": Style("TreeCV", "#4a148c", "X"),
}


def series(ax: Any, time: Any, values: Any, folds: Iterable) -> Any:
    """Plot a series in time with the sites of the folds shaded; nan, or masked, leaves a gap.

    A shade ends half way to the next site that is not left out. folds: none, or such as methods
    take; time: numbers or dates. Series are lined up by their index.
    """
    index = time if hasattr(time, "get_indexer") else index_of(time, values)
    values = in_order_of(index, "values", values)
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(float), np.nan)
    time, values = _instants(time), real_array("values", values, 1, finite=False)
    if len(time) != len(values):
        raise ValueError(f"{len(values)} values at {len(time)} times: give one a time")
    folds = folds if isinstance(folds, Folds) else Folds(folds, None, len(time))
    folds.check_index(index)
    left_out = np.zeros(len(time), bool)
    if len(folds):
        left_out = weights(len(time), Folds.of(folds, len(time)).omitted.sites) == 0.0
    order = np.argsort(time, kind="stable")
    time, values, left_out = time[order], values[order], left_out[order]
    half = np.diff(time) / 2
    edges = np.concatenate([time[:1] - half[:1], time[:-1] + half, time[-1:] + half[-1:]])
    switches = np.flatnonzero(np.diff(left_out, prepend=False, append=False))
    for first, last in switches.reshape(-1, 2):
        ax.axvspan(edges[first], edges[last], color="#e57373", alpha=0.3, lw=0)
    ax.plot(time, values, lw=0.5, color="#00838f")
    if time.dtype.kind == "M":
        dates = require("matplotlib.dates", extra="plots")
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(ax.xaxis.get_major_locator()))
    return ax


def error_ladder(ax: Any, errors: Mapping[str, np.ndarray]) -> Any:
    """Plot one box a method of the folds' parameter errors in standard errors, on a log axis.

    Where errors are 0 the axis is linear below the least of the others.
    """
    settings = {"whis": (5, 95), "widths": 0.6, "showfliers": False, "patch_artist": True}
    check_kind("errors", errors, Mapping)
    if not errors:
        raise ValueError("errors are empty: give those of one method or more")
    boxes = [real_array(f"errors of {name}", values, 1) for name, values in errors.items()]
    if not all(box.size for box in boxes):
        raise ValueError("some errors are empty: give those of one fold or more of each method")
    rungs = [RUNGS.get(method, Style(str(method), "#616161", "o")) for method in errors]
    names = [rung.label.replace(" ", "\n", 1) for rung in rungs]
    drawn = ax.boxplot(boxes, medianprops={"color": "black"}, **settings)
    for box, rung in zip(drawn["boxes"], rungs, strict=True):
        box.set(facecolor=rung.colour, alpha=0.75)
    ax.set_xticks(range(1, len(names) + 1), names)
    every = np.concatenate(boxes)
    if bad := [name for name, box in zip(errors, boxes, strict=True) if not (box >= 0.0).all()]:
        raise ValueError(f"errors of {bad[0]} are negative: give their sizes, by np.abs")
    if (every > 0.0).all():
        ax.set_yscale("log")
    else:
        ax.set_yscale("symlog", linthresh=every[every > 0.0].min(initial=1.0))
        ax.set_ylim(bottom=0.0)
    ax.set_ylabel("parameter error (standard errors)")
    return ax


def _instants(time):
    """Real numbers, or dates of any class as datetime64, which can be halved (n,)."""
    given = np.asarray(time)
    if given.dtype == object:  # dates, datetimes, and Periods of pandas
        moments = [each.to_timestamp() if hasattr(each, "to_timestamp") else each for each in given]
        if moments and all(isinstance(each, date) for each in moments):
            zoned = [getattr(each, "tzinfo", None) is not None for each in moments]
            pairs = zip(moments, zoned, strict=True)
            plain = [m.astimezone(UTC).replace(tzinfo=None) if zone else m for m, zone in pairs]
            given = np.array(plain, "datetime64[us]")
    if given.dtype.kind != "M":
        return real_array("time", time, 1)
    if given.ndim != 1 or np.isnat(given).any():
        raise ValueError(f"time of shape {given.shape} must be 1-d, without NaT: drop such sites")
    return given.astype("datetime64[us]")
