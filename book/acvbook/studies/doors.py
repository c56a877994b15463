"""What the examples of *Front doors* share: data to bring, and the comparison with refits."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from hmmlearn.hmm import GaussianHMM

import acvlib as acv
from acvbook import ledger
from acvlib.models import HMM, HiddenMRF

from . import mrf

_QUAKES = (
    "0d0e080a101a201b12202418161716121915150e080b0e171211131416130d1a0d0e161815161a1517181b291f1b23"
    "1a1c242715111611130f220a0f16120f140f1613101e1b1d17141015151910120f120e0a0f080f060b080712100d0c"
    "0d140f100c120f100d0f100b0b"
)


def exact(name: str, ours: object, refits: object, nothing: object = None) -> None:
    """Record the largest absolute difference of a door that promises the same numbers."""
    gap = np.abs(np.subtract(ours, refits)).max()
    none = None if nothing is None else np.abs(np.subtract(nothing, refits)).max()
    ledger.record(f"beyond.doors.{name}", gap, baseline=none)
    print(f"largest difference: {gap:.1e}" + _unadjusted(none))


def near(name: str, ours: object, refits: object, nothing: object) -> None:
    """Record an approximate door's mean difference, and its ratio to that of doing nothing."""
    gap = np.abs(np.subtract(ours, refits))
    none = np.abs(np.subtract(nothing, refits))
    ledger.record(f"beyond.doors.{name}", gap.mean(), baseline=none.mean())
    ledger.record(f"beyond.doors.{name}.ratio", gap.mean() / none.mean(), baseline=1.0)
    print(f"mean difference: {gap.mean():.1e}" + _unadjusted(none.mean()))
    print(f"largest difference: {gap.max():.1e}" + _unadjusted(none.max()))


def near_refits(name: str, cv: acv.CVResult, refits: object, seen: object = slice(None)) -> None:
    """`near` of the losses of the sites of a result, or of some of them."""
    none = acv.no_adjustment(cv.fit, cv.folds)
    near(name, cv.pointwise[seen], np.asarray(refits)[seen], none.pointwise[seen])


def _unadjusted(gap):
    return "" if gap is None else f"; with nothing adjusted: {gap:.1e}"


def chain(n: int, share: float, rng: np.random.Generator, n_states: int = 2) -> np.ndarray:
    """States (n,) of a chain that goes on to the next one in a share of the steps."""
    return np.cumsum(rng.random(n) < share) % n_states


def quakes() -> np.ndarray:
    """Major earthquakes of the world in each year from 1900 to 2006 (USGS)."""
    return np.array(list(bytes.fromhex(_QUAKES)), float)


def session(rng: np.random.Generator, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """(choices (n - 1,), inputs (n - 1, 2)): one state follows the stimulus, one habit."""
    state, stimulus, y = chain(n, 0.04, rng), rng.normal(size=n), np.zeros(n)
    for t in range(1, n):
        habit = 3.0 * (2 * y[t - 1] - 1) + 0.5 * stimulus[t]
        y[t] = rng.random() < 1 / (1 + np.exp(-(4.0 * stimulus[t] if state[t] == 0 else habit)))
    return y[1:], np.column_stack([stimulus[1:], 2 * y[:-1] - 1])


def sentences(rng: np.random.Generator) -> tuple[list, list]:
    """(features, labels) of 120 sentences: a dict for each word, and whether it is a name."""
    words = [[f"w{k}" for k in rng.zipf(1.4, 9) % 400] for _ in range(120)]
    y = [["NAME" if (int(w[1:]) + rng.integers(2)) % 3 == 0 else "O" for w in own] for own in words]
    return [[{"word": w, "last": w[-1], "first": w is own[0]} for w in own] for own in words], y


def refits(model: object, x: np.ndarray, folds: object, start: np.ndarray) -> np.ndarray:
    """Losses (n,) of the frames of one series `x`, by fits to the series without each fold, in the
    units of the whole; nan where no fold has the frame.
    """
    losses = np.full(len(x), np.nan)
    for fold in folds:
        missing = x.copy()
        missing[fold] = np.nan
        without = HMM([missing], len(model.unpack(start).initial), model.emission, "steps")
        losses[fold] = model.heldout_loss(acv.fit(without, start).params, fold)
    return losses


def without_each(model: HiddenMRF) -> np.ndarray:
    """Losses (n,) of all sites of a map, each by EM from the start without it."""
    losses = []
    for site in range(model.n_sites):
        weights = acv.folds.weights(model.n_sites, [site])
        losses.append(model.heldout_loss(mrf.em(model, weights).params, [site])[0])
    return np.array(losses)


def hmmlearn_model(named: object, covariance: str) -> object:
    """hmmlearn's GaussianHMM that goes on from `named`, by maximum likelihood."""
    none = {"covars_prior": 0, "covars_weight": 0, "min_covar": 0}
    n_states, n_features = named.emission.mean.shape
    settings = {"init_params": "", "n_iter": 100, "tol": 1e-4, **none}
    peer = GaussianHMM(n_states, covariance, **settings)
    peer.n_features, peer.startprob_, peer.transmat_ = n_features, named.initial, named.transition
    law = named.emission
    peer.means_ = law.mean
    peer.covars_ = law.sd**2 if covariance == "diag" else law.covariance
    return peer


def hmmlearn_moved(fitted: object, named: object) -> object:
    """A copy of the fitted hmmlearn model, priors and all, whose fit goes on from `named`."""
    peer = deepcopy(fitted).set_params(init_params="")
    peer.startprob_, peer.transmat_ = named.initial, named.transition
    peer.means_, peer.covars_ = named.emission.mean, named.emission.sd**2
    return peer


def torch_minimum(objective: Callable, p: dict) -> None:
    """Put the tensors `p` where `objective(p)` is least, by torch's L-BFGS."""
    for tensor in p.values():
        tensor.requires_grad_()
    close = {"tolerance_grad": 1e-9, "tolerance_change": 1e-14, "line_search_fn": "strong_wolfe"}
    optimiser = torch.optim.LBFGS(list(p.values()), 1.0, 200, **close)

    def closure():
        optimiser.zero_grad()
        value = objective(p)
        value.backward()
        return value

    optimiser.step(closure)
