"""Checks declared by annotations: what a model or a method is given is checked where it is named.

    @declared
    @dataclass(frozen=True)
    class Pairs:
        X: Annotated[np.ndarray, Real("n p")]  # finite; n and p are bound, and must agree in all
        y: Annotated[np.ndarray, Real("n")]
        penalty: Annotated[float | np.ndarray, Real("", "p", least=0.0)] = 0.1  # one, or p of them

Functions are declared in the same way; sizes that no argument binds are attributes of a method's
`self`, or of a fit, a model or a result that is given, such as `n_params`. Arrays are copied and
read-only; what has an index, as in pandas, is put in the order of the argument that bound its size.
None is taken where the annotation or the default says so. What autograd passes through is
untouched; so are defaults.
"""

from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import numpy as np
from autograd.tracer import isbox

from . import checks

Thing = TypeVar("Thing")


class Sizes(dict):
    """(size, argument, its labels or None) of each name that a call has bound."""

    owner: Any = None  # whose method is called, or an argument: its attributes are sizes, too

    def of(self, dimension: Any) -> Any:
        """The size of a name, or of a number; None where it is not known yet."""
        if not isinstance(dimension, str):
            return dimension
        bound = self.get(dimension)
        return getattr(self.owner, dimension, None) if bound is None else bound[0]


class Check:
    """What a value must be; a subclass returns the value as it is taken, or raises."""

    def bind(self, given: dict, name: str, sizes: Sizes) -> None:
        """Bind sizes and labels by an argument of a call, before any is checked."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        raise NotImplementedError


class Real(Check):
    """Finite real numbers of one of these shapes; names bind to sizes, "" is one number.

    finite=False lets nan and infinity through; whole=True asks for whole numbers, as int64.
    """

    def __init__(
        self,
        *shapes: str,
        above: float = -checks.INF,
        least: float = -checks.INF,
        below: float = checks.INF,
        most: float = checks.INF,
        finite: bool = True,
        whole: bool = False,
    ) -> None:
        self.shapes = [tuple(int(d) if d.isdigit() else d for d in each.split()) for each in shapes]
        names = [d for each in self.shapes for d in each if isinstance(d, str)]
        if not shapes or not all(name.isidentifier() for name in names):
            raise TypeError(f"shapes {shapes}: give names and numbers with spaces, as in 'n p'")
        self.rows = self.shapes[-1][0] if self.shapes[-1] else None
        self.above = above
        self.least = least
        self.below = below
        self.most = most
        self.finite = finite
        self.whole = whole

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        if self.rows in sizes:
            value = checks.in_order_of(sizes[self.rows][2], name, value)
        array = checks.real_array(name, value, finite=self.finite)
        labels = [checks.index_of(value), checks.columns_of(value), *[None] * 9]
        if not any(self._fits(shape, array.shape, sizes, name, labels) for shape in self.shapes):
            raise ValueError(f"{name} of shape {array.shape} must be {self._wanted(sizes)}")
        bad = (array < self.least) | (array > self.most)
        bad |= (array <= self.above) & (self.above > -checks.INF)
        bad |= (array >= self.below) & (self.below < checks.INF)
        if self.whole:
            bad |= array != np.floor(array)
        if bad.any():
            place = np.argwhere(bad)[0]
            where = f" at {place.tolist()}" if place.size else ""
            bound = f"above {self.above:g}" if self.above >= self.least else f">= {self.least:g}"
            bound += f" and below {self.below:g}" if self.below < checks.INF else ""
            if self.whole:
                bound = f"whole numbers from {self.least:g} to {self.most:g}"
            raise ValueError(f"{name} must be {bound}; it holds {array[tuple(place)]:g}{where}")
        array = array.astype(np.int64) if self.whole else array
        array.setflags(write=False)
        return array if array.ndim else array.item()

    def _fits(self, shape, given, sizes, name, labels):
        """Whether an array has this shape; its names are bound then."""
        if len(shape) != len(given):
            return False
        new = {}
        for dimension, size, label in zip(shape, given, labels, strict=False):
            known = sizes.of(dimension)
            if known is None:
                known, *_ = new.setdefault(dimension, (size, name, label))
                if not size:
                    raise ValueError(f"{name} is empty: {dimension} = 0")
            if size != known:
                return False
            if dimension in sizes and sizes[dimension][2] is None:  # the first that has names
                new[dimension] = *sizes[dimension][:2], label
        sizes |= new
        return True

    def _wanted(self, sizes):
        """The shapes in words, and the sizes that are known of their names."""
        words = " or ".join(str(shape).replace("'", "") for shape in self.shapes)
        words = words.replace("()", "one number")
        for dimension in dict.fromkeys(d for shape in self.shapes for d in shape):
            size = sizes.of(dimension)
            if size not in (None, dimension):
                words += f", {dimension} = {size}"
                words += f" as in {sizes[dimension][1]}" if dimension in sizes else ""
        return words


@dataclass(frozen=True)
class Whole(Check):
    """One whole number from least to most, which may be the name of a size."""

    least: int
    most: int | str = checks.MOST

    def __call__(self, name: str, value: Any, sizes: Sizes) -> int:
        most = sizes.of(self.most)
        of = f" of {most} {self.most.removeprefix('n_')}" if isinstance(self.most, str) else ""
        return checks.check_whole(name, value, self.least, most, of)


class OneOf(Check):
    """One of these names."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def __call__(self, name: str, value: Any, sizes: Sizes) -> str:
        checks.check_choice(name, value, self.choices)
        return value


@dataclass(frozen=True)
class Is(Check):
    """An instance of the annotated type.

    remedy: the last words of what is said of others; sized: whether sizes of other arguments are
    attributes of it, or of its model.
    """

    remedy: str = ""
    sized: bool = False
    kind: Any = None

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        value = value.item() if isinstance(value, np.bool_) else value
        checks.check_kind(name, value, self.kind, self.remedy)
        if self.sized:
            sizes.owner = getattr(value, "model", value)
        return value


class Seeded(Check):
    """A generator, or the seed of one."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> np.random.Generator:
        if isinstance(value, bool) or not isinstance(value, int | np.integer | np.random.Generator):
            wanted = "pass numpy.random.default_rng(seed), or the seed"
            raise ValueError(f"{name} = {value!r:.60}: {wanted}")
        return np.random.default_rng(value)


AnyNumber = Annotated[float, Real("")]
Positive = Annotated[float, Real("", above=0.0)]
NonNegative = Annotated[float, Real("", least=0.0)]
Count = Annotated[int, Whole(1)]
Flag = Annotated[bool, Is()]
Params = Annotated[np.ndarray, Real("n_params", finite=False)]  # of a model, whose method asks
Rng = Annotated[np.random.Generator | int, Seeded()]


def declared(thing: Thing) -> Thing:
    """Have a dataclass or a function check what it is given, as its annotations say.

    The function without its checks is its attribute `unchecked`.

    Raises TypeError for annotations that say something else, or that are text.
    """
    if not is_dataclass(thing):
        return _declared(thing)
    constructor: Any = thing
    constructor.__init__ = _declared(constructor.__init__)
    plain = constructor.__init__.__annotations__
    shown = vars(thing).get("__annotations__", {})
    shown.update({name: plain[name] for name in shown.keys() & plain.keys()})
    return thing


def _declared(function: Any) -> Any:
    """The function with its checks; help() shows the plain types."""
    shown = signature(function)
    plain = []
    rules = {}
    for name, parameter in shown.parameters.items():
        check, optional, kind = _read(function, parameter)
        plain.append(parameter.replace(annotation=kind))
        if check:
            rules[name] = check, optional, parameter.kind == Parameter.VAR_POSITIONAL
    owner = None if function.__name__ == "__init__" else "self"

    @wraps(function)
    def with_checks(*args, **named):
        try:
            call = shown.bind(*args, **named)
        except TypeError as error:
            name = function.__qualname__.removesuffix(".__init__")
            takes = ", ".join(each for each in shown.parameters if each != "self")
            raise TypeError(f"{name}: {error}; it takes {takes}") from None
        given = call.arguments
        sizes = Sizes()
        sizes.owner = given.get(owner)
        ruled = [name for name in given if name in rules]
        for name in ruled:
            rules[name][0].bind(given, name, sizes)
        for name in ruled:
            check, optional, several = rules[name]
            values = given[name] if several else (given[name],)
            taken = tuple(
                value if isbox(value) or (optional and value is None) else check(name, value, sizes)
                for value in values
            )
            given[name] = taken if several else taken[0]
        if owner is None and sizes and hasattr(call.args[0], "index"):  # of a model: its sites
            call.args[0].__dict__["index"] = next(iter(sizes.values()))[2]
        return function(*call.args, **call.kwargs)

    with_checks.unchecked = function  # type: ignore[attr-defined]
    with_checks.__signature__ = shown.replace(parameters=plain)  # type: ignore[attr-defined]
    kinds = {each.name: each.annotation for each in plain if each.annotation is not Parameter.empty}
    with_checks.__annotations__ = {**function.__annotations__, **kinds}
    return with_checks


def _read(function, parameter):
    """(the check of a parameter or None, whether None is taken, its plain type)."""
    kind = parameter.annotation
    where = f"{function.__qualname__}: {parameter.name} is annotated by {kind!r:.80}"
    if isinstance(kind, str | Check):
        raise TypeError(f"{where}: write Annotated[type, check], not as text")
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if not any(get_origin(each) is Annotated for each in kinds):
        return None, False, kind
    kinds = [each for each in kinds if each is not NoneType]
    plain, *checks = get_args(kinds[0])
    if len(kinds) > 1 or len(checks) != 1 or not isinstance(checks[0], Check):
        raise TypeError(f"{where}: give it one check of acvlib.declared, such as Real('n p')")
    optional = get_origin(kind) is not Annotated or parameter.default is None
    check = checks[0]
    if isinstance(check, Is):  # Callable[..., X] is asked whether it is a Callable
        origin = get_origin(plain)
        check = replace(check, kind=plain if origin in (None, Union, UnionType) else origin)
    return check, optional, plain | None if optional else plain
