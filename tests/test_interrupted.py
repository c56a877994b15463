"""Ctrl-C in `exact` keeps the finished folds; going on gives what an undisturbed run gives."""

import pickle
import subprocess
import sys
from dataclasses import replace
from textwrap import dedent

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import CurvedInstruments, Logistic
from oracles.wrappers import Interrupting

import acvlib as acv
from acvlib.derivatives import Derivatives, EquationDerivatives, is_equation
from acvlib.models import GLM, AutoRegressiveHMM
from acvlib.parallel import pieces
from acvlib.protocol import NoFiniteOptimum

N = 60
# Of one site, of ten, of half of them: these converge after different numbers of steps.
FOLDS = acv.Folds([*[[i] for i in range(6)], *np.arange(50).reshape(5, 10), np.arange(30)])


def model_of(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    if kind == "objective":
        return Logistic(x, np.sign(x[:, 0] + rng.normal(size=N)))
    y = np.exp(x @ [1.0, -1.0] / 4) + 0.3 * rng.normal(size=N)
    return CurvedInstruments(x + 0.3 * rng.normal(size=(N, 2)), x, y)


class ByFours:
    """A model whose folds are refitted in portions of four."""

    def __init__(self, model):
        self._model = model
        base = EquationDerivatives if is_equation(model) else Derivatives

        class Own(base):
            def portions(self, folds, n_params):
                return pieces(len(folds), 4)

        self.derivatives = Own(model)

    def __getattr__(self, name):
        return getattr(self._model, name)


def stopped(run, model, *args):
    """The `Interrupted` that a run on a model that raises KeyboardInterrupt ends with."""
    with pytest.raises(acv.Interrupted) as caught:
        run(model, *args)
    assert model.left <= 0
    return caught.value


def late(model, name, share, run, *args):
    """The model, to be interrupted when this share of the calls that a run makes are done."""
    calls = Interrupting(model, name, 10**9)
    run(calls, *args)
    return Interrupting(model, name, int(share * (10**9 - calls.left)))


def assert_partial(error, undisturbed):
    """Check that what is converged is as in the undisturbed run, and that nothing else looks so."""
    result = error.result
    done = result.diagnostics["converged"]
    assert str(error).startswith(f"{done.sum()} of {len(done)} folds are finished")
    assert_allclose(result.params[done], undisturbed.params[done], rtol=1e-9)
    assert_array_equal(result.params[~done], np.tile(result.fit.params, ((~done).sum(), 1)))
    assert_allclose(result.fold_losses[done], undisturbed.fold_losses[done], rtol=1e-12)
    assert_array_equal(np.isnan(result.fold_losses), ~done)
    assert_array_equal(np.isnan(result.diagnostics["decrement"]), ~done)
    assert np.isnan(result.loss) == (not done.all())
    return done


def assert_goes_on(model, error, undisturbed):
    result = error.result
    rest = ~result.diagnostics["converged"]
    check = acv.check_result(result)
    assert check.unreliable[rest].all()
    assert not check.unreliable[~rest].any()
    whole = acv.refit_unreliable(result, rest)
    assert_array_equal(whole.diagnostics["refitted"], rest)
    fit = result.fit
    assert fit.standard_errors_between(whole.params, undisturbed.params).max() < 1e-5
    assert_allclose(whole.loss, undisturbed.loss, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda model: model, ByFours], ids=["together", "portions"])
@pytest.mark.parametrize("kind", ["objective", "equation"])
def test_exact_keeps_the_folds_that_converged(kind, wrap):
    model = wrap(model_of(kind))
    fit = acv.fit(model)
    undisturbed = acv.exact(fit, FOLDS)
    name = "residual" if kind == "equation" else "objective"
    if wrap is ByFours:
        name = "fold_gradients"
    counts = set()
    for share in (0.4, 0.7, 0.9, 1.0):
        soon = late(model, name, share, acv.exact, fit, FOLDS)
        error = stopped(acv.exact, soon, fit, FOLDS)
        done = assert_partial(error, undisturbed)
        assert_goes_on(model, error, undisturbed)
        counts.add(done.sum())
    assert len(counts) > 2


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_matrix_free_refits_keep_the_folds_that_converged(n_jobs):
    rng = np.random.default_rng(0)
    x = [np.cumsum(rng.normal(size=(30, 2)), axis=0) for _ in range(6)]
    model = AutoRegressiveHMM(x, 2, dense_limit=0)
    fit = acv.fit(model, rng=rng)
    folds = acv.folds.leave_one_out(6)
    undisturbed = acv.exact(fit, folds)
    soon = late(model, "products", 0.7, acv.exact, fit, folds)
    with joblib.parallel_config(n_jobs=n_jobs):
        error = stopped(acv.exact, soon, fit, folds)
    done = assert_partial(error, undisturbed)
    assert 0 < done.sum() < 6
    assert_goes_on(model, error, undisturbed)


def test_a_solver_of_the_models_own_keeps_nothing():
    model = model_of("objective")
    fit = acv.fit(model)
    own = Interrupting(ByFours(model), "refits", 1)
    done = assert_partial(stopped(acv.exact, own, fit, FOLDS), acv.exact(fit, FOLDS))
    assert not done.any()


def test_folds_that_ran_to_infinity_do_not_count_as_finished():
    class Refusing(Logistic):
        def check_refits(self, params, folds):
            if len(folds):
                raise NoFiniteOptimum("fold 0")

    model = model_of("objective")
    fit = acv.fit(model)
    model = Refusing(model.x, model.y)
    soon = late(model_of("objective"), "objective", 0.9, acv.exact, fit, FOLDS)
    result = stopped(acv.exact, Interrupting(model, "objective", soon.left), fit, FOLDS).result
    assert not result.diagnostics["converged"].any()
    assert np.isnan(result.pointwise).all()


def test_a_fold_without_a_loss_is_unreliable_even_where_bounds_prove_the_others():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    model = GLM(x, (x[:, 0] + rng.normal(size=N) > 0) * 1.0, "logistic", penalty=1.0)
    fit = acv.fit(model)
    result = acv.exact(fit, acv.folds.leave_one_out(N))
    losses = list(result.losses)
    losses[7] = np.array([np.nan])
    check = acv.check_result(replace(result, losses=losses))
    assert_array_equal(np.flatnonzero(check.unreliable), [7])


def test_ctrl_c_while_scoring_keeps_the_params():
    model = model_of("objective")
    fit = acv.fit(model)
    undisturbed = acv.exact(fit, FOLDS)
    result = stopped(acv.exact, Interrupting(model, "heldout_loss", 3), fit, FOLDS).result
    assert_array_equal(result.params, undisturbed.params)
    assert result.diagnostics["converged"].all()
    assert np.isnan(result.pointwise).all()
    assert acv.check_result(result).unreliable.all()
    losses = acv.derivatives_of(model).heldout(result.params, result.folds)
    assert replace(result, losses=losses).loss == undisturbed.loss


def test_a_second_ctrl_c_does_not_wait_for_the_scores():
    model = model_of("objective")
    fit = acv.fit(model)
    once = late(model, "objective", 0.9, acv.exact, fit, FOLDS)
    error = stopped(acv.exact, Interrupting(once, "heldout_loss", 1), fit, FOLDS)
    assert "dataclasses.replace(result, losses=" in str(error)
    assert error.result.diagnostics["converged"].any()
    assert np.isnan(error.result.pointwise).all()


def test_what_goes_on_may_be_interrupted_again():
    model = model_of("objective")
    fit = acv.fit(model)
    undisturbed = acv.exact(fit, FOLDS)
    soon = late(model, "objective", 0.7, acv.exact, fit, FOLDS)
    first = stopped(acv.exact, soon, fit, FOLDS)
    rest = ~first.result.diagnostics["converged"]
    again = late(model, "objective", 0.9, acv.refit_unreliable, first.result, rest)
    result = stopped(acv.refit_unreliable, again, first.result, rest).result
    left = ~result.diagnostics["converged"]
    assert 0 < left.sum() < rest.sum()
    assert_array_equal(np.isnan(result.fold_losses), left)
    whole = acv.refit_unreliable(result, left)
    assert_allclose(whole.loss, undisturbed.loss, rtol=1e-6)
    assert whole.evaluations["heldout"] == len(FOLDS)


def test_it_survives_pickling_and_shows_itself():
    model = model_of("objective")
    fit = acv.fit(model)
    error = stopped(acv.exact, Interrupting(model, "objective", 40), fit, FOLDS)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert_array_equal(again.result.params, error.result.params)
    assert "loss nan" in error.result._repr_html_()


def test_a_fit_is_interrupted_as_ever():
    with pytest.raises(KeyboardInterrupt) as caught:
        acv.fit(Interrupting(model_of("objective"), "objective", 3))
    assert caught.type is KeyboardInterrupt


@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 1), ("threading", 2), ("loky", 2)])
def test_sigint_in_a_process_of_its_own(backend, n_jobs):
    """A script stops, after `exact` with a message that says how to go on."""
    script = """
        import os, signal, threading, time
        import joblib, numpy as np
        import acvlib as acv

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it

        class Slow:
            n_sites = 200
            def objective(self, params, weights):
                time.sleep(0.004)
                gap = self.x - params[0]
                return (weights * gap**4).sum() + (weights * params[0] ** 2).sum()
            def heldout_loss(self, params, fold):
                return (self.x[fold] - params[0]) ** 2
            def initial_params(self, rng):
                return np.zeros(1)
            x = np.random.default_rng(0).normal(size=200)

        class Learner:
            init = loss = lambda self, state=0.0, X=(), y=None: np.zeros(len(X))
            def update(self, state, X, y):
                time.sleep(0.02)
                return state

        def soon():
            threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start()

        model = Slow()
        fit = acv.fit(model)
        data = acv.Examples(model.x[:, None])
        for run in (acv.treecv, acv.kfold):
            with joblib.parallel_config(BACKEND, n_jobs=N_JOBS):
                run(Learner(), data, 2)  # the workers start
                soon()
                try:
                    run(Learner(), data, 200)
                except KeyboardInterrupt:
                    print("stopped")
        soon()
        acv.exact(model, fit, acv.folds.leave_one_out(200))
        print("not reached")
    """
    code = dedent(script).replace("N_JOBS", str(n_jobs)).replace("BACKEND", repr(backend))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert done.stdout.split() == ["stopped", "stopped"]
    last = done.stderr.strip().splitlines()[-1]
    assert "of 200 folds are finished. Refit only the others: result = acv.refit_unrel" in last
