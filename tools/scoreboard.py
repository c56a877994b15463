"""The scoreboard page, made from the merged ledger and book/claims/."""

from collections import Counter

from acvbook.claims import KINDS, anchor, kind, load_claims, load_papers, words
from acvbook.ledger import SECONDS, _power
from acvbook.prose import fill, plain


def page(records, runs):
    """MyST text of the whole page; `runs` has in words when each chapter ran ({name: words})."""
    claims, recorded = load_claims(), {record["id"]: record for record in records}
    parts = {part for claim in claims.values() for part in claim.parts}
    papers = {
        title: [c for id, c in claims.items() if id.split(".")[0] == paper and id not in parts]
        for paper, title in load_papers().items()
    }
    sections = [section(title, own, claims, recorded) for title, own in papers.items()]
    text = "\n".join([summary(papers, claims, recorded), origin(records, runs), *sections])
    return fill(text, recorded, claims)


def summary(papers, claims, recorded):
    """How many claims of each paper are of each kind, one number a claim."""
    head = f"| | {' | '.join(KINDS.values())} |\n" + "| --- " * (len(KINDS) + 1) + "|\n"
    rows = ""
    for title, own in papers.items():
        found = Counter(kind(claim, recorded.get(claim.id)) for claim in own)
        rows += f"| {title.partition(', ')[0]} | {' | '.join(str(found[k]) for k in KINDS)} |\n"
    caption = "Claims, each counted once. *With power*: doing nothing fails what the method meets, "
    caption += "in most parts. *Reported* counts those to come too.\n"
    return f"## Summary\n{caption}\n{table(head + rows, 'summary')}{first(claims, recorded)}"


def first(claims, recorded):
    """The three things to know before any row: what doing nothing meets, what is fast, the data."""
    every = [record for id, record in recorded.items() if id in claims and not claims[id].parts]
    own = {r["id"]: r for r in every if r["holds"] is not None and not claims[r["id"]].is_ours}
    lent = [r for r in every if claims[r["id"]].ours and r["ok"] is not None]
    beside = {id: [r for r in lent if r["id"].split(".")[:2] == id.split(".")[:2]] for id in own}
    met = [r["power"] for r in own.values() if r["ok"]]
    wider = [_power(r, beside[id]) for id, r in own.items() if r["ok"]]
    powers = met, wider, [r["power"] for r in every if r["ok"]]
    shares = [f"{p.count(True) / (len(p) - p.count(None) or 1):.1%}" for p in powers]
    theirs = sum(record["data"] == "real" for record in own.values())
    timed = {id: r["holds"] for id, r in own.items() if claims[id].unit == SECONDS}
    slow = [timed[id] for id in timed if id.startswith(("ghosh.tab2.", "ghosh.fig3.time."))]
    needless = sum(claims[id].data == "simulated" for id in own)
    return f"""
### Three things to know first
1. **A good score shows little.** Of {len(met) - met.count(None)} rules of the papers that hold and
   that doing nothing has a number for, it meets {met.count(False)} too, as leaving a few sites out
   hardly moves a loss. It moves the parameters, and there the steps differ: doing nothing fails
   {shares[0]} of these, {shares[1]} counting ours beside them, and of all, ours too, {shares[2]}.
2. **Most of the speed was the refits' slowness.** Of {len(timed)} rules of the papers on ratios of
   seconds, {len(slow)} are about refits and steps in the authors' way, by Python loops or EM from
   scratch: {sum(slow)} hold. {len(timed) - len(slow)} are about programs of today, TreeCV too:
   {sum(timed.values()) - sum(slow)} hold. How little is left for refits of today: `beyond.today`.
3. **Much was measured on other data.** Of {len(own)} rules of the papers, {needless} are about
   simulated data, and {theirs} were measured on the very data of the paper; the verdicts of the
   others say what theirs are.

"""


def table(text, name):
    """A table that styles can find: on a phone its rows become blocks."""
    return f"::::{{div}} scoreboard-{name}\n{text}::::\n"


def origin(records, runs):
    """Scale, seed and versions that the numbers come from, and which chapters are current."""
    settings = sorted({f"scale `{record['scale']}`, seed `{record['seed']}`" for record in records})
    pins = records[0]["versions"] if records else {}
    versions = ", ".join(f"{name} {number}" for name, number in pins.items())
    rows = "".join(f"| []({name}.ipynb) | {words} |\n" for name, words in runs.items())
    head = f"This run: {'; '.join(settings)}. {versions}.\n\n| chapter | its numbers are of |\n"
    return f"{head}| --- | --- |\n{rows}\n"


def section(title, own, claims, recorded):
    """One paper, *name, citation*: its table, the reasons for what does not hold, and the parts."""
    name, _, citation = title.partition(", ")
    head = "| claim | the paper | ours | doing nothing | data | verdict |\n" + "| --- " * 6 + "|\n"
    rows = "".join(row(claim, recorded) for claim in own)
    below = reasons(own, claims, recorded)
    below += "".join(details(claim, claims, recorded) for claim in own if claim.parts)
    return f"## {name}\n{citation}\n\n{table(head + rows, 'claims')}{below}"


def row(claim, recorded):
    """One claim: what must be shown, the measured half, how many parts doing nothing meets."""
    powers = Counter(recorded[id]["power"] for id in claim.parts if id in recorded)
    total = powers[True] + powers[False]
    nothing = f"meets {powers[False]} of {total} rules" if total else ""
    half = cells(claim, recorded.get(claim.id), nothing)
    return f"| {label(claim)} {text(f'{claim.source}. {claim.shows}')} | {half}"


def label(claim):
    """The id, as a place that badges lead to."""
    return f'<span id="{anchor(claim.id)}"></span>`{claim.id}`'


def cells(claim, record, nothing=""):
    """The measured half of a row: *paper | ours | doing nothing | data | verdict*."""
    paper = text(claim.paper, claim.unit)
    if record is None:
        return f"{paper} | | | | {badge(claim, record)} |\n"
    ours, baseline = text(record["value"], claim.unit), text(record["baseline"]) or nothing
    if record["spread"] is not None:
        low, high = map(plain, record["spread"])
        ours = f"{ours} ({low} to {high}, {record['draws']} draws)"
    checksum = f" `{record['data_sha256'][:8]}`" if record["data_sha256"] else ""
    data = "" if claim.data == "simulated" else record["data"] + checksum
    return f"{paper} | {ours} | {baseline} | {data} | {badge(claim, record)} |\n"


def text(value, unit=None):
    """A cell's text, a number with its unit; a bar in it, as in |o|, does not end the cell."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    own = f" {unit}" if unit and is_number else ""
    return "" if value is None else plain(value).replace("|", "\\|") + own


def badge(claim, record):
    """The verdict, linked to the claim's figure where it has one, else to its chapter."""
    verdict = f'<span class="verdict verdict-{kind(claim, record)}">{words(claim, record)}</span>'
    if record is None or not claim.notebook:
        return verdict
    place = f"#{claim.figure}" if claim.figure else ""
    return f'<a href="{claim.notebook}.html{place}">{verdict}</a>'


def reasons(own, claims, recorded):
    """Why claims do not hold, each reason once, with the ids that it explains."""
    explained: dict[str, list[str]] = {}
    for id in (id for claim in own for id in claim.parts or (claim.id,)):
        if recorded.get(id, {}).get("ok") is False:
            explained.setdefault(claims[id].explanation or "Not known.", []).append(f"`{id}`")
    items = "".join(f"- {', '.join(ids)}: {reason}\n" for reason, ids in explained.items())
    return f"\n### What does not hold, and why\n{items}" if items else ""


def details(claim, claims, recorded):
    """The parts of a claim, and notes on its rules, folded away."""
    parts = [claims[id] for id in claim.parts]
    rows = "| part | must be | the paper | ours | doing nothing | data | verdict |\n"
    rows += "| --- " * 7 + "|\n"
    for part in parts:
        record = recorded.get(part.id)
        rule = part.must.get(record["scale"], "") if record else ""
        rows += f"| {label(part)} | {rule} | {cells(part, record)}"
    body = table(rows, "parts") + notes([claim, *parts])
    return f"\n:::::{{dropdown}} Parts of {claim.id}\n{body}:::::\n"


def notes(everything):
    """Why there is no baseline or no chance, and rules that were changed, each once."""
    heads = {"nothing": "No baseline", "fixed": "No draws", "changed": "Rule changed"}
    found = {(name, getattr(one, name)): None for name in heads for one in everything}
    return "".join(f"\n- {heads[name]}: {note}" for name, note in found if note) + "\n"
