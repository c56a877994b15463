"""Every public function with its odd inputs: importing a part adds its calls."""

from . import (
    of_folds,
    of_graphs,
    of_laws,
    of_learners,
    of_methods,
    of_models,
    of_resampling,
    of_sklearn,
    of_zoo,
)
from .call import CALLS
from .of_methods import other_result

PARTS = [
    of_folds,
    of_graphs,
    of_models,
    of_zoo,
    of_methods,
    of_resampling,
    of_learners,
    of_sklearn,
    of_laws,
]
__all__ = ["CALLS", "PARTS", "other_result"]
