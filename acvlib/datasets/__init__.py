"""The data sets of the book: real where they are to be found, and simulated stand-ins that say so."""

import logging

import numpy as np

from acvlib.datasets.covtype import Covtype, load_covtype, simulate_covtype
from acvlib.datasets.dodgers import Dodgers, load_dodgers, simulate_dodgers
from acvlib.datasets.giordano_results import GiordanoResults, load_giordano_results
from acvlib.datasets.msd import Msd, load_msd, simulate_msd
from acvlib.datasets.registry import DataCorrupt, DataNotFound, DataSet, data_sets, get

__all__ = [
    "Covtype",
    "DataCorrupt",
    "DataNotFound",
    "DataSet",
    "Dodgers",
    "GiordanoResults",
    "Msd",
    "data_sets",
    "load_covtype",
    "load_dodgers",
    "load_giordano_results",
    "load_msd",
    "load_or_simulate",
    "simulate_covtype",
    "simulate_dodgers",
    "simulate_msd",
]

_log = logging.getLogger(__name__)
_SIMULATED = {"dodgers": (load_dodgers, simulate_dodgers), "covtype": (load_covtype, simulate_covtype)}


def load_or_simulate(name: str, rng: np.random.Generator) -> Dodgers | Covtype:
    """The real data set or, where it is not found, a simulated stand-in; one log line says so.

    `.provenance` tells which. A corrupt file raises DataCorrupt: only absence is stood in for. Raises
    KeyError for a set without a simulator.
    """
    if name not in _SIMULATED:
        raise KeyError(f"no simulator for {name!r}; there is one for {', '.join(_SIMULATED)}")
    load, simulate = _SIMULATED[name]
    try:
        return load()
    except DataNotFound:
        _log.warning("%s: SIMULATED stand-in. To get the real data: %s", name, get(name).how_to_get)
        return simulate(rng)
