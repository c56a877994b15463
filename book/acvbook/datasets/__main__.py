"""`python -m acvbook.datasets`: what is here and what is missing; `... fetch NAME`: get one set."""

import sys

from .registry import DataCorrupt, DataNotFound, data_sets, find


def state(name: str) -> str:
    """Where a data set stands; raises DataCorrupt for a corrupt file, also where one is missing."""
    missing = []
    for file in data_sets()[name].files:
        try:
            find(name, file)
        except DataNotFound:
            missing.append(file)
    return f"no {', '.join(missing)}: {data_sets()[name].how_to_get}" if missing else "sha256 ok"


def main(arguments: list[str]) -> str:
    """List the data sets, or fetch one; returns what went wrong."""
    try:
        if arguments[:1] == ["fetch"]:
            from .fetch import fetch

            print(*map(fetch, arguments[1:]))
        else:
            for name in data_sets():
                print(f"{name:<14}{state(name)}")
    except (DataCorrupt, OSError, KeyError, ValueError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
