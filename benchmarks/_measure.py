"""How every benchmark takes the time and reports: ratios within one run, each beside its limit."""

import json
import os
import time

import numpy as np

# seconds before a call: idle threads of the last one's BLAS keep a core busy for half as long
PAUSE = 0.2


def timed(function, repeats=1):
    """(median seconds, result) of a call,
    after one that compiles and warms the caches where it is repeated.
    """
    times = []
    for _ in range(repeats + (repeats > 1)):
        time.sleep(PAUSE)
        tick = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - tick)
    return float(np.median(times[repeats > 1 :])), result


def median_seconds(function, repeats=7):
    """Median wall clock of a call, after one that compiles and warms the caches."""
    return timed(function, repeats)[0]


def ratio(numerator, denominator, repeats=7):
    """Seconds of one call over another's, each the fastest of several:
    slower ones measure the machine's other work.

    The two take turns, so that a slow spell hits both.
    """
    above, below = np.min(
        [(timed(numerator)[0], timed(denominator)[0]) for _ in range(repeats + 1)], axis=0
    )
    return float(above / below)


def report(name, value, limit=None, at_least=False):
    """One row: the ratio, and the most, or the least, that it may be.

    Where $ACVLIB_BENCH names a file, the row is added to it as a line of JSON.
    """
    met = limit is None or bool(value >= limit if at_least else value <= limit)
    word = "at least" if at_least else "at most"
    print(
        f"{name:<72} {value:10.3g}"
        + ("" if limit is None else f"   ({word} {limit:g}: {'ok' if met else 'MISSED'})")
    )
    if "ACVLIB_BENCH" in os.environ:
        row = {"name": name, "value": float(value), "limit": limit, "at_least": at_least}
        with open(os.environ["ACVLIB_BENCH"], "a", encoding="utf-8") as file:
            file.write(json.dumps(row | {"met": met}) + "\n")
