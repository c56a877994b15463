"""Features of words made by hand, for a CRF beside sklearn-crfsuite in the benchmarks."""

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
