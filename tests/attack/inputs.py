"""Odd inputs by family of argument: what each is made of, and what must come of it.

A kind maps a plain value to `Odd(must, value, plain)`: the odd value, and the one that it is equal
to, if not the plain value itself. What must come of it:

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
    plain: Any = None  # if it is not the call's own


def kinds(must, **makers):
    """{name: function of the plain value} of one `must`."""
    return {name.replace("_", " "): _kind(must, make) for name, make in makers.items()}


def _kind(must, make):
    def odd(plain):
        made = make(plain)
        return Odd(must, made[0], made[1]) if type(made) is Pair else Odd(must, made)

    return odd


def without(table, *names):
    return {name: kind for name, kind in table.items() if name not in names}


def only(table, *names):
    return {name: table[name] for name in names}


class Pair(tuple):
    """(odd value, plain value that it is equal to)."""


def constant(value):
    return lambda plain: value


def _frozen(a):
    a = a.copy()
    a.setflags(write=False)
    return a


def _strided(a):
    return np.repeat(a, 2, axis=0)[::2]


def _tuples(a):
    return tuple(map(_tuples, a)) if isinstance(a, list) else a


def _pandas(a):
    return pd.DataFrame(a) if a.ndim == 2 else pd.Series(a, index=np.arange(len(a))[::-1])


def _with(a, value, dtype=float):
    a = np.array(a, dtype)
    a[(len(a) // 2, *[0] * (a.ndim - 1))] = value
    return a


def _masked(a):
    bad = _with(a, -9999.0)
    return np.ma.masked_equal(bad, -9999.0)


def _whole(a):
    return np.round(4 * np.abs(a))


VIEWS = kinds(
    "same",
    fortran=np.asfortranarray,
    strided=_strided,
    reversed_view=lambda a: a[::-1].copy()[::-1],
    read_only=_frozen,
    list=lambda a: a.tolist(),
    tuple=lambda a: _tuples(a.tolist()),
    big_endian=lambda a: a.astype(a.dtype.newbyteorder(">")),
)
FRAMES = kinds("same", pandas=_pandas)
NOT_ARRAYS = kinds(
    "refuse",
    None_=constant(None),
    string=constant("data"),
    dict=lambda a: dict(enumerate(np.asarray(a).tolist())),
    set=lambda a: set(np.ravel(a).tolist()),
    strings=lambda a: np.full(np.shape(a), "one"),
    None_inside=lambda a: _with(a, None, object),
    complex=lambda a: a + 1j,
    masked=_masked,
    dates=lambda a: np.zeros(np.shape(a), "M8[D]"),
    a_function=constant(np.sin),
    zero_axes=constant(np.array(1.0)),
    extra_axis=lambda a: np.asarray(a)[..., None],
    ragged=constant([[1.0, 2.0], [3.0]]),
    sparse=lambda a: csr_matrix(np.atleast_2d(a)),
)
NOT_FINITE = kinds(
    "refuse",
    nan=lambda a: _with(a, np.nan),
    inf=lambda a: _with(a, np.inf),
    minus_inf=lambda a: _with(a, -np.inf),
    all_nan=lambda a: np.full(a.shape, np.nan),
)
OTHER_LENGTH = kinds(
    "refuse", too_short=lambda a: a[:-1], too_long=lambda a: np.append(a, a[:1], 0)
)
EMPTY = kinds("refuse", empty=lambda a: a[:0])
PRECISIONS = kinds(  # plain data are multiples of 1/16 below 16: exact in 16 bits
    "same",
    float32=lambda a: a.astype(np.float32),
    float16=lambda a: a.astype(np.float16),
    longdouble=lambda a: a.astype(np.longdouble),
    int64=lambda a: Pair((_whole(a).astype(int), _whole(a))),
    int8=lambda a: Pair((_whole(a).astype(np.int8), _whole(a))),
    uint8=lambda a: Pair((_whole(a).astype(np.uint8), _whole(a))),
    uint64=lambda a: Pair((_whole(a).astype(np.uint64), _whole(a))),
) | kinds(
    "equal",
    object=lambda a: a.astype(object),
    bool=lambda a: Pair((a > 0, (a > 0).astype(float))),
    no_mask=lambda a: np.ma.array(a),
)
SCALES = kinds(
    "sane",
    huge=lambda a: a * 1e200,
    large=lambda a: a * 1e9,
    small=lambda a: a * 1e-9,
    tiny=lambda a: a * 1e-300,
    shifted=lambda a: a + 1e6,
    constant=np.ones_like,
    zeros=np.zeros_like,
    outlier=lambda a: _with(a, 1e12),
)
ONE = kinds("sane", one=lambda a: a[:1], two=lambda a: a[:2])

REAL = VIEWS | FRAMES | NOT_ARRAYS | NOT_FINITE | PRECISIONS | SCALES
TABLE = REAL | EMPTY | OTHER_LENGTH  # one of several arrays of one length
SERIES = REAL | EMPTY | ONE  # of any length

WHOLE_TYPES = kinds(
    "same",
    int8=lambda a: a.astype(np.int8),
    uint8=lambda a: a.astype(np.uint8),
    uint64=lambda a: a.astype(np.uint64),
    float64=lambda a: a.astype(float),
) | kinds("equal", object=lambda a: a.astype(object))
NOT_WHOLE = kinds(
    "refuse",
    fraction=lambda a: _with(a, 0.5),
    minus_two=lambda a: _with(a, -2),
    too_large_for_int64=lambda a: _with(a, 1e19),
)
COUNTS = (
    VIEWS
    | FRAMES
    | NOT_ARRAYS
    | NOT_FINITE
    | EMPTY
    | WHOLE_TYPES
    | NOT_WHOLE
    | kinds("sane", huge=lambda a: a * 10**9, zeros=np.zeros_like, ones=np.ones_like)
)
LABELS = COUNTS | OTHER_LENGTH  # whole numbers that stand for classes

SITE_TYPES = (
    only(VIEWS, "list", "tuple", "strided", "read only", "big endian")
    | only(WHOLE_TYPES, "int8", "uint8", "uint64")
    | kinds("equal", pandas=_pandas, float64=lambda a: a.astype(float))
)
NOT_SITES = kinds(
    "refuse",
    None_=constant(None),
    string=constant("01"),
    strings=lambda a: a.astype(str),
    repeated=lambda a: np.append(a, a[0]),
    repeated_unsigned=lambda a: np.append(a, a[0]).astype(np.uint64),
    negative=lambda a: np.append(a, -1),
    beyond=lambda a: np.append(a, 10**6),
    far_beyond=lambda a: np.append(a, 2**62),
    unsigned_beyond=lambda a: np.append(a.astype(np.uint64), np.uint64(2**64 - 1)),
    mask=lambda a: np.isin(np.arange(len(a) + 3), a),
    fraction=lambda a: a + 0.5,
    nan=lambda a: _with(a, np.nan),
    masked=lambda a: np.ma.masked_equal(a, a[0]),
    extra_axis=lambda a: a[:, None],
    complex=lambda a: a + 0j,
    dict=lambda a: dict.fromkeys(a.tolist()),
)
SITES = (
    SITE_TYPES
    | NOT_SITES
    | kinds("turned", turned=lambda a: a[::-1])
    | kinds("sane", empty=lambda a: a[:0], one=lambda a: a[:1], number=lambda a: a[0])
)


def _each(change):
    return lambda folds: [change(fold) for fold in folds]


def _last(change):
    return lambda folds: [*folds[:-1], change(folds[-1])]


FOLDS = (
    {
        f"each {name}": _kind("same", _each(lambda a, k=k: k(a).value))
        for name, k in SITE_TYPES.items()
        if name not in ("pandas", "float64")
    }
    | {
        f"last {name}": _kind("refuse", _last(lambda a, k=k: k(a).value))
        for name, k in NOT_SITES.items()
    }
    | kinds(
        "same", table=np.array, tuple_of_folds=tuple, list_of_lists=lambda f: np.array(f).tolist()
    )
    | kinds(
        "equal", generator=lambda f: iter(f), object_array=lambda f: np.array([*f, 0], object)[:-1]
    )
    | kinds(
        "refuse",
        no_folds=constant([]),
        empty_fold=lambda f: [*f, np.array([], int)],
        labels=lambda f: np.arange(12) % 3,
        dict=lambda f: dict(enumerate(f)),
        frame=lambda f: pd.DataFrame(np.array(f)),
        pairs=lambda f: [(np.setdiff1d(np.arange(12), a), a) for a in f],
        number=constant(3),
        all_None=constant(None),
        strings=constant("abc"),
        all_sites=lambda f: (
            [np.arange(max(map(max, f)) + 1), np.concatenate(f)] * 1
            if len(np.concatenate(f)) > max(map(max, f))
            else [np.array([10**6])]
        ),
        float_table=lambda f: np.array(f, float),
        cube=lambda f: np.array(f)[None],
    )
)


# A model reads params and weights through autograd: what numpy takes for an array is one.
WEIGHTS = (
    without(VIEWS | NOT_ARRAYS | EMPTY | OTHER_LENGTH, "sparse")
    | kinds(
        "refuse",
        negative=lambda a: _with(a, -1.0),
        nan=lambda a: _with(a, np.nan),
        inf=lambda a: _with(a, np.inf),
    )
    | kinds(
        "same",
        float32=lambda a: a.astype(np.float32),
        int64=lambda a: Pair(((a > 0).astype(int), (a > 0).astype(float))),
    )
    | kinds("equal", bool=lambda a: Pair((a > 0, (a > 0).astype(float))), pandas=_pandas)
    | kinds("sane", zeros=np.zeros_like, huge=lambda a: a * 1e200, tiny=lambda a: a * 1e-300)
)
PARAMS = (
    without(VIEWS | NOT_ARRAYS | EMPTY | OTHER_LENGTH, "sparse")
    | kinds("nan", nan=lambda a: np.full(a.shape, np.nan))
    | kinds(
        "same",
        float32=lambda a: a.astype(np.float32),
        int64=lambda a: Pair((_whole(a).astype(int), _whole(a))),
    )
    | kinds("equal", pandas=_pandas)
    | kinds("sane", zeros=np.zeros_like, far=lambda a: a * 30)
)

NOT_NUMBERS = kinds(
    "refuse",
    nan=constant(np.nan),
    string=constant("1"),
    word=constant("one"),
    None_=constant(None),
    complex=constant(1j),
    three_numbers=constant(np.ones(3)),
    dict=constant({}),
    a_function=constant(np.sin),
)
NUMBER_TYPES = kinds(
    "same", float32=lambda v: Pair((np.float32(v), float(np.float32(v)))), numpy=np.float64
) | kinds(
    "equal",
    zero_axes=np.array,
    list=lambda v: [v],
    fraction=Fraction,
    bool=constant(Pair((True, 1.0))),
    integer=constant(Pair((1, 1.0))),
)
INFINITE = kinds("refuse", inf=constant(np.inf), minus_inf=constant(-np.inf))
NUMBER = (
    NOT_NUMBERS
    | NUMBER_TYPES
    | INFINITE
    | kinds(
        "sane",
        zero=constant(0.0),
        negative=constant(-1.0),
        huge=constant(1e200),
        tiny=constant(1e-300),
    )
)
NONNEGATIVE = NUMBER | kinds("refuse", negative=constant(-1.0), far_negative=constant(-1e6))
POSITIVE = NONNEGATIVE | kinds("refuse", zero=constant(0.0))
PERCENT = POSITIVE | kinds("refuse", huge=constant(1e200), hundred=constant(100.0))

WHOLE = (
    NOT_NUMBERS
    | INFINITE
    | kinds(
        "refuse", negative=constant(-1), far_negative=constant(-(10**6)), fraction=lambda v: v + 0.5
    )
    | kinds("same", numpy=np.int64, int8=np.int8, uint64=np.uint64)
    | kinds("equal", float=float, zero_axes=np.array, bool=constant(Pair((True, 1))))
    | kinds("sane", one=constant(1), two=constant(2))
)
WHOLE_0 = WHOLE | kinds("sane", zero=constant(0))
COUNT = WHOLE | kinds("refuse", zero=constant(0))
SIZE = COUNT | kinds(
    "sane", million=constant(10**6), billions=constant(10**10), beyond=constant(10**30)
)
LIMITED = COUNT | kinds("refuse", billions=constant(10**10), beyond=constant(10**30))

CHOICE = kinds(
    "refuse",
    None_=constant(None),
    empty=constant(""),
    misspelt=lambda s: s + "s",
    capital=lambda s: s.upper(),
    bytes=lambda s: s.encode(),
    list=lambda s: [s],
    number=constant(1),
    dict=constant({}),
)
RNG = kinds(
    "refuse",
    None_=constant(None),
    string=constant("seed"),
    old=lambda r: np.random.RandomState(0),
    module=lambda r: np.random,
    array=lambda r: np.arange(3),
    class_=constant(np.random.Generator),
) | kinds("equal", number=constant(Pair((5, np.random.default_rng(5)))))
FLAGS = (
    only(VIEWS, "list", "strided", "read only")
    | only(WHOLE_TYPES, "uint8")
    | kinds("same", ints=lambda a: a.astype(int), floats=lambda a: a.astype(float))
    | kinds("equal", pandas=_pandas, object=lambda a: a.astype(object))
    | kinds(
        "refuse",
        too_short=lambda a: a[:-1],
        too_long=lambda a: np.append(a, True),
        extra_axis=lambda a: a[:, None],
        sites=np.flatnonzero,
        nan=lambda a: _with(a, np.nan),
        strings=lambda a: np.where(a, "yes", "no"),
        string=constant("yes"),
        none_observed=np.zeros_like,
        masked=lambda a: np.ma.array(a, mask=a),
        dict=constant({}),
        twos=lambda a: 2 * a,
        complex=lambda a: a + 0j,
        number=constant(1),
    )
    | kinds("sane", all_observed=np.ones_like)
)
EDGES = (
    VIEWS
    | only(WHOLE_TYPES, "int8", "uint64")
    | kinds("same", turned=lambda a: a[:, ::-1])
    | kinds("equal", pandas=_pandas, float64=lambda a: a.astype(float))
    | only(NOT_ARRAYS, "None ", "strings", "masked", "complex")
    | kinds(
        "refuse",
        repeated=lambda a: np.append(a, a[:1], 0),
        both_ways=lambda a: np.append(a, a[:1, ::-1], 0),
        loop=lambda a: np.append(a, [[1, 1]], 0),
        negative=lambda a: np.append(a, [[-1, 0]], 0),
        beyond=lambda a: np.append(a, [[0, 10**6]], 0),
        unsigned_beyond=lambda a: np.append(
            a.astype(np.uint64), np.array([[0, 2**64 - 1]], np.uint64), 0
        ),
        fraction=lambda a: a + 0.5,
        matrix=lambda a: np.eye(12, dtype=int),
        flat=np.ravel,
        triples=lambda a: np.column_stack([a, a[:, 0]]),
        string=constant("edges"),
        mask=lambda a: a > 1,
        dict=lambda a: dict(a.tolist()),
    )
    | kinds(
        "sane",
        none=lambda a: np.empty((0, 2), int),
        one=lambda a: a[:1],
        disconnected=lambda a: a[::2],
    )
)
OBJECTS = kinds(  # in place of a model, a fit, a result, a learner
    "refuse",
    None_=constant(None),
    string=constant("model"),
    number=constant(3),
    dict=constant({}),
    array=constant(np.ones(3)),
    its_class=type,
)
