"""Odd inputs by family of argument: what each is made of, and what must come of it.

A kind maps a plain value to `Odd(must, value, plain)`: the odd value, and the one that it is equal
to. What must come of it:

same    the result of the plain value
equal   that, or a refusal
refuse  a refusal
sane    a refusal, or a result that is finite (or warned of) and that the call's law, if any, allows
nan     a refusal, or a result that is not finite anywhere it depends on the value
turned  the plain result in the opposite order
"""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix


class Odd(NamedTuple):
    must: str
    value: Any
    plain: Any


class Pair(tuple):
    """(odd value, plain value that it is equal to)."""


def kinds(must, **makers):
    """{name: kind} of one `must`; a maker is a function of the plain value."""
    return {name.strip("_").replace("_", " "): _kind(must, make) for name, make in makers.items()}


def always(must, **values):
    """The same of values that do not depend on the plain one."""
    return kinds(must, **{name: lambda plain, value=value: value for name, value in values.items()})


def _kind(must, make):
    def odd(plain):
        made = make(plain)
        return Odd(must, *made) if type(made) is Pair else Odd(must, made, plain)

    return odd


def without(table, *names):
    return {name: kind for name, kind in table.items() if name not in names}


def only(table, *names):
    return {name: table[name] for name in names}


def frozen(a):
    a = a.copy()
    a.setflags(write=False)
    return a


def tuples(a):
    return tuple(map(tuples, a)) if isinstance(a, list) else a


def pandas(a):
    return pd.DataFrame(a) if a.ndim == 2 else pd.Series(a, index=np.arange(len(a))[::-1])


def holed(a, value, dtype=float):
    """With one number replaced."""
    a = np.array(a, dtype)
    a[(len(a) // 2, *[0] * (a.ndim - 1))] = value
    return a


def masked(a):
    return np.ma.masked_equal(holed(a, -9999.0), -9999.0)


def typed(kind):
    """Whole numbers as another type, beside the same as floats."""

    def make(a):
        whole = np.array_equal(a, np.round(a)) and np.min(a, initial=0) >= 0
        a = np.asarray(a, float) if whole else np.round(4 * np.abs(a))
        return Pair((a.astype(kind), a))

    return make


def flags(a):
    return Pair((a > 0, (a > 0).astype(float)))


VIEWS = kinds(
    "same",
    fortran=np.asfortranarray,
    strided=lambda a: np.repeat(a, 2, axis=0)[::2],
    reversed_view=lambda a: a[::-1].copy()[::-1],
    read_only=frozen,
    list=lambda a: a.tolist(),
    tuple=lambda a: tuples(a.tolist()),
    big_endian=lambda a: a.astype(a.dtype.newbyteorder(">")),
)
FRAMES = kinds("same", pandas=pandas)
NOTHING = always("refuse", None_=None, string="data", a_function=np.sin)
NOT_ARRAYS = (
    NOTHING
    | always("refuse", zero_axes=np.array(1.0), ragged=[[1.0, 2.0], [3.0]])
    | kinds(
        "refuse",
        dict=lambda a: dict(enumerate(np.asarray(a).tolist())),
        set=lambda a: set(np.ravel(a).tolist()),
        strings=lambda a: np.full(np.shape(a), "one"),
        None_inside=lambda a: holed(a, None, object),
        complex=lambda a: a + 1j,
        masked=masked,
        dates=lambda a: np.zeros(np.shape(a), "M8[D]"),
        extra_axis=lambda a: np.asarray(a)[..., None],
        sparse=lambda a: csr_matrix(np.atleast_2d(a)),
    )
)
NOT_FINITE = kinds(
    "refuse",
    nan=lambda a: holed(a, np.nan),
    inf=lambda a: holed(a, np.inf),
    minus_inf=lambda a: holed(a, -np.inf),
    all_nan=lambda a: np.full(a.shape, np.nan),
)
OTHER_LENGTH = kinds("refuse", too_short=lambda a: a[:-1], too_long=lambda a: np.r_[a, a[:1]])
EMPTY = kinds("refuse", empty=lambda a: a[:0])
PRECISIONS = kinds(  # plain data are multiples of 1/16 below 16: exact in 16 bits
    "same",
    float32=lambda a: a.astype(np.float32),
    float16=lambda a: a.astype(np.float16),
    longdouble=lambda a: a.astype(np.longdouble),
    **{kind: typed(kind) for kind in ("int8", "int64", "uint8", "uint64")},
) | kinds("equal", object=lambda a: a.astype(object), bool=flags, no_mask=np.ma.array)
SCALES = kinds(
    "sane",
    huge=lambda a: a * 1e200,
    large=lambda a: a * 1e9,
    small=lambda a: a * 1e-9,
    tiny=lambda a: a * 1e-300,
    shifted=lambda a: a + 1e6,
    constant=np.ones_like,
    zeros=np.zeros_like,
    outlier=lambda a: holed(a, 1e12),
)
ONE = kinds("sane", one=lambda a: a[:1], two=lambda a: a[:2])

REAL = VIEWS | FRAMES | NOT_ARRAYS | NOT_FINITE | PRECISIONS | SCALES
TABLE = REAL | EMPTY | OTHER_LENGTH  # one of several arrays of one length
SERIES = REAL | EMPTY | ONE  # of any length
WHOLE_TYPES = kinds(
    "same", **{k: lambda a, k=k: a.astype(k) for k in ("int8", "uint8", "uint64", "float64")}
) | kinds("equal", object=lambda a: a.astype(object))
NOT_WHOLE = kinds(
    "refuse",
    fraction=lambda a: holed(a, 0.5),
    minus_two=lambda a: holed(a, -2),
    too_large_for_int64=lambda a: holed(a, 1e19),
)
COUNTS = VIEWS | FRAMES | NOT_ARRAYS | NOT_FINITE | EMPTY | WHOLE_TYPES | NOT_WHOLE
COUNTS |= kinds("sane", huge=lambda a: a * 10**9, zeros=np.zeros_like, ones=np.ones_like)
LABELS = COUNTS | OTHER_LENGTH  # whole numbers that stand for classes

SITE_TYPES = only(VIEWS, "list", "tuple", "strided", "read only", "big endian")
SITE_TYPES |= only(WHOLE_TYPES, "int8", "uint8", "uint64")
NOT_SITES = always("refuse", None_=None, string="01") | kinds(
    "refuse",
    strings=lambda a: a.astype(str),
    repeated=lambda a: np.append(a, a[0]),
    repeated_unsigned=lambda a: np.append(a, a[0]).astype(np.uint64),
    negative=lambda a: np.append(a, -1),
    beyond=lambda a: np.append(a, 10**6),
    far_beyond=lambda a: np.append(a, 2**62),
    unsigned_beyond=lambda a: np.append(a.astype(np.uint64), np.uint64(2**64 - 1)),
    mask=lambda a: np.isin(np.arange(len(a) + 3), a),
    fraction=lambda a: a + 0.5,
    nan=lambda a: holed(a, np.nan),
    masked=lambda a: np.ma.masked_equal(a, a[0]),
    extra_axis=lambda a: a[:, None],
    complex=lambda a: a + 0j,
    dict=lambda a: dict.fromkeys(a.tolist()),
)
SITES = SITE_TYPES | NOT_SITES | kinds("turned", turned=lambda a: a[::-1])
SITES |= kinds("equal", pandas=pandas, float64=lambda a: a.astype(float))
SITES |= kinds("sane", empty=lambda a: a[:0], one=lambda a: a[:1], number=lambda a: a[0])
SET_OF_SITES = without(SITES, "repeated", "repeated unsigned", "turned")


def _each(kind):
    return lambda folds: [kind(fold).value for fold in folds]


def _last(kind):
    return lambda folds: [*folds[:-1], kind(folds[-1]).value]


FOLDS = (
    kinds("same", **{f"each {name}": _each(kind) for name, kind in SITE_TYPES.items()})
    | kinds("refuse", **{f"last {name}": _last(kind) for name, kind in NOT_SITES.items()})
    | kinds("same", table=np.array, as_tuple=tuple, lists=lambda f: np.array(f).tolist())
    | kinds("equal", generator=iter, object_array=lambda f: np.array([*f, 0], object)[:-1])
    | always("refuse", no_folds=[], number=3, all_None=None, strings="abc")
    | kinds(
        "refuse",
        empty_fold=lambda f: [*f, np.array([], int)],
        labels=lambda f: np.arange(12) % 3,
        dict=lambda f: dict(enumerate(f)),
        frame=lambda f: pd.DataFrame(np.array(f)),
        pairs=lambda f: [(np.setdiff1d(np.arange(12), a), a) for a in f],
        float_table=lambda f: np.array(f, float),
        cube=lambda f: np.array(f)[None],
    )
)

# A model reads params and weights through autograd: what numpy takes for an array is one.
OF_AUTOGRAD = without(VIEWS | NOT_ARRAYS | EMPTY | OTHER_LENGTH, "sparse")
OF_AUTOGRAD |= only(PRECISIONS, "float32") | kinds("equal", pandas=pandas)
OF_AUTOGRAD |= kinds("sane", zeros=np.zeros_like)
WEIGHTS = (
    OF_AUTOGRAD
    | only(NOT_FINITE, "nan", "inf")
    | kinds("refuse", negative=lambda a: holed(a, -1.0))
    | kinds("same", int64=lambda a: Pair(((a > 0).astype(int), (a > 0).astype(float))))
    | kinds("equal", bool=flags)
    | only(SCALES, "huge", "tiny")
)
PARAMS = OF_AUTOGRAD | only(PRECISIONS, "int64") | kinds("sane", far=lambda a: a * 30)
PARAMS |= kinds("nan", nan=lambda a: np.full(a.shape, np.nan))
START = without(PARAMS, "None")

NOT_NUMBERS = NOTHING | always(
    "refuse", nan=np.nan, number_in_text="1", complex=1j, three_numbers=np.ones(3), dict={}
)
INFINITE = always("refuse", inf=np.inf, minus_inf=-np.inf)
NUMBER = (
    NOT_NUMBERS
    | INFINITE
    | kinds("same", float32=lambda v: Pair((np.float32(v), float(np.float32(v)))), numpy=np.float64)
    | kinds("equal", zero_axes=np.array, list=lambda v: [v], fraction=Fraction)
    | always("equal", bool=Pair((True, 1.0)), integer=Pair((1, 1.0)))
    | always("sane", zero=0.0, negative=-1.0, huge=1e200, tiny=1e-300)
)
NONNEGATIVE = NUMBER | always("refuse", negative=-1.0, far_negative=-1e6)
POSITIVE = NONNEGATIVE | always("refuse", zero=0.0)
TOLERANCE = POSITIVE | always("sane", inf=np.inf)
PERCENT = POSITIVE | always("refuse", huge=1e200, hundred=100.0)

WHOLE = (
    NOT_NUMBERS
    | INFINITE
    | always("refuse", negative=-1, far_negative=-(10**6))
    | kinds("refuse", fraction=lambda v: v + 0.5)
    | kinds("same", numpy=np.int64, int8=np.int8, uint64=np.uint64)
    | kinds("equal", float=float, zero_axes=np.array)
    | always("equal", bool=Pair((True, 1)))
    | always("sane", one=1, two=2)
)
WHOLE_0 = WHOLE | always("sane", zero=0)
COUNT = WHOLE | always("refuse", zero=0)
SIZE = COUNT | always("sane", million=10**6, billions=10**10, beyond=10**30)
LIMITED = COUNT | always("refuse", billions=10**10, beyond=10**30)

CHOICE = always("refuse", None_=None, empty="", number=1, dict={}) | kinds(
    "refuse",
    misspelt=lambda s: f"{s}s",
    capital=lambda s: str(s).upper(),
    bytes=lambda s: str(s).encode(),
    list=lambda s: [s],
)
RNG = always(
    "refuse",
    None_=None,
    string="seed",
    old=np.random.RandomState(0),
    module=np.random,
    array=np.arange(3),
    class_=np.random.Generator,
) | kinds("equal", generator=lambda seed: Pair((np.random.default_rng(seed), seed)))
FLAGS = (
    only(VIEWS, "list", "strided", "read only")
    | kinds("same", **{k: lambda a, k=k: a.astype(k) for k in ("int", "float", "uint8")})
    | kinds("equal", pandas=pandas, object=lambda a: a.astype(object))
    | OTHER_LENGTH
    | always("refuse", string="yes", dict={}, number=1)
    | kinds(
        "refuse",
        extra_axis=lambda a: a[:, None],
        sites=np.flatnonzero,
        nan=lambda a: holed(a, np.nan),
        strings=lambda a: np.where(a, "yes", "no"),
        none_observed=np.zeros_like,
        masked=lambda a: np.ma.array(a, mask=a),
        twos=lambda a: 2 * a,
        complex=lambda a: a + 0j,
    )
    | kinds("sane", all_observed=np.ones_like)
)
EDGES = (
    VIEWS
    | only(WHOLE_TYPES, "int8", "uint64")
    | kinds("same", turned=lambda a: a[:, ::-1])
    | kinds("equal", pandas=pandas, float64=lambda a: a.astype(float))
    | only(NOT_ARRAYS, "None", "string", "strings", "masked", "complex")
    | kinds(
        "refuse",
        repeated=lambda a: np.append(a, a[:1], 0),
        both_ways=lambda a: np.append(a, a[:1, ::-1], 0),
        loop=lambda a: np.append(a, [[1, 1]], 0),
        negative=lambda a: np.append(a, [[-1, 0]], 0),
        beyond=lambda a: np.append(a, [[0, 10**6]], 0),
        unsigned_beyond=lambda a: np.append(a.astype("u8"), np.array([[0, 2**64 - 1]], "u8"), 0),
        fraction=lambda a: a + 0.5,
        flat=np.ravel,
        triples=lambda a: np.column_stack([a, a[:, 0]]),
        mask=lambda a: a > 1,
        dict=lambda a: dict(a.tolist()),
    )
    | kinds("sane", one=lambda a: a[:1], disconnected=lambda a: a[::2])
    | always("sane", none=np.empty((0, 2), int))
    | always("refuse", matrix=np.eye(12, dtype=int))
)
OBJECTS = always(  # in place of a model, a fit, a result, a learner
    "refuse", None_=None, string="model", number=3, dict={}, array=np.ones(3)
) | kinds("refuse", its_class=type)
LISTS = always("refuse", None_=None, none=[], string="abc", number=1) | kinds(
    "refuse", fewer=lambda s: s[:-1], dict=lambda s: dict(enumerate(s))
)


def each_of(family):
    """The kinds of a family, for one of a list of arrays."""
    return {f"one {name}": _second(kind) for name, kind in family.items()}


def _second(kind):
    def odd(rows):
        made = kind(rows[1])
        value, plain = ([rows[0], own, *rows[2:]] for own in (made.value, made.plain))
        return Odd(made.must, value, plain)

    return odd
