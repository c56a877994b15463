"""The data sets of the book: real where they are found, and stand-ins that say that they are."""

import logging
from functools import partial

import numpy as np

from .covtype import Covtype, load_covtype, simulate_covtype
from .dodgers import Dodgers, load_dodgers, simulate_dodgers
from .faces import Faces, load_att_faces, simulate_att_faces
from .genomics import (
    Genomics,
    GiordanoResults,
    load_genomics,
    load_giordano_results,
    simulate_genomics,
)
from .libsvm import SHAPES, Libsvm, load_libsvm, simulate_libsvm
from .mocap import (
    Mocap,
    load_mocap,
    load_mocap_long,
    simulate_mocap,
    simulate_mocap_long,
    simulate_mocap_slow,
)
from .msd import Msd, load_msd, simulate_msd
from .philadelphia import (
    MAY_2016,
    Areas,
    load_philadelphia,
    load_philadelphia_toy,
    simulate_philadelphia,
    simulate_toy,
)
from .registry import DataCorrupt, DataNotFound, DataSet, data_sets, get
from .tagged import (
    Sentences,
    TaggedText,
    load_conll2003,
    load_wnut17,
    read_columns,
    simulate_conll2003,
    simulate_wnut17,
)

_log = logging.getLogger(__name__)
_SIMULATED = {
    "att_faces": (load_att_faces, simulate_att_faces),
    "conll2003": (load_conll2003, simulate_conll2003),
    "wnut17": (load_wnut17, simulate_wnut17),
    "dodgers": (load_dodgers, simulate_dodgers),
    "covtype": (load_covtype, simulate_covtype),
    "genomics": (load_genomics, simulate_genomics),
    "mocap": (load_mocap, simulate_mocap),
    "mocap, 10 fps": (partial(load_mocap, 10), simulate_mocap_slow),
    "mocap, long": (load_mocap_long, simulate_mocap_long),
    "philadelphia": (load_philadelphia, simulate_philadelphia),
    "philadelphia, May 2016": (partial(load_philadelphia, MAY_2016), simulate_philadelphia),
    "philadelphia, toy": (load_philadelphia_toy, simulate_toy),
} | {
    f"libsvm, {name}": (partial(load_libsvm, name), partial(simulate_libsvm, name))
    for name in SHAPES
}


def load_or_simulate(name: str, rng: np.random.Generator) -> Dodgers | Covtype | Areas:
    """The real data set or, where it is not found, a simulated stand-in; one log line says so.

    `.provenance` tells which. A corrupt file raises DataCorrupt: only absence is stood in for.
    Raises KeyError for a set without a simulator.
    """
    if name not in _SIMULATED:
        raise KeyError(f"no simulator for {name!r}; there is one for {', '.join(_SIMULATED)}")
    load, simulate = _SIMULATED[name]
    try:
        return load()
    except DataNotFound:
        source = get(name.partition(",")[0])
        _log.warning("%s: SIMULATED stand-in. To get the real data: %s", name, source.how_to_get)
        return simulate(rng)
