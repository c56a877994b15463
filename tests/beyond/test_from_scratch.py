"""`from_scratch`: against `exact` where there is one optimum, and blind to what it leaves out."""

from dataclasses import dataclass, replace

import autograd.numpy as anp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import Saddle

import acvlib as acv
from acvlib.models import AutoRegressiveHMM, CategoricalHMM, GaussianHMM, PoissonHMM
from acvlib.trials import UnconvergedFit

RNG = np.random.default_rng(5)
HIDDEN = np.repeat(RNG.integers(0, 2, 12), 10)
SERIES = 4.0 * HIDDEN + RNG.standard_normal(120)
PARTS = np.split(SERIES, 4)
FOLDS = acv.folds.k_fold(120, 5, RNG)


def test_states_that_are_clear_have_one_optimum_but_for_their_names():
    model = GaussianHMM(PARTS, 2, sites="steps")
    fit = acv.fit(model, rng=RNG)
    found = acv.from_scratch(fit, FOLDS, 3)
    exact = acv.exact(fit, FOLDS)
    assert_allclose(found.fold_totals, exact.fold_totals, rtol=1e-7)
    assert found.diagnostics["converged"].all()
    assert (found.diagnostics["agreeing"] >= 1).all()
    assert found.evaluations["fits"] == 15


@pytest.mark.parametrize(
    ("kind", "n_sequences", "sites"),
    [
        ("gaussian", 1, "steps"),
        ("gaussian", 4, "sequences"),
        ("poisson", 4, "steps"),
        ("categorical", 1, "steps"),
        ("autoregressive", 4, "steps"),
        ("autoregressive", 4, "sequences"),
    ],
)
def test_a_refit_does_not_depend_on_what_it_leaves_out(kind, n_sequences, sites):
    fold = np.arange(1, 2) if sites == "sequences" else np.array([3, 7, 8, 63, 119])

    def refit(values):
        model = _model(kind, np.split(values, n_sequences), sites)
        fit = acv.fit(model)
        return acv.from_scratch(fit, acv.Folds([fold]), 3, rng=1).params[0]

    counts = np.round(np.abs(SERIES))
    other = counts.copy()
    left_out = np.arange(30, 60) if sites == "sequences" else fold
    if kind == "autoregressive" and sites == "steps":
        left_out = fold[-1:]  # the others are lags of frames that stay
        fold = left_out - n_sequences
    other[left_out] = 5.0 - np.minimum(counts[left_out], 5.0)
    assert (other != counts).any()
    assert_array_equal(refit(other), refit(counts))


def _model(kind, sequences, sites):
    """With the same units, whatever is left out: those of a fit come from all its frames."""
    if kind in ("gaussian", "autoregressive"):
        family = {"gaussian": GaussianHMM, "autoregressive": AutoRegressiveHMM}[kind]
        known = family([np.round(np.abs(part)) for part in PARTS], 2).emission
        return replace(family(sequences, 2, sites=sites), emission=known)
    if kind == "poisson":
        return PoissonHMM(sequences, 2, sites=sites)
    if kind == "categorical":
        return CategoricalHMM([np.minimum(x, 5.0) for x in sequences], 2, 6, sites=sites)
    raise LookupError(kind)


@dataclass(frozen=True)
class Unheeded:
    """Two wells, and sample weights that do nothing."""

    sample_weight: float = 1.0
    n_sites = 4

    def objective(self, params, weights):
        return (params[0] ** 2 - 1.0) ** 2 + anp.sum(weights) * params[0]

    def heldout_loss(self, params, fold):
        return params[0] * np.ones(len(fold))

    def initial_params(self, rng):
        return -np.ones(1)


def test_a_fold_that_leaves_no_model_is_lost_alone(rng):
    x = rng.poisson(4.0, (4, 20, 2)).astype(float)
    x[[0, 1, 3], :, 1] = np.nan  # a channel that sequence 2 alone has
    fit = acv.fit(PoissonHMM(list(x), 1))
    with pytest.warns(UnconvergedFit, match="2: .* channel 1 is missing in every frame"):
        found = acv.from_scratch(fit, acv.folds.leave_one_out(4), 1)
    assert np.isnan(found.fold_losses).tolist() == [False, False, True, False]


@dataclass(frozen=True)
class Named(Unheeded):
    """Two wells, and sample weights by name."""

    index = pd.Index(list("abcd"))

    def objective(self, params, weights):
        weights = weights * self.sample_weight.loc[self.index].to_numpy()
        return (params[0] ** 2 - 1.0) ** 2 + anp.sum(weights * np.arange(4.0)) * params[0]


def test_sample_weights_of_ones_own_model_go_by_name():
    fit = acv.fit(Named(pd.Series([1.0, 2.0, 3.0, 4.0], list("cadb"))))
    folds = acv.folds.k_fold(4, 4)
    found = acv.from_scratch(fit, folds, 1)
    assert_allclose(found.fold_losses, acv.exact(fit, folds).fold_losses)


def test_models_whose_sites_no_sample_weight_leaves_out_are_refused():
    x = RNG.standard_normal((4, 2))
    folds = acv.folds.k_fold(4, 2)
    saddle = Saddle(x, x[:, 0])
    with pytest.raises(TypeError, match=r'Saddle is no dataclass with .*choose\(.*method="exact"'):
        acv.from_scratch(acv.fit_at(saddle, np.zeros(2)), folds)
    fit = acv.fit(Unheeded())
    with pytest.raises(ValueError, match=r"sample_weight 0 does not leave out .* acv\.exact"):
        acv.from_scratch(fit, folds)
    with pytest.raises(ValueError, match="n_starts = 0"):
        acv.from_scratch(fit, folds, 0)
