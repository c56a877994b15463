"""Models: frozen data and hyperparameters, no fitted state; each loads when it is first named."""

from importlib import import_module

_MODULES = {
    name: module
    for module, names in {
        "..trials": "NoFiniteOptimum",
        ".crf": "CRFParams LinearChainCRF",
        ".glm": "GLM",
        ".glm.families": "FAMILIES Family",
        ".hmm": "HMM ImpossibleSequence",
        ".hmm.families": "AutoRegressiveHMM CategoricalHMM GLMHMM GaussianHMM MixtureHMM NeuralHMM "
        "PoissonHMM",
        ".hmm.parameters": "HMMParams",
        ".mrf": "EmptyState HiddenMRF",
        ".pairwise": "PairwiseLinear",
        ".semisupervised": "SemiSupervised",
        ".semisupervised.energy": "GraphAffinity ManifoldEnergy RBFAffinity",
        ".traffic": "PoissonTraffic TrafficParams",
        ".traffic.emission": "TrafficPrior",
    }.items()
    for name in names.split()
}
__all__ = list(_MODULES)


def __getattr__(name):
    if name in _MODULES:
        return getattr(import_module(_MODULES[name], __name__), name)
    if f".{name}" in _MODULES.values():
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
