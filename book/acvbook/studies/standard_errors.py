"""What a standard error of cross-validation is worth: how often its interval covers the truth."""

import numpy as np
import pandas as pd
from scipy.signal import lfilter

import acvlib as acv
from acvlib.models import GLM, HMM
from acvlib.models.hmm.emissions import Gaussian

N_ROWS, N_TRUTH = 200, 20_000
SLOPES = np.array([1.0, -0.7, 0.5, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0])
# Columns and ridge of each model; order, common variance and prior of each chain.
MODELS = {"five": (5, 1.0), "six": (6, 1.0), "ten": (10, 1.0), "four": (4, 1.0), "firm": (5, 10.0)}
CHAINS = {"five": (1, True, 1.1), "six": (1, False, 1.1), "ten": (3, False, 1.1)}
CHAINS |= {"four": (0, True, 1.1), "firm": (1, True, 2.0)}
PAIRS = {"noise": "six", "noises": "ten", "dropped": "four", "ridge": "firm"}  # each beside five
WORDS = {
    "noise": "one parameter of noise more",
    "noises": "five parameters of noise more",
    "dropped": "a small effect dropped",
    "ridge": "ten times the prior",
    "loss": "one loss",
}
FAMILIES = {"logistic": "logistic", "gaussian": "gaussian", "poisson": "Poisson", "hmm": "HMM"}
SCHEMES = {"loo": "leave-one-out, of a row or sequence", "ten": "ten folds, of rows or frames"}
LEVEL = 1.96  # standard errors on either side
FEW = 10  # folds whose models stand for all in the truth: those of leave-one-out hardly differ
FRAMES = 10  # of each sequence, where sequences are left out
UNITS = {"centre": 0.0, "scale": 1.0}


def drawn(family, scheme, n, rng):
    """Models by name of n drawn rows, five columns noise; or of n frames, two states, lag 0.15."""
    if family == "hmm":
        lengths = (n // FRAMES, FRAMES + 3) if scheme == "loo" else (1, n + 3)
        states = np.cumsum(rng.random(lengths) < 0.1, axis=1) % 2
        x = lfilter([1.0], [1.0, -0.15], 3.0 * states + rng.standard_normal(lengths))[..., None]
        laws = {name: Gaussian(order=p, tied=t, **UNITS) for name, (p, t, _) in CHAINS.items()}
        return {name: HMM([*x], 2, law, None, CHAINS[name][2], 3) for name, law in laws.items()}
    X = rng.standard_normal((n, len(SLOPES)))
    eta = X @ SLOPES
    if family == "logistic":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
    elif family == "gaussian":
        y = eta + rng.standard_normal(n)
    else:
        y = rng.poisson(np.exp(0.5 * eta)) * 1.0
    return {name: GLM(X[:, :d], y, family, penalty=ridge) for name, (d, ridge) in MODELS.items()}


def one_draw(family, rng):
    """Whether each interval covers the truth, one row a scheme and pair, and for one `loss`:
    `dse` and pairs of losses alone; of one loss `se`, about the held-out and the training loss.
    """
    rows = {}
    for scheme in SCHEMES:
        models, fresh = (drawn(family, scheme, n, rng) for n in (N_ROWS, N_TRUTH))
        n, n_fresh = (each["five"].n_sites for each in (models, fresh))
        folds = acv.folds.k_fold(n, 10 if scheme == "ten" else n, rng)
        some = rng.choice(len(folds), FEW, replace=False)
        left = [np.arange(n_fresh)] * FEW  # of a series a tenth of the frames, beside the others
        if family == "hmm" and scheme == "ten":
            left = np.array_split(rng.permutation(n_fresh), FEW)
        results, truth = {}, {}
        for name, model in models.items():
            results[name] = acv.exact(acv.fit(model, rng=0), folds)
            parts = zip(results[name].params[some], left, strict=True)
            truth[name] = np.mean([fresh[name].heldout_loss(*part).mean() for part in parts])
        for pair, other in PAIRS.items():
            rows[scheme, pair] = _covers({name: results[name] for name in ("five", other)}, truth)
        one = results["five"]
        off = abs(np.array([one.loss, one.fitted_losses.mean()]) - truth["five"])
        rows[scheme, "loss"] = dict(zip(("dse", "dse_paired"), LEVEL * one.se >= off, strict=True))
    return pd.DataFrame(rows).T


def _covers(results, truth):
    table = acv.compare_models(results)
    best, other = table.index
    n = results[best].n_sites
    gap = table.elpd_diff[other] / n - (truth[other] - truth[best])
    errors = table.loc[other, ["dse", "dse_paired"]].astype(float)
    return LEVEL * errors / n >= abs(gap)


def coverage(n_draws, rng):
    """The share of draws that each interval covers, and draws: half as many of slow HMMs."""
    shares = {}
    for family in FAMILIES:
        many = n_draws // 2 if family == "hmm" else n_draws
        covered = sum(one_draw(family, own).astype(float) for own in rng.spawn(many))
        shares[family] = (covered / many).assign(draws=many)
    return pd.concat(shares, names=["family", "folds", "pair"])
