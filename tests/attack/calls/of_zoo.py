"""Methods of a small model of each family."""

from functools import cache

import numpy as np

import acvlib as acv
from acvlib import models, weighting
from acvlib.folds import Folds
from acvlib.models.hmm import em as hmm_em

from .. import inputs as odd
from .call import N, add, dyadic
from .of_graphs import close
from .of_models import (
    LISTS,
    SEQUENCES,
    TOKENS,
    described,
    each_of,
    energy,
    glm,
    half_labelled,
    mrf,
    sentences,
    sequences,
    series,
    several,
    traffic_data,
)


@cache
def zoo():
    """A small model of each family, and params of it."""
    rng = np.random.default_rng(1)
    found = {
        "GLM": glm(),
        "GLM gaussian": glm("gaussian"),
        "GLM poisson": glm("poisson"),
        "GLM multinomial": several("multinomial"),
        "GLM targets": several("gaussian"),
        "HiddenMRF": mrf(),
        "GaussianHMM": models.GaussianHMM(series(rng)[:, None], 2),
        "AutoRegressiveHMM": models.AutoRegressiveHMM(sequences(rng), 2),
        "NeuralHMM": models.NeuralHMM(sequences(rng), 2, n_hidden=2),
        "PoissonTraffic": models.PoissonTraffic(**traffic_data(rng)),
        "LinearChainCRF": models.LinearChainCRF(**sentences(rng)),
        "LinearChainCRF tokens": models.LinearChainCRF(
            **sentences(rng), scheme=weighting.hide_labels
        ),
        "FeatureCRF": acv.FeatureCRF(**described(rng)),
        "SemiSupervised": models.SemiSupervised(energy(rng), half_labelled(rng), "logistic"),
        "PairwiseLinear": models.PairwiseLinear(dyadic(rng, N, 2), dyadic(rng, N)),
    }
    rounded = {}
    for name, model in found.items():
        start = np.asarray(model.initial_params(np.random.default_rng(0)))
        rounded[name] = (
            (start + rng.integers(-4, 5, len(start)) / 16.0).astype(np.float16).astype(float)
        )
    return found, rounded


def two_sites(name):
    model = zoo()[0][name]
    sites = np.arange(model.n_sites) if model.observed is None else np.flatnonzero(model.observed)
    return sites[[0, 2]]


def method(name, attribute, undefined=False, **arguments):
    """A call of a method of a model of the zoo; arguments: {argument: (plain, family)}."""
    plain = {key: value for key, (value, _) in arguments.items()}
    add(
        f"{name}.{attribute}",
        lambda **a: getattr(zoo()[0][name], attribute)(**a),
        lambda rng: {k: v(rng) if callable(v) else v for k, v in plain.items()},
        unbounded=True,
        undefined=undefined,
        **{k: f for k, (_, f) in arguments.items()},
    )


for name in zoo()[0]:
    params = (zoo()[1][name], odd.PARAMS)
    n = zoo()[0][name].n_sites
    method(
        name,
        "objective",
        params=params,
        weights=(lambda rng, n=n: rng.integers(1, 9, n) / 8.0, odd.WEIGHTS),
    )
    fold = (
        odd.without(odd.SITES, "turned", "mask", "one") if name == "PairwiseLinear" else odd.SITES
    )
    method(name, "heldout_loss", params=params, fold=(two_sites(name), fold))
    method(
        name,
        "initial_params",
        rng=(lambda rng: np.random.default_rng(5), odd.without(odd.RNG, "None ")),
    )
    for extra in ("unpack", "posterior", "log_densities", "log_chain", "log_prior", "hold"):
        if hasattr(zoo()[0][name], extra):
            method(name, extra, params=params)
method(
    "HiddenMRF",
    "log_partition",
    weights=(lambda rng: rng.integers(1, 9, 12) / 8.0, odd.without(odd.WEIGHTS, "None ")),
)
for name in (
    "GaussianHMM",
    "AutoRegressiveHMM",
    "NeuralHMM",
    "PoissonTraffic",
    "LinearChainCRF",
    "FeatureCRF",
):
    add(
        f"{name}.pack",
        lambda params, name=name: zoo()[0][name].pack(zoo()[0][name].unpack(params)),
        lambda rng, name=name: {"params": zoo()[1][name]},
        lambda found, params: close(found, params),
    )
for name in ("GLM", "GLM multinomial"):
    method(
        name,
        "predict",
        params=(zoo()[1][name], odd.PARAMS),
        X=(lambda rng: dyadic(rng, 5, 2), odd.without(odd.SERIES, "empty")),
    )
method(
    "AutoRegressiveHMM",
    "sequence_losses",
    params=(zoo()[1]["AutoRegressiveHMM"], odd.PARAMS),
    sequences=(sequences, odd.without(SEQUENCES, "none", "None ")),  # its own
)
for attribute in ("posterior", "predict", "decode"):
    add(
        f"HMM.{attribute}",
        lambda attribute=attribute, **a: list(getattr(zoo()[0]["GaussianHMM"], attribute)(**a)),
        lambda rng: {"params": zoo()[1]["GaussianHMM"], "sequences": [series(rng)[:, None]]},
        params=odd.PARAMS,
        unbounded=True,
    )


@cache
def hmmlearns():
    """A fitted model of hmmlearn."""
    from hmmlearn.hmm import GaussianHMM

    x = series(np.random.default_rng(1))[:, None]
    return GaussianHMM(2, random_state=0).fit(x)


add(
    "from_hmmlearn",
    lambda **a: acv.from_hmmlearn(**a)[1],
    lambda rng: {"fitted": hmmlearns(), "X": series(rng)[:, None], "lengths": [15, 25]},
    fitted=odd.OBJECTS,
    lengths=odd.kinds(
        "refuse",
        short=odd.constant([15, 24]),
        zero=odd.constant([40, 0]),
        negative=odd.constant([50, -10]),
        fraction=odd.constant([15.5, 24.5]),
        text=odd.constant("ab"),
        none=odd.constant([]),
        nested=odd.constant([[15, 25]]),
    ),
)
NEW_SENTENCES = odd.without(LISTS, "fewer", "None ") | odd.without(
    each_of(odd.TABLE), "one too short", "one too long"
)
for attribute in ("predict", "marginals"):
    method(
        "LinearChainCRF",
        attribute,
        params=(zoo()[1]["LinearChainCRF"], odd.PARAMS),
        sentences=(lambda rng: sentences(rng)["emissions"], NEW_SENTENCES),
    )
for attribute in ("predict", "marginals"):
    method(
        "FeatureCRF",
        attribute,
        params=(zoo()[1]["FeatureCRF"], odd.PARAMS),
        sentences=(lambda rng: described(rng)["sentences"], odd.without(TOKENS, "fewer", "None ")),
    )
for name in ("SemiSupervised", "PairwiseLinear"):
    method(
        name,
        "printed_cross",
        params=(zoo()[1][name], odd.PARAMS),
        folds=(Folds([two_sites(name)]), odd.OBJECTS),
    )
method(
    "PairwiseLinear",
    "pair_losses",
    params=(zoo()[1]["PairwiseLinear"], odd.PARAMS),
    fold=(two_sites("PairwiseLinear"), odd.without(odd.SITES, "turned", "one")),
)
WHOLE_STEPS = {"max_iterations": odd.COUNT, "tolerance": odd.NONNEGATIVE}
add(
    "hmm.em.restarts",
    lambda **a: hmm_em.restarts(zoo()[0]["GaussianHMM"], **a).params,
    lambda rng: {"rng": np.random.default_rng(5), "n_restarts": 2},
    rng=odd.RNG,
    n_restarts=odd.COUNT,
)
add(
    "hmm.em.expectation_maximisation",
    lambda **a: hmm_em.expectation_maximisation(zoo()[0]["GaussianHMM"], **a).params,
    lambda rng: {"start": zoo()[1]["GaussianHMM"], "max_iterations": 100, "tolerance": 1e-6},
    start=odd.PARAMS,
    max_iterations=odd.COUNT,
    tolerance=odd.NONNEGATIVE,
)
