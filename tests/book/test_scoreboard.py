"""The scoreboard says what the ledger says: a failure is a failure, a stand-in never counts."""

import pytest
import scoreboard
from acvbook.claims import Claim

RULE = {"quick": ">= 1", "paper": ">= 1"}
CLAIM = Claim(
    "ghosh.fig9",
    "Figure 9",
    "A number.",
    must=RULE,
    explanation="The paper's scaling is not known.",
)


def record(ok, data="real", scale="paper"):
    return {
        "id": CLAIM.id,
        "value": 0.123456,
        "ok": ok,
        "data": data,
        "data_sha256": "ab" * 32,
        "scale": scale,
    }


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        (None, "not yet"),
        (record(True), "**reproduced**"),
        (record(True, scale="quick"), "holds at quick scale"),
        (record(False), "**not reproduced**"),
        (record(None, data="simulated"), "stand-in"),
        (record(None), "reported"),
    ],
)
def test_verdict(entry, verdict):
    assert scoreboard.verdict(CLAIM, entry) == verdict


def test_failure_is_explained_below_its_table():
    section = scoreboard.section(
        "Name, citation", [CLAIM], {CLAIM.id: CLAIM}, {CLAIM.id: record(False)}
    )
    assert "| 0.1235 | real `abababab` | **not reproduced** |" in section
    assert CLAIM.explanation in section


def test_every_claim_of_the_book_has_its_row():
    page = scoreboard.page([])
    assert page.count("| not yet |") == len(
        [id for id in scoreboard.load_claims() if id.count(".") == 1]
    )
