"""What breaks its law today, by (law, door or situation): strict expected failures, each to go."""

NOT_YET: dict[tuple[str, str], str] = {}
