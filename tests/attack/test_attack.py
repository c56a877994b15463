"""Odd inputs of all that is public: a seeded part, more in CI, every one of them at night."""

import inspect
import re

from attack import run
from attack.calls import CALLS, of_zoo
from laws.law import PROFILE, is_here
from laws.test_doors import BASE, NO_DOORS, RESULT, public_names

LEFT_OUT = {
    "from_jax from_torch": "JAX does not survive a fork: tests/adapters has their odd inputs",
    "folds.Fold folds.ModelFolds weighting.OfSites bootstrap.OfResamples": "check arguments",
    "weighting.keep_latents weighting.drop_latents weighting.hide_labels": "models call them",
    "weighting.LookedBackAt weighting.SmallObjective": "warnings",
    "weighting.warn_of_size": "fit calls it",
    "weighting.unit_of weighting.weights_of": "of models that are made",
    "graph.check_width graph.collect graph.distribute": "HiddenMRF calls them",
    "graph.is_networkx graph.names_of": "tell forms of graphs",
    "graph.EliminationOrder graph.TooWide weighting.FactorWeights": "made by what is",
    "plots.error_ladder plots.series": "draw what they are given: law 8",
}
CASES = {"quick": 1_000, "ci": 4_000, "nightly": 50_000}
HOT = "balanced_weights check_optimum check_refits default_priors matched scheme split"
HOT += " factors standard"


def test_no_odd_input_is_answered_wrongly_or_with_a_riddle():
    """Right or refused by name: no silent wrong, no crash, no hang, no error from inside numpy."""
    faults = run.attack(run.cases(CASES[PROFILE], seed=0))
    assert not faults, "\n".join(faults)


def test_every_public_name_is_attacked_or_left_out_for_a_reason():
    attacked = {word for name in CALLS for word in re.split("[ .]", name)}
    made = " ".join(names for names, why in NO_DOORS.items() if why in (BASE, RESULT)).split()
    names = {name for name in public_names() if name.split(".")[-1] not in attacked}
    left_out = {name for names in LEFT_OUT for name in names.split() if is_here(name)}
    assert names - set(made) == left_out


def test_methods_of_models_check_what_they_are_given_unless_they_are_hot():
    """Those that check are attacked as they are found."""
    unchecked = set()
    for model in of_zoo.ZOO.values():
        for name, method in inspect.getmembers(type(model), inspect.isfunction):
            takes = {"params", "weights", "fold", "rng"} & {*inspect.signature(method).parameters}
            if name[0] != "_" and takes and name not in of_zoo.checked(model):
                unchecked.add(name)
    assert unchecked == {*HOT.split()}
