"""Tag schemes of named entities: IOB1, IOB2 and BIOES, told apart and brought to IOB2.

IOB2: B-X begins an entity of type X, I-X goes on with it, O is outside. IOB1: B-X only where an
entity follows another of its type, I-X otherwise. BIOES: IOB2 with E-X at the end of an entity and
S-X for one of a single word.
"""

SCHEMES = ("IOB1", "IOB2", "BIOES")


def to_iob2(tags, scheme, strict=True):
    """The tags of one sentence (a sequence of strings) in IOB2, a tuple.

    Raises ValueError for an unknown scheme, for a tag that is none, and, where strict, for a tag
    that its scheme forbids where it stands, with the schemes that would allow it. Not strict: such
    a B- or I- begins an entity.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"unknown tag scheme {scheme!r}: one of {', '.join(SCHEMES)}")
    unknown = [tag for tag in tags if not _split(tag)[0]]
    if unknown:
        raise ValueError(
            f"{unknown[0]!r} is no tag of {scheme}: O, or one of B, I, E, S, a dash and a type"
        )
    place = first_violation(tags, scheme)
    if strict and place is not None:
        fitting = [other for other in SCHEMES if first_violation(tags, other) is None]
        remedy = (
            f"the sentence is valid {' and '.join(fitting)}"
            if fitting
            else "it is valid in no known scheme"
        )
        raise ValueError(f"tag {tags[place]!r} at position {place} is not {scheme}: {remedy}")
    return tuple(_iob2(before, tag) for before, tag in zip(("O", *tags[:-1]), tags, strict=True))


def first_violation(tags, scheme):
    """The position of the first tag that the scheme forbids, or None;
    one past an unfinished BIOES entity counts.
    """
    before = "O"
    for place, tag in enumerate(tags):
        if not _ALLOWED[scheme](before, tag):
            return place
        before = tag
    return len(tags) - 1 if scheme == "BIOES" and before[0] in "BI" else None


def _split(tag):
    """(prefix, type) of a tag; ("", "") for what is no tag."""
    prefix, dash, kind = tag.partition("-")
    if tag == "O":
        return "O", ""
    return (prefix, kind) if dash and kind and prefix in set("BIES") else ("", "")


def _iob1_allows(before, tag):
    (_, last), (prefix, kind) = _split(before), _split(tag)
    return prefix in ("O", "I") or (prefix == "B" and kind == last)


def _iob2_allows(before, tag):
    (_, last), (prefix, kind) = _split(before), _split(tag)
    return prefix in ("O", "B") or (prefix == "I" and kind == last)


def _bioes_allows(before, tag):
    (earlier, last), (prefix, kind) = _split(before), _split(tag)
    if earlier in ("B", "I"):
        return prefix in ("I", "E") and kind == last
    return prefix in ("O", "B", "S")


_ALLOWED = {"IOB1": _iob1_allows, "IOB2": _iob2_allows, "BIOES": _bioes_allows}


def _iob2(before, tag):
    """One valid tag in IOB2, given the one before it in its own scheme."""
    prefix, kind = _split(tag)
    if prefix == "O":
        return "O"
    begins = (
        prefix in ("B", "S") or _split(before)[0] in ("O", "E", "S") or _split(before)[1] != kind
    )
    return f"{'B' if begins else 'I'}-{kind}"
