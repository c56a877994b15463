"""Every public name that can be called is a door in the table, or is none for a reason."""

import importlib
import inspect
from pathlib import Path

import acvlib as acv

from .doors import DOORS
from .law import TESTED, is_here

MODULES = ("", "models", "learners", "folds", "bootstrap", "plots")
MODULES += ("graph", "weighting")
RESULT = "the library makes it, users read it"
BASE = "a protocol, a base class or a law of its own that users write or pass"
FOLDS = "makes what doors take: tests/test_folds.py; laws 3 and 10 use it"
NO_DOORS = {
    "Model EstimatingEquation IncrementalLearner CompiledLearner Derivatives models.Family": BASE,
    "Fit CVResult Certificate NotCertified models.CRFParams": RESULT,
    "models.HMMParams models.TrafficParams": RESULT,
    "models.EmptyState models.NoFiniteOptimum models.ImpossibleSequence plots.Style": RESULT,
    "fit_at fit_path derivatives_of": "parts of fit, for studies",
    "ladder": "the five methods, one after the other",
    "robustness_interval": "most_influential with certify, for several k",
    "same_choice": "of two fits: tests/beyond/test_any_k.py exhausts sets of rows",
    "check_model difference_estimate": "of any model, that users write; they say whether it is one",
    "Folds folds.Folds folds.* weighting.*": FOLDS,
    "bootstrap.jackknife_params bootstrap.OfResamples": "of the same weights as bootstrap.refits",
    "plots.*": "draw results: law 8",
    "graph.*": "mathematics without a model",
    "models.GraphAffinity": "makes what ManifoldEnergy takes",
    "learners.histogram learners.k_means learners.pegasos": "as learners.lsqsgd",
    "learners.lsqsgd learners.PartialFit": "what treecv and kfold take",
}
LAWS = ("units", "type", "names", "order", "weights", "zero", "theirs", "result_works", "nan")
LAWS += ("folds", "priors", "starts", "proof", "bits")

SPARED = {  # doors that a law of all doors is not asked of, and why
    "type": {"FeatureCRF from_crfsuite": "words", "from_jax from_torch": "functions"},
    "order": {"treecv kfold": "learners read row by row, and may remember the order"},
    "weights": {
        "HiddenMRF PairwiseLinear SemiSupervised as_printed": "sites that hang on each other",
        "NeuralHMM": "too flat to compare",
        "PoissonTraffic from_scratch leave_future_out": "steps in time are there once",
        "approx_cross_validate approx_tune": "scores weigh no row, as in scikit-learn",
        "from_crfsuite from_jax from_torch treecv kfold": "have no weights",
    },
}


def public_names():
    """All names of acvlib and its public modules that can be called, as users write them."""
    for label in MODULES:
        module = getattr(acv, label) if label else acv
        inside = {n: getattr(v, "__module__", "") or "" for n, v in vars(module).items()}
        own = [n for n, place in inside.items() if module.__name__ in place]
        for name in getattr(module, "__all__", own):
            value = getattr(module, name)
            if name[0] != "_" and callable(value) and not inspect.ismodule(value):
                yield f"{label}.{name}" if label else name


def test_every_public_name_is_a_door_or_none_for_a_reason():
    entered = {public for door in DOORS.values() for public in door.public}
    left = {name for names in NO_DOORS for name in names.split()}
    names = set(public_names()) | {name for name in entered if not is_here(name)}
    assert entered <= names, entered - names
    wild = {name.split(".")[0] for name in left if name.endswith("*")}
    missing = {n for n in names - entered - left if n.split(".")[0] not in wild}
    assert not missing, f"add a door to tests/laws/doors.py for {sorted(missing)}"
    gone = {n for n in left - names if not n.endswith("*")}
    assert not gone, f"no longer there: {sorted(gone)}"
    assert not entered & left


def test_each_law_has_a_file_and_those_of_all_doors_are_asked_of_each_or_a_reason_is_told():
    """And the table of doors and laws, which pytest -s prints."""
    for law in LAWS:
        importlib.import_module(f".test_{law}", __package__)
    files = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert files == {f"test_{law}" for law in LAWS} | {"test_doors"}
    assert {law for law, _ in TESTED} == set(LAWS)
    assert max(TESTED.values()) == 1
    under = {door: set() for door in DOORS}
    for law, key in TESTED:
        for door in DOORS:
            if key.split(":")[0] in (door, door.split()[0]):
                under[door].add(law)
    for door, laws in under.items():
        print(f"{door:32}", *(law if law in laws else "-" * len(law) for law in LAWS))
    for law, reasons in SPARED.items():
        spared = {door for doors in reasons for door in doors.split()}
        assert {door.split()[0] for door in DOORS if law not in under[door]} == spared, law
