"""What breaks its law today: strict expected failures."""

NOT_YET: dict[tuple[str, str], str] = {}
