"""Pages of the library reference, one a group of book/api.toml, made from docstrings."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

PAGES = tomllib.loads(Path("book/api.toml").read_text("utf-8"))


def write(target):
    """Write all pages into `target`; returns the list of them for its page api.md."""
    sections = []
    for name, page in PAGES.items():
        (target / f"{name}.md").write_text(text(page), "utf-8")
        places = [place for entry in page["entries"] for place in places_of(entry)]
        links = ", ".join(f"{{py:obj}}`{place.rpartition('.')[2]} <{place}>`" for place in places)
        sections.append(f"## [{page['title']}]({name}.md)\n\n{page['about']}\n\n{links}\n")
    return "\n".join(sections)


def text(page):
    """MyST text of one page; a module that stands on it whole says what it is."""
    parts = [f"# {page['title']}\n\n{page['about']}\n\n```{{eval-rst}}"]
    for entry in page["entries"]:
        if ":" not in entry:
            parts.append(f".. automodule:: {entry}\n")
        parts += map(directive, places_of(entry))
    return "\n".join([*parts, "```\n"])


def directive(place):
    """The directive that shows one function, class or exception, and the chapters that use it."""
    module, _, name = place.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    members = "   :members:\n" if inspect.isclass(thing) else ""
    is_error = members and issubclass(thing, BaseException)
    kind = "exception" if is_error else "class" if members else "function"
    return f".. auto{kind}:: {place}\n{members}\n.. autolink-examples:: {place}\n"


def places_of(entry):
    """Full names of what an entry shows: `module`, or `module: name, name`."""
    module, _, listed = entry.partition(": ")
    names = listed.split(", ") if listed else public(importlib.import_module(module))
    return [f"{module}.{name}" for name in names]


def public(module):
    """Public functions and classes: those in `__all__`, else those that the module or its package
    defines. What the book hands on from the library stands with the library.
    """
    names = getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"])
    top = module.__name__.partition(".")[0] if hasattr(module, "__all__") else module.__name__
    homes = {name: getattr(getattr(module, name), "__module__", None) or "" for name in names}
    own = re.compile(rf"{top}\b")
    return [name for name in names if callable(getattr(module, name)) and own.match(homes[name])]
