"""What breaks its law today: strict expected failures, each taken off by what mends it.

(law, why, the doors or situations).
"""

TODAY = [
    (
        "units",
        "columns are neither centred nor scaled: false refusals, and digits lost",
        "approx_cross_validate; approx_cross_validate Poisson; approx_cross_val_predict; "
        "approx_cross_val_predict linear; approx_tune",
    ),
    (
        "units",
        "starts and priors are in the units of the data",
        "AutoRegressiveHMM; NeuralHMM",
    ),
    (
        "units",
        "the prior of weights is in the units of inputs",
        "GLMHMM",
    ),
    (
        "type",
        "(X, lengths) is known by lengths that are integers, else two sequences",
        "GaussianHMM: lengths as floats; PoissonHMM: lengths as floats; CategoricalHMM: "
        "lengths as floats; MixtureHMM: lengths as floats",
    ),
    (
        "type",
        "rows of a list are taken as sequences",
        "GaussianHMM: a table as lists; PoissonHMM: a table as lists; MixtureHMM: a table as lists",
    ),
    (
        "names",
        "Series and frames are lined up by place",
        "HMM: of sites; GLMHMM: of sites; PoissonTraffic: of sites",
    ),
    (
        "names",
        "columns of frames are lined up by place",
        "GaussianHMM: of columns; GaussianHMM full: of columns; MixtureHMM: of columns; "
        "PoissonHMM: of columns; AutoRegressiveHMM: of columns",
    ),
    (
        "names",
        "codes are places: codes that never occur take probability, large ones are refused",
        "CategoricalHMM: of symbols",
    ),
    (
        "names",
        "states of two fits are compared by number",
        "compare_methods: of states; theta_errors: of states",
    ),
    (
        "weights",
        "the unit of priors is that of frames, not of their weights",
        "GaussianHMM: 2 is twice; GaussianHMM full: 2 is twice; MixtureHMM: 2 is twice; "
        "GaussianHMM: 0 is absent; GaussianHMM full: 0 is absent; MixtureHMM: 0 is absent",
    ),
    (
        "weights",
        "a sentence of weight 0 brings its pairs of attribute and label",
        "FeatureCRF: 0 is absent",
    ),
    (
        "weights",
        "frames of weight 0 set the unit of priors",
        "HMM: 0 is missing, whatever stands there; GaussianHMM: 0 is missing, whatever "
        "stands there",
    ),
    (
        "zero",
        "a zero is 1e-130: data buy it",
        "GaussianHMM: a forbidden move costs infinity; PoissonHMM: a forbidden move costs "
        "infinity; CategoricalHMM: a forbidden move costs infinity",
    ),
    (
        "zero",
        "fixed entries count as parameters",
        "GaussianHMM: is no parameter; PoissonHMM: is no parameter; CategoricalHMM: is no "
        "parameter; choose: is not counted",
    ),
    (
        "zero",
        "pack refuses the zeros that `fixed` asks for",
        "GaussianHMM: fits; PoissonHMM: fits; CategoricalHMM: fits",
    ),
    (
        "zero",
        "a zero of hmmlearn is 1e-130",
        "from_hmmlearn: survives",
    ),
    (
        "zero",
        "a row of zeros is repaired in silence",
        "from_hmmlearn: that no data decide",
    ),
    (
        "zero",
        "a loss of what is impossible is finite",
        "exact: a loss of what no path explains",
    ),
    (
        "theirs",
        "columns are neither centred nor scaled: false refusals",
        "years: predicted; years, left out: predicted; years of Ridge: predicted; years "
        "of logits: predicted; years of counts: predicted; map metres: predicted; columns "
        "of all sizes: predicted",
    ),
    (
        "theirs",
        "directions are dropped by a threshold that carries units",
        "wide, one column in large units: predicted; wide, one column in large units, of "
        "logits: predicted",
    ),
    (
        "theirs",
        "collinear columns are refused, where scikit-learn takes the least norm",
        "a column for each city: predicted; a column of ones: predicted",
    ),
    (
        "theirs",
        "a matrix of priors is refused, though concentration= takes it",
        "transmat_prior: of hmmlearn",
    ),
    (
        "theirs",
        "params= is not read: frozen parts are fitted",
        "params without transmat: of hmmlearn; params without means: of hmmlearn",
    ),
    (
        "theirs",
        "means_prior of a mixture is not read",
        "GMM means_prior: of hmmlearn",
    ),
    (
        "theirs",
        "what is under a mask is data",
        "masked: in hmmlearn",
    ),
    (
        "theirs",
        "missing frames are refused in other words",
        "nan: in hmmlearn",
    ),
    (
        "theirs",
        "min_freq is not read",
        "min_freq: of crfsuite",
    ),
    (
        "nan",
        "one fold ends all",
        "exact: of a fold; newton_step: of a fold",
    ),
    (
        "folds",
        "families leave out steps, HMM sequences",
        "GaussianHMM: one default of sites; PoissonHMM: one default of sites; "
        "CategoricalHMM: one default of sites; GLMHMM: one default of sites",
    ),
    (
        "priors",
        "the default prior pulls, unsaid",
        "GaussianHMM: mostly at rest; GaussianHMM: quiet levels far apart; GaussianHMM; "
        "GLMHMM; AutoRegressiveHMM; PoissonTraffic",
    ),
    (
        "starts",
        "one start alone, without a word",
        "GaussianHMM: of four states",
    ),
    (
        "starts",
        "K-means labels are not matched to `fixed`",
        "GaussianHMM: know the topology; PoissonHMM: know the topology; CategoricalHMM: "
        "know the topology",
    ),
]
NOT_YET = {(law, name): why for law, why, names in TODAY for name in names.split("; ")}
