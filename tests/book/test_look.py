"""The look of methods: told apart by everybody, and legible on a page."""

from itertools import combinations

import numpy as np
import pytest
from acvbook.figures import style

from acvlib.plots import RUNGS

STYLES = [*RUNGS.values(), style.NEW_DATA]
# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as seen with deuteranopia.
DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]
TO_XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]
WHITE = np.array([0.95047, 1.0, 1.08883])


def lab(colour):
    """CIE L*a*b* of an #rrggbb colour as it is seen with deuteranopia."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(DEUTERANOPIA) @ linear, 0.0, 1.0)
    x = np.array(TO_XYZ) @ seen / WHITE
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one, other):
    """CIE 1976 difference of two colours."""
    return np.linalg.norm(lab(one) - lab(other))


@pytest.mark.parametrize("pair", list(combinations(STYLES, 2)))
def test_methods_can_be_told_apart_with_deuteranopia(pair):
    assert difference(pair[0].colour, pair[1].colour) >= 15
    assert pair[0].marker != pair[1].marker


def test_nothing_else_has_the_colour_of_a_method():
    assert not {style.colour for style in STYLES} & set(style.COLOURS)


def test_black_and_white_are_a_hundred_apart():
    assert difference("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
