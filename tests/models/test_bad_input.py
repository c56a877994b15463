"""What models refuse, and say so: each a clear error, never a number."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from test_mrf import COUNTS, EDGES
from test_pairwise import problem as of_pairs
from test_semisupervised import problem as half_labelled

import acvlib as acv
from acvlib.models import (
    GLM,
    GLMHMM,
    HMM,
    CategoricalHMM,
    GaussianHMM,
    GraphAffinity,
    HiddenMRF,
    LinearChainCRF,
    ManifoldEnergy,
    PoissonTraffic,
    RBFAffinity,
)
from acvlib.models.hmm.emissions import Categorical

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.tile([0.0, 1.0, 1.0], 10)
FREE = np.nan
OPEN = [FREE, FREE]
NAMED = pd.DataFrame(np.full((3, 2), 0.5), list("sab"), list("ab"))  # initial, then two states
ROWS = np.array([[0.0, 1], [np.nan, 2], [3, 3]])
ONE_WAY = csr_matrix([[0.0, 1.0], [0.0, 0.0]])
glm = partial(GLM, X=X, y=Y)
SCORES = [np.zeros((2, 3)), np.zeros((1, 3))]
STEEP = [np.zeros((2, 3)), np.array([[0.0, 0.0, 400.0]])]
crf = partial(LinearChainCRF, emissions=SCORES, labels=[[0, 1], [2]])
of_words = partial(acv.FeatureCRF, sentences=[[["a"]], [["b"]]], labels=[["A"], ["B"]])
mrf = partial(HiddenMRF, counts=COUNTS, edges=EDGES, coupling=0.5)
hmm = partial(HMM, [np.arange(9.0)], 2)
full = GaussianHMM(X, 2, covariance="full")
REFUSED = [
    (lambda: glm(y=np.c_[Y, Y]), "several targets are of the gaussian family alone"),
    (lambda: glm(y=np.ones(30)), "y has responses of one class alone"),
    (lambda: glm(y=np.zeros(30), family="poisson"), "y has counts of 0 alone"),
    (lambda: glm(y=Y[:, None]), r"of the gaussian family alone: pass y.ravel\(\)"),
    (lambda: glm(y=np.eye(2)[Y.astype(int)], family="multinomial"), r"y.argmax\(axis=1\) of ones"),
    (lambda: glm(family="softmax"), "one of gaussian, .*, multinomial"),
    (lambda: glm(X=NAMED, y=Y[:3], penalty=pd.Series([1.0, 2.0])), "that of the columns: if"),
    (lambda: glm(X=X[:, [0, 1, 0]]), "collinear, column [13] among them"),
    (lambda: glm(X=np.column_stack([X, np.ones(30)])), "collinear, column [03]"),
    (lambda: glm(X=RNG.normal(size=(30, 40))), "collinear"),
    (lambda: crf(labels=[[0, 3], [0]]), "sentence 0: labels must be whole numbers from 0 to 2"),
    (lambda: crf(emissions=STEEP), "1: .* 300 nats"),
    (lambda: crf(ridge=np.ones(3)), r"must be one number or \(n_params,\), n_params = 15"),
    (lambda: crf(scheme=acv.weighting.keep_latents), "scheme must be"),
    (lambda: of_words(sentences=[[[{3: 1.0}], [["b"]]]]), "names of attributes must be strings"),
    (lambda: of_words(free=[0, 0]), "free must be rising"),
    (lambda: of_words(free=[99]), "free must be whole numbers from 0 to 7"),
    (lambda: CategoricalHMM([0, 1, 2, 1], 2, 2), "x holds 2: only 0, 1 .* give n_categories=3"),
    (lambda: full.unpack(np.full(full.n_params, 800.0)), "a covariance .* is infinite"),
    (lambda: crf(labels=[np.ma.masked_equal([0, 1], 1), [0]]), "or leave these out"),
    (lambda: CategoricalHMM(np.eye(9), 2), "9 channels of codes"),
    (lambda: GLMHMM([0, 1, 2.0, 1], np.arange(4.0), 2), "x holds 2: only 0 ... 1"),
    (lambda: GaussianHMM(ROWS, 2, covariance="full"), "frame 1 of sequence 0: a frame is finite"),
    (lambda: GaussianHMM((np.ones((9, 2)), [4, 4]), 2), r"lengths, \[4, 4\], sum to 8"),
    (lambda: GaussianHMM((np.arange(9.0), [4, 5]), 2), "takes a 2-d X"),
    (lambda: GaussianHMM(np.array([2**63, 2**63 + 5, 9], np.uint64), 2), r"beyond 2\^53"),
    (lambda: GaussianHMM(np.array([0.0, 1.0, 2.0, 1e200]), 2), r"beyond 1e\+100: rescale"),
    (lambda: GaussianHMM(np.arange(9) * 1e-200, 2), "rescale it"),
    (lambda: GaussianHMM(np.ones(9), 2), "channel 0 is 1 in every frame of every sequence"),
    (lambda: hmm(fixed=np.ones((2, 2))), r"fixed \(2, 2\): must be \(3, 2\), nan where free"),
    (lambda: hmm(fixed=[OPEN, [0.5, 0.4], OPEN]), "fixed row 1"),
    (lambda: hmm(fixed=[OPEN, OPEN, [1.2, FREE]]), "fixed row 2"),
    (lambda: hmm(fixed=[[-0.1, FREE], OPEN, OPEN]), "fixed row 0"),
    (lambda: hmm(fixed=pd.DataFrame(np.ones((3, 2)) / 2, columns=[1, 0])), r"not \[1, 2\]: if"),
    (lambda: hmm(fixed="ab"), "fixed must be real numbers"),
    (lambda: hmm(Categorical(fixed=NAMED[:0:-1]), fixed=NAMED), r"\['b', 'a'\], and not \['a', 'b"),
    (lambda: hmm(Categorical(fixed=pd.DataFrame(OPEN, [1, 0]))), r"\[1, 0\], and not \[0, 1\]"),
    (lambda: hmm(Categorical(symbols=range(9), fixed=NAMED[1:])), r"\['a', 'b'\], and not \[0, 1"),
    (lambda: hmm(Categorical(symbols=(1, 0))), "must be several codes, in rising order"),
    (lambda: mrf(counts=[0] * 7), "all 7 counts are 0"),
    (lambda: mrf(sample_weight=[0, 0, 0, 0, 1, 0, 0]), "all 1 counts are 0 where sample_weight"),
    (lambda: mrf(n_states=9), "9 of 7 distinct counts: .* from 1 to 7"),
    (lambda: mrf(edges=[(0, 7)]), "leaves the sites 0 ... 6"),
    (lambda: replace(of_pairs("ranking"), y=np.zeros(30)), "every y is 0.0: no two points differ"),
    (lambda: replace(half_labelled(), y=np.full(40, np.nan)), "0 points have a label"),
    (lambda: replace(half_labelled(), y=np.zeros(40), loss="logistic"), r"1 or \+1; found \[0.\]"),
    (lambda: GraphAffinity([[0.0, 1.0], [2.0, 0.0]]), r"W\[0, 1\] = 1 and W\[1, 0\] = 2"),
    (lambda: GraphAffinity(ONE_WAY), "not symmetric"),
    (lambda: ManifoldEnergy(X, RBFAffinity(X[:2], 1.0)), "a row for each of 2 points"),
    (lambda: PoissonTraffic([-1, -1, -1], [0, 1, 2]), "0 of 3 counts are observed"),
]
BEYOND = "counts must be whole numbers from -1 to 10000"
for count in (10_001, 1e19, 2**64 - 1, np.nan):  # 1e19 must not wrap to a missing one
    REFUSED.append((lambda n=count: PoissonTraffic([3, n, 2, 4], [0, 0, 1, 1]), BEYOND))


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
