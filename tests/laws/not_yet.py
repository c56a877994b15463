"""What breaks its law today: strict expected failures, each taken off by what mends it.

(law, why, the doors or situations).
"""

TODAY = [
    (
        "priors",
        "the default prior pulls, unsaid",
        "GaussianHMM: mostly at rest; GaussianHMM: quiet levels far apart; GaussianHMM; "
        "GLMHMM; AutoRegressiveHMM",
    ),
    ("starts", "one start alone, without a word", "GaussianHMM: of four states"),
]
NOT_YET = {(law, name): why for law, why, names in TODAY for name in names.split("; ")}
