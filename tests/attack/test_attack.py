"""A seeded part of the attack (`python -m tests.attack` is the whole)."""

import re

from attack import run

# Functions with findings that wait for other work on their files; to be emptied.
OPEN = re.compile("(?!)")


def test_no_odd_input_is_answered_wrongly_or_with_a_riddle():
    """Right or refused by name: no silent wrong, no crash, no hang, no error from inside numpy."""
    chosen = [case for case in run.cases(1200, seed=0) if not OPEN.match(case.name)]
    _, faults = run.attack(chosen[:400])
    assert not faults, "\n".join(faults)
