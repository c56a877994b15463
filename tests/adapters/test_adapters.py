"""Models in JAX and torch against the same model by autograd, and what is refused of them."""

from functools import partial

import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.toy_models import OfFunctions
from oracles.wrappers import raises

import acvlib as acv
from acvlib import adapters
from acvlib.folds import Folds

N, D = 40, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
ONES = np.ones(N)


def losses(xp, params, sites=slice(None)):
    margin = xp.asarray(1.0 - 2.0 * Y)[sites] * (xp.asarray(X)[sites] @ params)
    return xp.log1p(xp.exp(margin)) + 0.1 * xp.tanh(margin)  # no convex function, no GLM


START = np.array([0.3, -0.2, 0.1])
BY_AUTOGRAD = OfFunctions(
    N,
    lambda params, weights: anp.sum(weights**2 * losses(anp, params)) + anp.sum(params**2) / 2,
    partial(losses, anp),
    START,
)


@pytest.fixture(scope="module", params=["jax", "torch"])
def library(request):
    """(array module, adapter)."""
    if request.param == "jax":
        return jnp, acv.from_jax
    return pytest.importorskip("torch"), acv.from_torch


@pytest.fixture(scope="module")
def make(library):
    """A function that makes the model."""
    xp, adapter = library
    heldout = partial(losses, xp)

    def loss(params, weights):
        return (weights**2 * heldout(params, slice(None))).sum() + (params**2).sum() / 2

    return lambda **settings: adapter(loss, heldout, n_sites=N, **{"start": START} | settings)


@pytest.fixture(scope="module")
def model(make):
    return make()


def close(ours, theirs, tolerance=1e-10):
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_derivatives_equal_those_of_autograd(model):
    ours, plain = model.derivatives, acv.derivatives_of(BY_AUTOGRAD)
    for weights in (ONES, RNG.uniform(0.2, 1.5, N), acv.folds.weights(N, [0, 7])):
        value, gradient = ours.value_and_gradient(START, weights)
        close(value, plain.value_and_gradient(START, weights)[0])
        close(gradient, plain.value_and_gradient(START, weights)[1])
        close(ours.hessian(START, weights), plain.hessian(START, weights))
        close(ours.cross_matrix(START, weights), plain.cross_matrix(START, weights))
    assert model.objective(START, ONES) == pytest.approx(BY_AUTOGRAD.objective(START, ONES))


FOLDS = {
    "one": acv.folds.leave_one_out(N),
    "few": acv.folds.k_fold(N, 2),
    "many sizes": Folds([[0], [1, 2], [3, 4, 5], [6]]),
    "gap": Folds([[0, 1, 2], [3, 4, 5]], [[1], [4]]),
}


@pytest.mark.parametrize("kind", FOLDS)
def test_folds_equal_those_of_autograd(model, kind):
    folds = FOLDS[kind]
    ours, plain = model.derivatives, acv.derivatives_of(BY_AUTOGRAD)
    apart = START + 0.1 * RNG.standard_normal((len(folds), D))
    close(ours.cross(START, folds), plain.cross(START, folds))
    for params in (START, apart):
        for name in ("fold_gradients", "heldout"):
            both = (getattr(each, name)(params, folds) for each in (ours, plain))
            for mine, other in zip(*both, strict=True):
                close(mine, other)
        hessians = ours.fold_hessians(params, folds, 0.5).matrices
        close(hessians, plain.fold_hessians(params, folds, 0.5).matrices)


def test_how_many_lanes_go_together_changes_nothing_nor_the_precision(model, monkeypatch):
    """The process stays in its own."""
    folds = FOLDS["one"]
    many = model.derivatives.fold_gradients(START, folds)[1]
    monkeypatch.setattr(adapters, "HELD", 1)
    close(model.derivatives.fold_gradients(START, folds)[1], many, 1e-13)
    monkeypatch.undo()
    acv.infinitesimal_jackknife(acv.fit(model), FOLDS["few"])
    assert jnp.ones(1).dtype == jnp.float32
    assert not jax.config.jax_enable_x64


def test_params_may_have_a_form(library, model):
    start = {"slope": START[:2], "level": START[2]}
    xp, adapter = library
    if xp is not jnp:
        start = {name: xp.tensor(part) for name, part in start.items()}

    def flat(form):
        return xp.stack([form["slope"][0], form["slope"][1], form["level"]])

    functions = (lambda p, w: model.loss(flat(p), w), lambda p, s: model.heldout(flat(p), s))
    shaped = adapter(*functions, N, start)
    params = shaped.pack(shaped.start)
    assert shaped.n_params == D
    form = shaped.unpack(params)
    assert set(form) == {"slope", "level"}
    close(shaped.pack(form), params)
    fits = [acv.fit(m).params for m in (shaped, model)]
    unpacked = shaped.unpack(fits[0])
    close([*unpacked["slope"], unpacked["level"]], fits[1], 1e-7)
    raises("has not the form of `start`", shaped.pack, {"slope": START})


def test_missing_sites_and_traits_are_the_models(make):
    model = make(observed=np.arange(N) > 2, convex=True, normalised=True)
    assert model.convex
    assert model.normalised
    raises("site 0", acv.exact, acv.fit(model), Folds([[0]]))


def smooth(params, weights):
    return jnp.sum(weights * (params.sum() - X[:, 0]) ** 2) + jnp.sum(params**4)


def zeros(params, sites):
    return 0.0 * sites + params.sum()


narrow = X.astype(np.float32)
BAD_IN_JAX = {
    "loss returns float32": lambda p, w: smooth(p, w).astype(jnp.float32),
    "computes with float32": lambda p, w: smooth(p, w) + jnp.sum(w * (narrow @ p)),
    "computes with float32.*enable_x64": lambda p, w: smooth(p, w) + NARROW_DATA @ p,
    r"loss returns shape \(40,\), must be \(\), one number": lambda p, w: w * p.sum(),
    "ignores the weights": lambda p, w: smooth(p, jax.lax.stop_gradient(w)),
    "nothing but the sum of the weights": lambda p, w: smooth(p, np.ones(N)) / w.sum(),
    "second derivative is 0": lambda p, w: jnp.sum(w * jax.nn.relu(1 - X @ p)),
    "not twice differentiable": lambda p, w: (
        smooth(p, w) + jnp.sum(w * jax.lax.stop_gradient(X @ p) * (X @ p))
    ),
    "loss is nan at start": lambda p, w: jnp.sum(w * jnp.sqrt(X @ p - 100.0)),
}
NARROW_DATA = jnp.ones(D)
BAD_HELDOUT = {
    r"returns shape \(\), must be \(1,\), one loss for each": lambda p, s: p.sum(),
    r"returns shape \(1,\), must be \(2,\)": lambda p, s: (jnp.asarray(X)[s] @ p)[:1],
    "heldout returns int64": lambda p, s: s,
}
UNTRACED = [
    lambda p, w: np.sum(w * np.exp(X @ p)),
    lambda p, w: smooth(p, w) if p[0] > 0 else 0.0,
    lambda p, w: jnp.sum((X @ p)[w > 0] ** 2),
]


OF_NUMPY = "JAX cannot differentiate or batch.*use jax.numpy for numpy"
BAD = [
    *(({"loss": loss}, ValueError, message) for message, loss in BAD_IN_JAX.items()),
    *(({"heldout": heldout}, ValueError, message) for message, heldout in BAD_HELDOUT.items()),
    *(({"loss": loss}, TypeError, OF_NUMPY) for loss in UNTRACED),
    ({"n_sites": 41}, TypeError, "n_sites = 41.*incompatible shapes"),
    ({"start": [0.1, np.nan, 0.0]}, ValueError, "start must be finite"),
    ({"start": {}}, ValueError, "start holds no number"),
    ({"loss": 3}, TypeError, "loss must be of type Callable"),
    ({"loss": lambda p: p.sum()}, TypeError, "takes 1 positional argument but 2 were given"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_arguments_are_named_and_what_jax_cannot_trace_is_said_plainly(change, error, message):
    given = {"loss": smooth, "heldout": zeros, "n_sites": N, "start": START}
    raises(message, acv.from_jax, error=error, **given | change)


def terms(params, sites):
    eta = jnp.asarray(X)[sites] @ params
    return jnp.logaddexp(0.0, eta) - jnp.asarray(Y)[sites] * eta


def weighed(params, weights):
    return weights @ terms(params, slice(None)) + params @ params


def mean(params, weights):
    return weights @ terms(params, slice(None)) / weights.sum() + params @ params


ANOTHER = {
    "weighed in the fit alone": (lambda p, w: weighed(p, (1.0 + Y) * w), terms),
    "another score": (weighed, lambda p, s: abs(jnp.asarray(Y)[s] - jnp.asarray(X)[s] @ p)),
    "as far from all": (lambda p, w: w @ (Y - p[0]) ** 2, lambda p, s: abs(Y - p[0])[s]),
    "one is impossible": (weighed, lambda p, s: jnp.where(s == 3, jnp.inf, terms(p, s))),
    "plus what no parameter moves": (mean, lambda p, s: terms(p, s) + 3.0 * jnp.asarray(Y)[s]),
}


@pytest.mark.parametrize("kind", ANOTHER)
def test_users_may_score_by_another_loss(kind):
    loss, heldout = ANOTHER[kind]
    start = START[:1] if kind == "as far from all" else START
    model = acv.from_jax(loss, heldout, N, start, normalised=loss is mean)
    assert model.heldout_loss(start, np.array([7, 3])).shape == (2,)


def test_bad_torch_functions_are_named():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X)

    def smooth(params, weights):
        return (weights * (x @ params) ** 2).sum() + (params**4).sum()

    def zeros(params, sites):
        return x[sites] @ params

    bad = {
        "loss returns float32": lambda p, w: smooth(p, w).float(),
        "computes with float32.*torch.double": lambda p, w: (
            smooth(p, w) + torch.ones(3) @ p.float()
        ),
        "loss returns shape float": lambda p, w: 1.0,
        "gradient is off": lambda p, w: smooth(p, w) + (w * (x @ p).detach() ** 3).sum(),
    }
    for message, loss in bad.items():
        raises(message, acv.from_torch, loss, zeros, N, START)
    unfit = [
        lambda p, w: smooth(p, w) * p[0].item(),
        lambda p, w: smooth(p, w) if p[0] > 0 else w.sum(),
        lambda p, w: torch.tensor(np.exp(p.numpy())).sum() * w.sum(),
    ]
    for loss in unfit:
        with pytest.raises(TypeError, match="torch.func cannot differentiate or batch .*no numpy"):
            acv.from_torch(loss, zeros, N, START)
    with pytest.raises(ValueError, match=r"fails at start: .* \(5,\) .*no numpy.*\.eval\(\)"):
        acv.from_torch(lambda p, w: p.sum() + (np.ones(5) * np.ones(3)).sum(), zeros, N, START)


def test_what_a_loop_names_later_is_not_what_the_model_has():
    made = []
    for shift in (0.0, 1.0):
        terms = lambda p, w: smooth(p, w) + jnp.sum(w) * shift * p[0]  # noqa: B023, E731
        made.append(acv.from_jax(terms, lambda p, s: (X @ p)[s] * shift, N, START))  # noqa: B023
    sizes = []
    alone = acv.from_jax(smooth, lambda p, s: sizes.append(len(s)) or 0.0 * (X @ p)[s], N, START)
    assert sizes == [1, 2, N // 2]  # looked at twice, and compiled once
    np.testing.assert_allclose(*[acv.fit(model).params for model in (made[0], alone)])
    raises("what heldout uses has changed", acv.newton_step, acv.fit(made[0]), FOLDS["few"])
