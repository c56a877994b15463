"""The params of an HMM: one flat vector, as rows of probabilities and of states' parameters."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd.tracer import isbox

from ...checks import in_named_columns, index_of, one_line, read_only, real_array
from ...declared import Is, Params, declared
from ...trials import NoFiniteOptimum
from .frames import check_states

TINY = 1e-130  # in place of a free probability of 0, which has no finite log weight
VANISHING = 1e-3  # expected counts below which a flat prior lets a probability run to 0
EXTREME = np.log(1e-5)  # of a probability or a rate, above which none is at infinity
WHOLE = 1.0 - 1e-9  # what fixed entries sum to, if they leave nothing


def log_softmax(weights: Any) -> Any:
    """Log probabilities (..., K) of log weights; of -inf, -inf; differentiable."""
    xp = anp if isbox(weights) else np
    top = xp.max(weights, axis=-1, keepdims=True)
    shifted = weights - xp.where(top > -np.inf, top, 0.0)
    total = xp.sum(xp.exp(shifted), axis=-1, keepdims=True)
    return shifted - xp.log(xp.where(total == 0.0, 1.0, total))


@dataclass(frozen=True)
class Simplex:
    """n rows of K probabilities ~ Dirichlet(concentration); fixed: None, or (n, K), nan where free.

    A row is given by log weights (K,): the free entries of p share what the fixed ones leave, in
    proportion to their exp. The last free one is 0 and, like what is fixed, no parameter.

    concentration: one number, or one for each row (n, 1) or entry (n, K).
    """

    __repr__ = one_line
    shape: tuple[int, int]
    concentration: Any
    fixed: Any = None

    def __post_init__(self):
        concentration = real_array("concentration", self.concentration, finite=False)
        one_size = concentration.shape in ((), (self.shape[0], 1), self.shape)
        if not one_size or not ((concentration >= 1.0) & (concentration < np.inf)).all():
            shapes = f"one number, {(self.shape[0], 1)} or {self.shape}"
            told = f"concentration = {concentration.tolist()}"
            raise ValueError(f"{told}: must be >= 1 and finite: {shapes}")
        value = read_only(concentration) if concentration.ndim else float(concentration)
        object.__setattr__(self, "concentration", value)
        if self.fixed is None:
            return
        entries = real_array("fixed", self.fixed, 2, finite=False)
        if entries.shape != self.shape:
            raise ValueError(f"fixed {entries.shape}: must be {self.shape}, nan where free")
        total = np.nansum(entries, axis=1)
        beyond = np.where(np.isnan(entries).any(axis=1), total - 1.0, abs(total - 1.0))
        wrong = (entries < 0.0).any(axis=1) | (beyond > 1e-6)
        if wrong.any():
            row = np.argmax(wrong)
            raise ValueError(f"fixed row {row}, {entries[row]}: probabilities, nan where free")
        entries[np.isnan(entries) & (total > WHOLE)[:, None]] = 0.0
        object.__setattr__(self, "fixed", read_only(entries))

    @cached_property
    def free(self) -> np.ndarray:
        """(n, K) whether an entry is free."""
        return np.ones(self.shape, bool) if self.fixed is None else np.isnan(self.fixed)

    @cached_property
    def kept(self) -> np.ndarray:
        """(n, K) whether a log weight is a parameter: a row of m free entries has m - 1."""
        is_last = np.cumsum(self.free[:, ::-1], axis=1)[:, ::-1] == 1
        return self.free & ~is_last

    @cached_property
    def left(self) -> np.ndarray:
        """What fixed entries leave (n, 1); 1 where they leave nothing to share."""
        left = 1.0 if self.fixed is None else 1.0 - np.nansum(self.fixed, axis=1, keepdims=True)
        return np.where(self.free.any(axis=1, keepdims=True), left, 1.0)

    def log_p(self, weights: Any) -> Any:
        """Log probabilities (..., n, K) of log weights; differentiable."""
        if self.fixed is None:
            return log_softmax(weights)
        shared = log_softmax(anp.where(self.free, weights, -np.inf)) + np.log(self.left)
        with np.errstate(divide="ignore"):
            return anp.where(self.free, shared, np.log(self.fixed))

    def shares(self, p: Any) -> Any:
        """What a free entry has of what its row shares; 0 of a fixed one."""
        return p if self.fixed is None else p * self.free / self.left

    def score(self, counts: Any, p: Any) -> Any:
        """Gradient (..., n, K) of sum_k counts_k log p_k in the log weights."""
        counts = counts * self.free
        return counts - counts.sum(axis=-1, keepdims=True) * self.shares(p)

    def information(self, counts: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Minus the Hessians (n, K, K) of it."""
        q = self.shares(p)
        total = (counts * self.free).sum(axis=1)
        return total[:, None, None] * q[:, :, None] * (np.eye(q.shape[1]) - q[:, None, :])

    def moved_log_p(self, directions: np.ndarray, p: np.ndarray) -> np.ndarray:
        """How log p (n, K) moves along directions (B, n, K) of the log weights; 0 where fixed."""
        moved = directions - (directions * self.shares(p)).sum(axis=-1, keepdims=True)
        return moved * self.free

    @cached_property
    def pseudo_counts(self) -> np.ndarray:
        """The prior as counts (n, K): its density is sum_k counts_k log p_k."""
        return (self.concentration - 1.0) * self.free

    def minus_log_prior(self, log_p: Any) -> tuple[Any, Any]:
        """At log_p (..., n, K): (value (...), slopes in the log weights); differentiable."""
        xp = anp if isbox(log_p) else np
        finite = log_p if self.fixed is None else xp.where(self.free, log_p, 0.0)
        value = -xp.sum(self.pseudo_counts * finite, axis=(-2, -1))
        return value, -self.score(self.pseudo_counts, xp.exp(log_p))

    def rows(self, counts: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) in proportion to counts, but for what is fixed."""
        shares = np.maximum(counts, TINY) * self.free
        shares = self.left * shares / np.maximum(shares.sum(axis=1, keepdims=True), TINY)
        return shares if self.fixed is None else np.where(self.free, shares, self.fixed)

    def weights(self, p: np.ndarray, name: str = "probabilities") -> np.ndarray:
        """Log weights (n, K) of probabilities, 0 where fixed; ValueError for other fixed ones."""
        if p.shape != self.shape or not (abs(p.sum(axis=1) - 1.0) <= 1e-6).all():
            raise ValueError(f"{name} {p.tolist()} must be {self.shape[1]} probabilities each")
        if self.fixed is not None and not np.allclose(p[~self.free], self.fixed[~self.free]):
            raise ValueError(f"{name} {p.tolist()} must be {self.fixed.tolist()} where fixed")
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.free, np.log(p), 0.0)
        if not np.isfinite(logs).all():
            row, column = np.argwhere(~np.isfinite(logs))[0]
            remedy = "choose fewer components" if name == "weight" else "give it `fixed`"
            raise ValueError(f"{name}[{row}, {column}] = {p[row, column]} is free: {remedy}")
        last = self.shape[1] - 1 - self.free[:, ::-1].argmax(axis=1)
        return np.where(self.free, logs - np.take_along_axis(logs, last[:, None], axis=1), 0.0)

    @cached_property
    def open_to_zero(self) -> np.ndarray:
        """(n, K) whether an entry is free to run to 0 under a flat prior."""
        is_shared = self.free.sum(axis=1, keepdims=True) > 1
        return self.free & is_shared & (self.concentration == 1.0)

    def extreme(self, weights: np.ndarray) -> np.ndarray:
        """Whether log weights (..., n, K) may be at infinity, (...)."""
        return (self.log_p(weights)[..., self.open_to_zero] < EXTREME).any(axis=-1)

    def check_optimum(self, counts: np.ndarray, remedy: str) -> None:
        """Raise `NoFiniteOptimum` where an entry runs to 0, given expected counts (n, K).

        remedy: the prior that keeps it above 0
        """
        rare = (counts < VANISHING) & self.open_to_zero
        if rare.any():
            row, column = np.argwhere(rare)[0]
            raise NoFiniteOptimum(
                f"{rare.sum()} of the probabilities {self.shape} run to 0 under a flat prior, the "
                f"first [{row}, {column}]: {remedy} above 1"
            )


class HMMParams(NamedTuple):
    """initial (K,), transition (K, K) with rows that sum to 1, emission: its named parameters."""

    initial: np.ndarray
    transition: np.ndarray
    emission: Any


class Parameters:
    """Methods of an `HMM`: params (D,) and what they are made of.

    Before what is fixed is left out: log weights (K + 1, K) of the chain's rows, see `Simplex`, the
    emission's shared parameters, and d of each state.
    """

    @cached_property
    def chain_prior(self: Any) -> Simplex:
        """The prior of initial and transition probabilities, and which of them are fixed."""
        tables = {"concentration": self.concentration, "fixed": self.fixed}
        of_emission = [getattr(part, "fixed", None) for _, part in self.emission.parts]
        check_states([*tables.values(), *of_emission], self.n_states)
        for name, table in tables.items():
            if (index := index_of(table)) is not None:  # of pandas
                tables[name] = in_named_columns(index[1:], name, table)
        return Simplex((self.n_states + 1, self.n_states), **tables)

    @cached_property
    def n_chain(self: Any) -> int:
        """How many log weights come first."""
        return int(self.chain_prior.kept.sum())

    @cached_property
    def n_nuisance(self: Any) -> int:
        """How many parameters come before those of single states."""
        return self.n_chain + self.emission.n_shared

    @cached_property
    def n_params(self: Any) -> int:
        """D."""
        return int(self.kept_in_states.sum()) + (self.n_nuisance if self.held is None else 0)

    @cached_property
    def kept_in_states(self: Any) -> np.ndarray:
        """(K, d) which of the states' own parameters are free."""
        return self.emission.kept(self.n_states, self.n_channels)

    @cached_property
    def _places(self: Any):
        """Places (K + 1, K), (K, d) among parameters; of what is fixed -1, the appended 0's."""
        return [
            np.where(kept, np.cumsum(kept).reshape(kept.shape) - 1, -1)
            for kept in (self.chain_prior.kept, self.kept_in_states)
        ]

    @declared
    def hold(self: Any, params: Params) -> tuple[Any, np.ndarray]:
        """Hold what is not of single states at params: (the model so held, the params still free).

        As the paper counts: Theta = (B, b), D = K R (p R + 1) in Eq. 17.
        """
        if self.held is not None:
            raise ValueError("something is held already: hold() the whole model's params")
        return replace(self, held=params[: self.n_nuisance]), params[self.n_nuisance :]

    def split(self: Any, params: Any) -> tuple[Any, Any]:
        """Log weights (K + 1, K) of the chain, rows (K, e) of the states, shared ones first.

        Of directions (B, D), along which what is held does not move, both have (B,) in front.
        """
        xp = anp if isbox(params) else np
        *lead, _ = params.shape
        if self.held is not None:
            front = np.zeros((*lead, self.n_nuisance)) if lead else self.held
            params = xp.concatenate([front, params], axis=-1)
        chain, states = self._places
        zero = np.zeros((*lead, 1))
        front = xp.concatenate([params[..., : self.n_chain], zero], axis=-1)
        rows = xp.concatenate([params[..., self.n_nuisance :], zero], axis=-1)[..., states]
        if self.emission.n_shared:
            shared = params[..., None, self.n_chain : self.n_nuisance] * np.ones((self.n_states, 1))
            rows = xp.concatenate([shared, rows], axis=-1)
        return front[..., chain], rows

    def join(self: Any, chain: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Derivatives by params (..., D) from those by what `split` gives."""
        n_shared = self.emission.n_shared
        of_states = rows[..., n_shared:][..., self.kept_in_states]
        if self.held is not None:
            return of_states
        front = chain[..., self.chain_prior.kept]
        return np.concatenate([front, rows[..., :n_shared].sum(axis=-2), of_states], axis=-1)

    @declared
    def unpack(self: Any, params: Params) -> HMMParams:
        """Named, constrained parameters, in the units of the data."""
        chain, rows = self.split(params)
        p = (anp if isbox(params) else np).exp(self.chain_prior.log_p(chain))
        return HMMParams(p[0], p[1:], self.emission.unpack(rows, self.n_channels))

    @declared
    def pack(self: Any, named: Annotated[HMMParams, Is()]) -> np.ndarray:
        """The params (D,) of named ones; what is held is left out."""
        _check_shapes("named", named, self.unpack(np.zeros(self.n_params)))
        rows = np.vstack([named.initial, named.transition])
        return self.packed(rows, self.emission.pack(named.emission))

    def packed(self: Any, p: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The params of rows of probabilities (K + 1, K) and rows (K, e) of the states."""
        weights = self.chain_prior.weights(p, "initial and transition")
        n_shared = self.emission.n_shared
        front = np.append(weights[self.chain_prior.kept], rows[0, :n_shared])
        packed = np.append(front, rows[:, n_shared:][self.kept_in_states])
        if not np.isfinite(packed).all():
            raise ValueError(
                f"{len(packed)} finite params are needed: of sds, rates and dispersions above 0"
            )
        return packed[-self.n_params :]


def _check_shapes(name, named, like):
    """Raise ValueError unless named arrays have the shapes of others."""
    if isinstance(like, dict):
        for group in like:
            _check_shapes(f"{name}[{group!r}]", dict(named).get(group), like[group])
    elif hasattr(like, "_fields"):
        for field in like._fields:
            _check_shapes(f"{name}.{field}", getattr(named, field, None), getattr(like, field))
    elif np.shape(named) != np.shape(like):
        raise ValueError(f"{name} {np.shape(named)}: must be {np.shape(like)}")
