"""What breaks its law today: strict expected failures, each taken off by what mends it.

(law, why, the doors or situations).
"""

TODAY = [
    (
        "units",
        "columns are neither centred nor scaled: false refusals, and digits lost",
        "GLM gaussian; GLM logistic; GLM probit; GLM poisson; GLM gamma; "
        "infinitesimal_jackknife; frozen_newton; newton_step; exact; "
        "approx_cross_validate; approx_cross_validate Poisson; "
        "approx_cross_val_predict; approx_cross_val_predict linear; approx_tune",
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
        "units",
        "what touches is a share of the size of the whole map",
        "HiddenMRF.from_map: of a map",
    ),
    (
        "type",
        "sparse products are made in the caller's type",
        "approx_cross_validate: sparse, wide or not; approx_cross_validate Poisson: "
        "sparse, wide or not; approx_cross_val_predict: sparse, wide or not; "
        "approx_tune: sparse, wide or not",
    ),
    (
        "type",
        "(X, lengths) is known by lengths that are integers, else two sequences",
        "GaussianHMM: lengths as floats; PoissonHMM: lengths as floats; "
        "CategoricalHMM: lengths as floats; MixtureHMM: lengths as floats",
    ),
    (
        "type",
        "rows of a list are taken as sequences",
        "GaussianHMM: a table as lists; PoissonHMM: a table as lists; MixtureHMM: a table as lists",
    ),
    (
        "type",
        "the refusal names no remedy",
        "Examples: sparse, where it is not taken; PairwiseLinear: sparse, where it is not taken",
    ),
    (
        "names",
        "Series and frames are lined up by place",
        "GLM gaussian: of sites; VectorGLM: of sites; PairwiseLinear: of sites; HMM: "
        "of sites; GLMHMM: of sites; HiddenMRF: of sites; "
        "HiddenMRF.from_map: of sites",
    ),
    (
        "names",
        "columns of frames are lined up by place",
        "GaussianHMM: of columns; GaussianHMM full: of columns; MixtureHMM: of "
        "columns; PoissonHMM: of columns; AutoRegressiveHMM: of columns; GLM "
        "gaussian: of columns; GLM logistic: of columns; VectorGLM: of columns",
    ),
    (
        "names",
        "codes are places: codes that never occur take probability, large ones are refused",
        "CategoricalHMM: of symbols",
    ),
    (
        "names",
        "np.asarray merges labels of several types",
        "leave_group_out: of groups; by_class: of groups",
    ),
    (
        "names",
        "nodes 1 ... n beside an array are taken in the order of the graph",
        "HiddenMRF: of nodes",
    ),
    (
        "names",
        "states of two fits are compared by number",
        "compare_methods: of states; theta_errors: of states",
    ),
    (
        "order",
        "each candidate draws from a generator by its place",
        "choose: of candidates",
    ),
    (
        "weights",
        "the share left out is of sites, not of their weights",
        "frozen_newton: 2 is twice",
    ),
    (
        "weights",
        "the unit of priors is that of frames, not of their weights",
        "GaussianHMM: 2 is twice; GaussianHMM full: 2 is twice; MixtureHMM: 2 is "
        "twice; GaussianHMM: 0 is absent; GaussianHMM full: 0 is absent; MixtureHMM: "
        "0 is absent",
    ),
    (
        "weights",
        "frames of weight 0 set the unit of priors",
        "HMM: 0 is missing, whatever stands there; GaussianHMM: 0 is missing, "
        "whatever stands there",
    ),
    (
        "zero",
        "a zero is 1e-130: data buy it",
        "GaussianHMM: a forbidden move costs infinity; PoissonHMM: a forbidden move "
        "costs infinity; CategoricalHMM: a forbidden move costs infinity",
    ),
    (
        "zero",
        "fixed entries count as parameters",
        "GaussianHMM: is no parameter; PoissonHMM: is no parameter; CategoricalHMM: "
        "is no parameter; choose: is not counted",
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
        "the default score is guessed by type",
        "score of a ...CV; score of a search; score of a search of Ridge",
    ),
    (
        "theirs",
        "the deviance has numbers outside its domain",
        "deviance outside its domain; deviance of negative targets",
    ),
    (
        "theirs",
        "the scorer gets the last step and transformed X",
        "scorer that reads X; scorer that reads X by name; scorer that reads the steps",
    ),
    (
        "theirs",
        "a column vector y is refused in other words",
        "labels as a column; counts as a column",
    ),
    (
        "theirs",
        "columns are neither centred nor scaled: false refusals",
        "years: predicted; years, left out: predicted; years of Ridge: predicted; "
        "years of logits: predicted; years of counts: predicted; map metres: "
        "predicted; columns of all sizes: predicted",
    ),
    (
        "theirs",
        "directions are dropped by a threshold that carries units",
        "wide, one column in large units: predicted; wide, one column in large units,"
        " of logits: predicted",
    ),
    (
        "theirs",
        "collinear columns are refused, where scikit-learn takes the least norm",
        "a column for each city: predicted; a column of ones: predicted",
    ),
    (
        "theirs",
        "folds that hold rows of weight 0 alone are refused as empty",
        "weights of 0, row by row: predicted; a fold of weight 0: predicted; "
        "approx_tune: with weights of 0",
    ),
    (
        "theirs",
        "a list of scorers is a KeyError",
        "approx_tune: of several scorers",
    ),
    (
        "theirs",
        "Folds are not taken where folds are",
        "approx_cross_validate: folds of ours",
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
        "functions are checked at the first sites only",
        "from_jax half of the weights unread; from_jax losses sorted; from_jax losses"
        " of the sites in order; from_jax losses of clamped sites; from_jax one "
        "number for all; from_jax noise; from_torch half of the weights unread; "
        "from_torch losses sorted; from_torch losses of the sites in order; "
        "from_torch losses of clamped sites; from_torch one number for all",
    ),
    (
        "result_works",
        "the Pipeline is lost",
        "Ridge: tuned; LogisticRegression: tuned",
    ),
    (
        "result_works",
        "repr has no loss",
        "treecv: in one line",
    ),
    (
        "result_works",
        "shades from a fold's first site to its last",
        "plots.series: shaded",
    ),
    (
        "result_works",
        "labels every series as cars",
        "plots.series: labelled",
    ),
    (
        "result_works",
        "a log axis has no place for 0",
        "plots.error_ladder: of zero",
    ),
    (
        "nan",
        "argmax takes nan",
        "approx_tune: of every score",
    ),
    (
        "nan",
        "one candidate ends all, unnamed",
        "choose: of a candidate",
    ),
    (
        "nan",
        "one fold ends all",
        "exact: of a fold; newton_step: of a fold; approx_cross_validate: of a rare class",
    ),
    (
        "folds",
        "families leave out steps, HMM sequences",
        "GaussianHMM: one default of sites; PoissonHMM: one default of sites; "
        "CategoricalHMM: one default of sites; GLMHMM: one default of sites",
    ),
    (
        "folds",
        "results of other data are compared",
        "compare_models: of other outcomes",
    ),
    (
        "priors",
        "the default prior pulls, unsaid",
        "GaussianHMM: mostly at rest; GaussianHMM: quiet levels far apart; "
        "GaussianHMM; GLMHMM; AutoRegressiveHMM",
    ),
    (
        "starts",
        "one start alone, without a word",
        "GaussianHMM: of four states",
    ),
    (
        "starts",
        "K-means labels are not matched to `fixed`",
        "GaussianHMM: know the topology; PoissonHMM: know the topology; "
        "CategoricalHMM: know the topology",
    ),
]
NOT_YET = {(law, name): why for law, why, names in TODAY for name in names.split("; ")}
