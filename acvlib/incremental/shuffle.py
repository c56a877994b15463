"""Random orders that depend on a seed and on the rows shuffled, and on nothing that happened before.

Branches of the tree may then run in any order, in any thread and on any machine, with the same result.
"""

import numpy as np
from numba import njit

FIXED = -1  # in place of a seed, which is never negative: leave the rows as they stand

_jit = njit(cache=True, nogil=True)
_GOLDEN, _MIX1, _MIX2 = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@_jit
def _mix(z):
    """The output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> _30)) * _MIX1
    z = (z ^ (z >> _27)) * _MIX2
    return z ^ (z >> _31)


@_jit
def shuffle(rows, size, seed, start, stop):
    """Shuffle rows[:size] in place (Fisher and Yates); (seed, start, stop) is the key of the order.

    size must be below 2^32: a 32-bit draw is scaled to its range (Lemire 2019), whose bias of at most
    size / 2^32 is far below what any loss can show.
    """
    state = _mix(_mix(np.uint64(seed) + _GOLDEN * np.uint64(start)) + _GOLDEN * np.uint64(stop))
    for i in range(size - 1, 0, -1):
        state += _GOLDEN
        j = np.int64(((_mix(state) >> _32) * np.uint64(i + 1)) >> _32)
        rows[i], rows[j] = rows[j], rows[i]
