"""`python -m acvbook.datasets`: what is here and what is missing; `... fetch NAME`: get one set."""

import argparse
import sys

from .registry import DataCorrupt, DataNotFound, DataSet, data_sets, find, folders


def main(arguments: list[str] | None = None) -> int:
    """List the data sets, or fetch one; the exit code is 1 if a file is corrupt or a fetch
    failed.
    """
    parser = argparse.ArgumentParser(prog="python -m acvbook.datasets", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="where each data set is, or how to get it (the default)")
    fetch = commands.add_parser("fetch", help="download one data set into the cache")
    fetch.add_argument("name", choices=data_sets())
    options = parser.parse_args(arguments)
    try:
        return _fetch(options.name) if options.command == "fetch" else _list()
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


def _list():
    states = [_state(data_set) for data_set in data_sets().values()]
    for name, (state, detail) in zip(data_sets(), states, strict=True):
        print(f"{name:<14}{state:<18}{detail}")
    return int(any(state == "CORRUPT" for state, _ in states))


def _state(data_set: DataSet) -> tuple[str, str]:
    """Every file is looked at, so that a missing one does not hide a corrupt one."""
    missing = []
    for file in data_set.files:
        try:
            find(data_set.name, file)
        except DataNotFound:
            missing.append(file)
        except DataCorrupt as error:
            return "CORRUPT", str(error)
    if len(missing) == len(data_set.files):
        return "missing", data_set.how_to_get
    if missing:
        return "incomplete", f"no {', '.join(missing)}: {data_set.how_to_get}"
    return "real, sha256 ok", " ".join(str(f) for f in folders(data_set.name) if f.is_dir())


def _fetch(name):
    from .fetch import fetch

    print(f"{name}: in {fetch(name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
