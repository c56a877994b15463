"""A CRF over hand-made features beside the neural one: tags, entities, sentences left out."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv

from . import hidden_labels
from .crf_epochs import disjoint
from .ladders import timed


def entity_scores(true, predicted, names):
    """Precision, recall, F1 and number of entities by type,
    then over all entities ("micro avg"), a DataFrame.

    true, predicted: tag numbers (T_n,) of each sentence; names: the tags in IOB2. As in conlleval,
    an entity counts where its type and both its ends are right, and an I- that follows no entity of
    its type begins one.
    """
    from seqeval.metrics import classification_report

    pair = [[[names[k] for k in tags] for tags in numbers] for numbers in (true, predicted)]
    table = pd.DataFrame(classification_report(*pair, output_dict=True, zero_division=0)).T
    table = table.drop(["macro avg", "weighted avg"]).rename(
        columns={"f1-score": "F1", "support": "entities"}
    )
    return table.astype({"entities": int})


RIDGE = 0.2  # crfsuite's c2 = 0.1, that of its tutorial


class FeatureStudy(NamedTuple):
    """A fitted `FeatureCRF`, draws (slices) of folds of a sentence each, and all rungs on them."""

    model: acv.FeatureCRF
    full: Any
    draws: tuple
    results: dict


def tagger(text) -> tuple[acv.FeatureCRF, Any]:
    """(the model of the training sentences of a `TaggedText`, its fit)."""
    model = acv.FeatureCRF([features(words) for words in text.train.words], text.train.tags, RIDGE)
    return model, acv.fit(model)


def tagged(model, full, sentences, names) -> list:
    """Numbers, among these names, of the tags that the model gives words, an array a sentence."""
    numbers = {name: number for number, name in enumerate(names)}
    tags = model.predict(full.params, [features(words) for words in sentences.words])
    return [np.array([numbers[tag] for tag in own]) for own in tags]


def study(text, n_draws, n_folds, rng) -> FeatureStudy:
    """Fit to the training sentences, and leave n_draws disjoint sets of n_folds out, one by one."""
    model, full = tagger(text)
    sites, draws = disjoint(model.n_sites, n_draws, n_folds, rng)
    return FeatureStudy(model, full, draws, hidden_labels.ladder(model, full, acv.Folds(sites)))


def mean_losses(found: FeatureStudy) -> pd.DataFrame:
    """The mean loss of each draw's left-out sentences, by rung."""
    totals = pd.DataFrame({name: r.fold_totals for name, r in found.results.items()})
    return pd.DataFrame([totals.iloc[draw].mean() for draw in found.draws])


def beside_crfsuite(found: FeatureStudy, text) -> dict:
    """sklearn-crfsuite fitted to the same sentences: the largest difference of marginals, and the
    seconds of its fit over those of a fold of the IJ.
    """
    import sklearn_crfsuite

    crf = sklearn_crfsuite.CRF(c1=0, c2=RIDGE / 2, max_iterations=1000)
    sentences = [features(words) for words in text.train.words]
    _, seconds = timed(lambda: crf.fit(sentences, text.train.tags))
    model, params = acv.from_crfsuite(crf, sentences, text.train.tags)
    ours = np.concatenate(model.marginals(params))
    rows = [row for sentence in crf.predict_marginals(sentences) for row in sentence]
    theirs = np.array([[row[label] for label in model.classes] for row in rows])
    jackknife = found.results["infinitesimal_jackknife"]
    return {
        "marginals": abs(theirs - ours).max(),
        "refit_over_ij": seconds * len(jackknife.folds) / jackknife.seconds,
    }


WINDOW = (-2, -1, 1, 2)


def features(words):
    """A dict of features for each word of a sentence, as sklearn-crfsuite takes them."""
    return [_token(words, t) for t in range(len(words))]


def _token(words, t):
    word = words[t]
    found = {
        "bias": 1.0,
        "lower": word.lower(),
        "shape": shape(word),
        "title": word.istitle(),
        "upper": word.isupper(),
        "digit": word.isdigit(),
        "first": t == 0,
        "last": t == len(words) - 1,
    }
    for size in (2, 3, 4):
        found[f"prefix{size}"] = word[:size].lower()
        found[f"suffix{size}"] = word[-size:].lower()
    for offset in WINDOW:
        if 0 <= t + offset < len(words):
            near = words[t + offset]
            found[f"lower{offset:+d}"] = near.lower()
            found[f"shape{offset:+d}"] = shape(near)
    return found


def shape(word):
    """Upper-case letters as X, others as x, digits as 9, runs of one kind as a single sign."""
    kinds = [
        "9" if c.isdigit() else "X" if c.isupper() else "x" if c.isalpha() else c for c in word
    ]
    return "".join(
        kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before
    )
