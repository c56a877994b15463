"""A CRF layer at the size of CoNLL-2003 (14,987 sentences, 9 tags), in gradients, beside torch.

Simulated sentences of the real set's lengths and shares of tags. Ratios within this run. torchcrf
(pytorch-crf) joins where installed; without torch the comparison is left out.
"""

import importlib.util

import numpy as np
from _measure import ratio, report, timed
from acvbook import datasets

import acvlib as acv
from acvlib.folds import Folds
from acvlib.models import LinearChainCRF

N_FOLDS = 500


def crf(rng):
    """A CRF whose emission scores are right about nine words in ten."""
    text = datasets.simulate_conll2003(rng)
    numbers = {tag: number for number, tag in enumerate(text.tags)}
    labels = [np.array([numbers[tag] for tag in tags]) for tags in text.train.tags]
    emissions = [3.0 * np.eye(9)[z] + 2.0 * rng.standard_normal((len(z), 9)) for z in labels]
    return LinearChainCRF(emissions, labels)


def derivatives(model, params):
    """The Hessian, and gradients of many folds at once, in gradients."""
    ones, spread = np.ones(model.n_sites), params + 0.01 * np.arange(64)[:, None]
    hessian = ratio(
        lambda: model.derivatives.hessian(params, ones), lambda: gradient(model, params), 3
    )
    report("Hessian (99 x 99) in gradients", hessian, 120)
    folds = Folds(np.arange(64)[:, None])
    many = ratio(
        lambda: model.derivatives.fold_gradients(spread, folds), lambda: gradient(model, params), 3
    )
    report("gradient of a fold among 64, in gradients", many / len(spread), 1.3)


def gradient(model, params):
    return model.derivatives.value_and_gradient(params, np.ones(model.n_sites))


def cross_validation(model, fit, rng):
    """500 sentences left out one by one: every rung in gradients a fold, all refits converged."""
    folds = np.sort(rng.choice(model.n_sites, N_FOLDS, replace=False))[:, None]
    one = timed(lambda: gradient(model, fit.params), 5)[0]
    for rung, limit in (
        (acv.infinitesimal_jackknife, 0.2),
        (acv.frozen_newton, 0.2),
        (acv.exact, 2.0),
    ):
        seconds, result = timed(lambda rung=rung: rung(fit, folds))
        report(
            f"{rung.__name__}, {N_FOLDS} folds, in gradients a fold", seconds / one / N_FOLDS, limit
        )
    report("exact: largest Newton decrement", result.diagnostics["decrement"].max(), 1e-6)


def beside_torch(model, params, peer, name):
    """Loss and gradient: torch's seconds over ours, in batches of 512 of like length."""
    order = np.argsort([len(z) for z in model.labels])
    batches = [padded(model, numbers) for numbers in np.array_split(order, 30)]
    layer = peer().double()

    def loss_and_gradient():
        layer.zero_grad()
        for batch in batches:
            layer(*batch).sum().backward()

    seconds = ratio(loss_and_gradient, lambda: gradient(model, params), 3)
    report(f"{name}: seconds of loss and gradient over ours", seconds, 2, at_least=True)


def padded(model, numbers):
    """(scores, tags, mask) tensors, batch first."""
    import torch

    longest = max(len(model.labels[n]) for n in numbers)
    shape = len(numbers), longest
    scores, tags = torch.zeros(*shape, 9, dtype=torch.double), torch.zeros(shape, dtype=int)
    mask = torch.zeros(shape, dtype=bool)
    for row, n in enumerate(numbers):
        size = len(model.labels[n])
        scores[row, :size], tags[row, :size] = (
            torch.from_numpy(model.emissions[n]),
            torch.from_numpy(model.labels[n]),
        )
        mask[row, :size] = True
    return scores, tags, mask


def main():
    rng = np.random.default_rng(0)
    model = crf(rng)
    fit = acv.fit(model)
    derivatives(model, fit.params)
    cross_validation(model, fit, rng)
    if importlib.util.find_spec("torch"):
        from acvbook.neural.bilstm_crf import CRFLayer

        beside_torch(model, fit.params, lambda: CRFLayer(9), "torch, our training layer")
    if importlib.util.find_spec("torchcrf"):
        from torchcrf import CRF

        beside_torch(model, fit.params, lambda: CRF(9, batch_first=True), "pytorch-crf")


if __name__ == "__main__":
    main()
