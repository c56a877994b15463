"""Every public function with its odd inputs: importing a part adds its calls."""

from . import of_folds, of_graphs, of_learners, of_methods, of_models, of_series, of_sklearn, of_zoo
from .call import CALLS
