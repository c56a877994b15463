"""What a record says of its claim, in words: for the scoreboard and for the badges in chapters."""

from .claims import Claim

# The kinds of verdict, best first, and what heads their column in the summary.
KINDS = {
    "power": "held with power",
    "held": "held",
    "failed": "not held",
    "open": "not testable",
    "reported": "reported",
}


def kind(claim: Claim, record: dict | None) -> str:
    """Which of KINDS a record is. *power*: it holds, and doing nothing fails the same rule."""
    if record is None or record["holds"] is None:
        return "reported"
    if record["ok"] is None:
        return "open"
    if not record["ok"]:
        return "failed"
    return "power" if record["power"] else "held"


def words(claim: Claim, record: dict | None) -> str:
    """The verdict as the book prints it."""
    if record is None:
        return "not yet"
    if record["holds"] is None:
        return "reported"
    if record["ok"] is None:
        outcome = "holds" if record["holds"] else "fails"
        return f"not testable: {record['data']} data (the rule {outcome} on them)"
    ours = claim.id.startswith("beyond.")
    verb = ("held", "not held") if ours else ("reproduced", "not reproduced")
    if not record["ok"]:
        return verb[1]
    scale = "" if record["scale"] == "paper" else " at quick scale"
    weak = "; doing nothing passes too" if record["power"] is False else ""
    return f"{verb[0]}{scale}{weak}"


def anchor(id: str) -> str:
    """The HTML id of a claim's row on the scoreboard; a part stands under its claim."""
    return "claim-" + id.replace(".", "-").replace("_", "-")
