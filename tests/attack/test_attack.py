"""A seeded part of the attack (`python -m tests.attack` is the whole)."""

from attack import run


def test_no_odd_input_is_answered_wrongly_or_with_a_riddle():
    """Right or refused by name: no silent wrong, no crash, no hang, no error from inside numpy."""
    _, faults = run.attack(run.cases(400, seed=0))
    assert not faults, "\n".join(faults)
