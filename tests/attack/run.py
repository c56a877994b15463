"""Calls in other processes: right, refused, cryptic, silently wrong, crash or hang."""

import ast
import multiprocessing
import os
import resource
import traceback
import warnings
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

from .calls import CALLS

FORK = multiprocessing.get_context("fork")
SECONDS = 10.0  # that a call may take
BATCH = 40  # cases of one process
FINE = ("right", "refused")
MEMORY = 3 * 2**30  # beyond what the parent has
LIBRARY = str(Path(acvlib.__file__).parent)
CLEAR = (LIBRARY, f"{os.sep}sklearn{os.sep}")  # where a refusal may be written
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
    with warnings.catch_warnings(record=True, action="always") as caught:
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
    plain = call.arguments(case.seed)
    odd = call.families[case.argument][case.kind](plain[case.argument])
    arguments = call.arguments(case.seed) | {case.argument: odd.value}
    expected = None
    if odd.must in ("same", "equal", "turned"):
        expected = answer(call, plain | {case.argument: odd.plain})
    found = answer(call, arguments)
    if isinstance(found, Refused):
        if not found.clear:
            return "cryptic", found.says
        if odd.must in ("same", "turned") and not isinstance(expected, Refused):
            return "cryptic", f"refuses what is equal: {found.says}"
        return "refused", ""
    found, marked = found
    wrong = fault(odd, call, found, marked, expected, arguments)
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
    if not marked and (undefined or not all(finite) and not call.unbounded):
        return "is not finite, and nothing says so"
    if call.law is not None and not marked:
        try:
            call.law(found, **arguments)
        except AssertionError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            return "breaks its law: " + " ".join(lines[:4])[:120]
    return ""


# the forks


def attack(chosen):
    """The faults, a line each."""
    for name in dict.fromkeys(case.name for case in chosen):  # children find all compiled
        found = answer(CALLS[name], CALLS[name].arguments(seed=0))
        if isinstance(found, Refused):
            raise RuntimeError(f"the plain call of {name} fails: {found.says}")
    verdicts = []
    while len(verdicts) < len(chosen):
        verdicts += forked(chosen[len(verdicts) :][:BATCH])
    told = zip(chosen, verdicts, strict=True)
    return [f"{verdict}: {case}: {says}" for case, (verdict, says) in told if verdict not in FINE]


def forked(cases):
    """The verdicts on cases, found in a child process, up to one that ends it."""
    reader, writer = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_work, args=(cases, writer))
    child.start()
    writer.close()
    verdicts = []
    try:
        while len(verdicts) < len(cases):
            late = ("hang", f"more than {SECONDS:g} s")
            verdicts.append(reader.recv() if reader.poll(SECONDS) else late)
            if verdicts[-1] is late:
                break
    except EOFError:
        child.join()
        verdicts.append(("crash", f"exit code {child.exitcode}"))
    finally:
        child.kill()
        child.join()
    return verdicts


def _work(cases, writer):
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (own + MEMORY, own + MEMORY))
    for case in cases:
        try:
            verdict = judge(case)
        except BaseException as error:  # of the harness itself
            verdict = "cryptic", f"the attack itself: {type(error).__name__}: {error}"[:200]
        writer.send(verdict)
