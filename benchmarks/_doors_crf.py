"""A CRF over sparse features beside sklearn-crfsuite: the fit, and sentences left out.

Sentences of CoNLL-2003 with hand-made features where they are, else of made-up words. Ratios of
the fastest of runs in turns, one thread; a refit is crfsuite's, from the start, as its users do it.
"""

import numpy as np
import sklearn_crfsuite
from _measure import ratio, report
from acvbook import datasets

import acvlib as acv

C2 = 0.1
N_SENTENCES = 1000
N_FOLDS = 20


def features(words):
    """A dict for each word, as sklearn-crfsuite takes them: the word, its ends, its neighbours."""
    lower, found = [word.lower() for word in words], []
    for t, word in enumerate(words):
        own = {"bias": 1.0, "lower": lower[t], "title": word.istitle(), "first": t == 0}
        for size in (2, 3, 4):
            own |= {f"prefix{size}": lower[t][:size], f"suffix{size}": lower[t][-size:]}
        places = [t + offset for offset in (-2, -1, 1, 2) if 0 <= t + offset < len(words)]
        found.append(own | {f"lower{place - t:+d}": lower[place] for place in places})
    return found


def tagged(n_sentences=N_SENTENCES):
    """(X, y) as sklearn-crfsuite takes them."""
    text = datasets.load_or_simulate("conll2003", np.random.default_rng(0))
    sentences = text.train.take(range(n_sentences))
    return [features(words) for words in sentences.words], [list(tags) for tags in sentences.tags]


def crfsuite(X, y):
    """A fit by L-BFGS, as far as it goes by default."""
    return sklearn_crfsuite.CRF(c1=0, c2=C2).fit(X, y)


def ours(X, y):
    """A fit from the same lists, to a Newton decrement of 1e-6."""
    return acv.fit(acv.FeatureCRF(X, y, 2 * C2))


def fits(X, y):
    """Both from the user's lists to the weights."""
    report("fit over crfsuite's", ratio(lambda: ours(X, y), lambda: crfsuite(X, y), 1), 5)


def left_out(X, y):
    """A fold of each rung in refits by crfsuite."""
    model = acv.FeatureCRF(X, y, 2 * C2)
    fit = acv.fit(model)
    folds = acv.Folds(np.arange(0, 3 * N_FOLDS, 3)[:, None])
    for rung in (acv.infinitesimal_jackknife, acv.newton_step, acv.exact):
        once = ratio(lambda: crfsuite(X, y), lambda rung=rung: rung(fit, folds), 1)
        report(f"a refit by crfsuite over a fold of {rung.__name__}", once * N_FOLDS)


def main():
    sentences = tagged()
    fits(*sentences)
    left_out(*sentences)
