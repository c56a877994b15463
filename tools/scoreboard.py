"""The scoreboard page, made from the merged ledger and book/claims/."""

from acvbook.claims import load_claims, load_papers

HEAD = """# Scoreboard

Every figure, table and checkable statement of the four papers, and what this book adds to them.
A notebook measures a number and records it; the verdict comes from a list of claims that was
written beforehand. Nobody types a number into this page.

- **reproduced**: holds at the paper's sizes. **holds at quick scale**: holds at the smaller sizes
  of a quick run.
- **not reproduced**: does not hold; the reason stands below the table.
- **stand-in**: the real data set was absent, and a simulated one took its place. This never counts.
- **reported**: a number without a verdict, such as seconds on another machine. **not yet**: its
  chapter is to come.
"""


def page(records):
    """MyST text of the whole page."""
    claims, recorded = load_claims(), {record["id"]: record for record in records}
    papers = load_papers()
    sections = [
        section(title, of_paper(paper, claims), claims, recorded) for paper, title in papers.items()
    ]
    return "\n".join([HEAD, origin(records), *sections])


def of_paper(paper, claims):
    """The claims of one paper, without their parts."""
    parts = {part for claim in claims.values() for part in claim.parts}
    return [claim for id, claim in claims.items() if id.split(".")[0] == paper and id not in parts]


def origin(records):
    """Scale, seed, commit and versions that the numbers come from."""
    if not records:
        return "Nothing has been recorded yet.\n"
    names = ("scale", "seed", "commit")
    runs = sorted({", ".join(f"{name} `{record[name]}`" for name in names) for record in records})
    versions = ", ".join(f"{name} {number}" for name, number in records[0]["versions"].items())
    return f"This run: {'; '.join(runs)}. {versions}.\n"


def section(title, claims, everything, recorded):
    """One paper: its table, then what explains a claim or splits it into parts.

    ``title`` is *name, citation*.
    """
    name, _, citation = title.partition(", ")
    head = "| claim | paper | ours | data | verdict |\n| --- | --- | --- | --- | --- |\n"
    rows = "".join(row(claim, recorded.get(claim.id)) for claim in claims)
    below = "".join(
        failure(claim, everything, recorded) + details(claim, everything, recorded)
        for claim in claims
    )
    return f"## {name}\n{citation}\n\n{head}{rows}{below}"


def row(claim, record):
    name = f"[`{claim.id}`]({claim.notebook}.ipynb)" if claim.notebook else f"`{claim.id}`"
    return f"| {name} {claim.source}. {claim.shows} {cells(claim, record)}"


def cells(claim, record):
    """The measured half of a row: *paper | ours | data | verdict*."""
    ours, data = (text(record["value"]), provenance(claim, record)) if record else ("", "")
    return f"| {text(claim.paper)} | {ours} | {data} | {verdict(claim, record)} |\n"


def text(value):
    """A number to four digits, anything else as it is."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def provenance(claim, record):
    """Real or simulated, with the start of the file's checksum;
    nothing where no data set is needed.
    """
    checksum = f" `{record['data_sha256'][:8]}`" if record["data_sha256"] else ""
    return "" if claim.data == "simulated" else record["data"] + checksum


def verdict(claim, record):
    if record is None:
        return "not yet"
    if record["ok"] is None:
        return "stand-in" if claim.is_stand_in(record["data"]) else "reported"
    if not record["ok"]:
        return "**not reproduced**"
    return "**reproduced**" if record["scale"] == "paper" else f"holds at {record['scale']} scale"


def failure(claim, everything, recorded):
    """Why a claim does not hold, where it does not: in its own words,
    or in those of the parts that fail.
    """
    if claim.id not in recorded or recorded[claim.id]["ok"] is not False:
        return ""
    failed = [id for id in claim.parts if id in recorded and recorded[id]["ok"] is False]
    reason = claim.explanation or " ".join(f"`{id}`: {everything[id].explanation}" for id in failed)
    return f"\n:::{{warning}}\n`{claim.id}` is not reproduced: {reason}\n:::\n"


def details(claim, everything, recorded):
    """The parts of a claim, folded away."""
    parts = [(everything[id], recorded[id]) for id in claim.parts if id in recorded]
    if not parts:
        return ""
    head = "| part | must be | paper | ours | data | verdict |\n" + "| --- " * 6 + "|\n"
    rows = "".join(f"| `{p.id}` | {p.must.get(r['scale'], '')} {cells(p, r)}" for p, r in parts)
    return f"\n:::{{dropdown}} Parts of {claim.id}\n{head}{rows}:::\n"
