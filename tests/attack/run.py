"""Every call in a process of its own: right, refused, cryptic, silently wrong, crash or hang."""

import argparse
import ast
import multiprocessing
import os
import re
import resource
import sys
import traceback
import warnings
from collections import Counter
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse

import acvlib
from acvlib.folds import Folds
from acvlib.results import CVResult, Fit
from acvlib.treecv import LearnerCV

from .calls import CALLS, other_result

FORK = multiprocessing.get_context("fork")
SECONDS = 10.0
MEMORY = 3 * 2**30  # beyond what the parent has
LIBRARY = str(Path(acvlib.__file__).parent)
CLEAR = (LIBRARY, f"{os.sep}sklearn{os.sep}")  # where a refusal may be written
VERDICTS = ("right", "refused", "cryptic", "silent", "crash", "hang")
TOLERANCE = 1e-6


class Case(NamedTuple):
    """One argument of one call, odd in one way."""

    name: str
    argument: str
    kind: str
    seed: int

    def __str__(self):
        return f"{self.name}: {self.argument} {self.kind} (seed {self.seed})"


def cases(n_calls, seed):
    """As many cases, in random order; each comes again, with other data, when all have been."""
    every = [
        (name, argument, kind)
        for name, call in CALLS.items()
        for argument, family in call.families.items()
        for kind in family
    ]
    rng = np.random.default_rng(seed)
    order = []
    while len(order) < n_calls:
        data_seed = int(rng.integers(10**6))
        order += [Case(*every[i], data_seed) for i in rng.permutation(len(every))]
    return order[:n_calls]


# what a call gives back, as arrays


def numbers(found):
    """The arrays that an answer is made of, in order."""
    if isinstance(found, Folds):
        parts = [*found.omitted, *found.scored]
    elif isinstance(found, CVResult):
        parts = [found.params, np.concatenate(found.losses), found.fold_losses]
    elif isinstance(found, LearnerCV):
        parts = [found.pointwise, found.fold_of]
    elif isinstance(found, Fit):
        parts = [found.params, found.objective]
    elif isinstance(found, dict):
        parts = found.values()
    elif is_dataclass(found):
        parts = [getattr(found, each.name) for each in fields(found) if each.name != "seconds"]
    elif isinstance(found, list | tuple):
        parts = found
    else:
        if isinstance(found, pd.DataFrame):
            found = found.select_dtypes("number").to_numpy(float)
        array = found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)
        return [array] if array.dtype.kind in "biufc" else []
    return [array for part in parts for array in numbers(part)]


def same(found, expected):
    """Whether two answers agree to rounding."""
    a, b = numbers(found), numbers(expected)
    return len(a) == len(b) and all(
        x.shape == y.shape and np.allclose(x, y, TOLERANCE, 1e-8, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


# one call, in the child


class Refused(NamedTuple):
    """What a call raised, and whether it is the library that says what is wrong."""

    clear: bool
    says: str


def refusal(error):
    """`Refused`, by the innermost frame: a `raise` of the library's own."""
    *_, last = traceback.extract_tb(error.__traceback__)
    if isinstance(error, MemoryError) and str(error).startswith("Unable to allocate"):
        return Refused(True, str(error))  # of a huge count: no size is too large by itself
    clear = isinstance(error, ValueError | TypeError) and str(error).strip() != ""
    clear = clear and any(place in last.filename for place in CLEAR)
    clear = clear and last.lineno in raises(last.filename)
    place = f"{Path(last.filename).name}:{last.lineno}"
    first = f"{error}\n".splitlines()[0][:90]
    return Refused(clear, f"{type(error).__name__}: {first} [{place}]")


@cache
def raises(filename):
    """The lines of a file that belong to a `raise`."""
    tree = ast.parse(Path(filename).read_text(encoding="utf-8"))
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            lines |= set(range(node.lineno, node.end_lineno + 1))
    return lines


def answer(call, arguments):
    """(what the call gives, whether the library warned of it), or `Refused`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call.function(**arguments)
            parts = numbers(found)
            assert parts is not None
        except Exception as error:
            return refusal(error)
    marked = any(warning.category.__module__.startswith("acvlib") for warning in caught)
    return found, marked


def judge(case):
    """(verdict, what was wrong)."""
    call = CALLS[case.name]

    def plain():
        return call.plain(np.random.default_rng(case.seed))

    odd = call.families[case.argument][case.kind](plain()[case.argument])
    expected = None
    if odd.must in ("same", "equal", "turned"):
        replaced = {} if odd.plain is None else {case.argument: odd.plain}
        expected = answer(call, plain() | replaced)
    found = answer(call, plain() | {case.argument: odd.value})
    if isinstance(found, Refused):
        if not found.clear:
            return "cryptic", found.says
        must_answer = odd.must in ("same", "turned") and not isinstance(expected, Refused)
        return (
            ("cryptic", f"refuses what is equal: {found.says}") if must_answer else ("refused", "")
        )
    found, marked = found
    wrong = fault(odd, call, found, marked, expected, plain() | {case.argument: odd.value})
    return ("silent", wrong) if wrong else ("right", "")


def fault(odd, call, found, marked, expected, arguments):
    """What is wrong with an answer, in words."""
    finite = [np.isfinite(part).all() for part in numbers(found)]
    if odd.must == "refuse":
        return "was accepted"
    if odd.must == "nan":
        return "" if not all(finite) else "nan went in, finite numbers came out"
    if odd.must in ("same", "equal", "turned"):
        if isinstance(expected, Refused):
            return f"the equal input is refused: {expected.says}"
        wanted = expected[0]
        wanted = wanted[::-1] if odd.must == "turned" else wanted
        return "" if same(found, wanted) else "differs from the equal input"
    undefined = any(np.isnan(part).any() for part in numbers(found))
    unmarked = not marked and not call.undefined
    if unmarked and (undefined or not all(finite) and not call.unbounded):
        return "is not finite, and nothing says so"
    if call.law is not None and not marked:
        try:
            call.law(found, **arguments)
        except AssertionError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            return "breaks its law: " + " ".join(lines[:4])[:120]
    return ""


# the forks


def forked(case, seconds=SECONDS):
    """The verdict on a case, found in a child process."""
    reader, writer = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_work, args=(case, writer))
    child.start()
    writer.close()
    try:
        return reader.recv() if reader.poll(seconds) else ("hang", f"more than {seconds:g} s")
    except EOFError:
        child.join()
        return "crash", f"exit code {child.exitcode}"
    finally:
        child.kill()
        child.join()


def _work(case, writer):
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (own + MEMORY, own + MEMORY))
    try:
        verdict = judge(case)
    except BaseException as error:  # of the harness itself
        verdict = "cryptic", f"the attack itself: {type(error).__name__}: {error}"[:200]
    writer.send(verdict)


def warm_up(names):
    """Every plain call once, so that children find all compiled; what is refused is a fault."""
    other_result()  # what is passed in place of a result is fitted, and compiled, here too
    for name in names:
        found = answer(CALLS[name], CALLS[name].plain(np.random.default_rng(0)))
        law = "as it is" in next(iter(CALLS[name].families.values()), {})
        if isinstance(found, Refused) and not law:
            raise RuntimeError(f"the plain call of {name} fails: {found.says}")


def attack(chosen, seconds=SECONDS, watch=None):
    """(Counter of (name, verdict), faults: a line each)."""
    warm_up(dict.fromkeys(case.name for case in chosen))
    if any(case.kind == "other" for case in chosen):
        other_result()  # compiles for half a minute: more than a child has
    counts = Counter()
    faults = []
    for number, case in enumerate(chosen):
        verdict, says = forked(case, seconds)
        counts[case.name, verdict] += 1
        if verdict not in ("right", "refused"):
            faults.append(f"{verdict:8} {case}: {says}")
            if watch:
                print(faults[-1], file=watch, flush=True)
        if watch and number % 500 == 499:
            print(f"{number + 1} calls", file=watch, flush=True)
    return counts, faults


def table(counts):
    """The counts of each function, and of all."""
    total = Counter()
    rows = {}
    for (name, verdict), count in sorted(counts.items()):
        rows.setdefault(name, Counter())[verdict] += count
        total[verdict] += count
    frame = pd.DataFrame({**rows, "all": total}).T.reindex(columns=VERDICTS).fillna(0).astype(int)
    return frame.assign(calls=frame.sum(axis=1)).to_string()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="functions whose name matches")
    options = parser.parse_args()
    chosen = [
        case for case in cases(options.calls, options.seed) if re.search(options.only, case.name)
    ]
    counts, faults = attack(chosen, watch=sys.stderr)
    print(table(counts))
    print("\n".join(sorted(faults)))
    grave = {"silent", "crash", "hang"}
    return int(any(verdict in grave for _, verdict in counts))
