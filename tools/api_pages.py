"""Pages of the library reference, one a group of book/api.toml, made from docstrings."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

PAGES = tomllib.loads(Path("book/api.toml").read_text("utf-8"))


def write(target):
    """Write all pages into `target`, and list them on its page api.md."""
    for name, page in PAGES.items():
        (target / f"{name}.md").write_text(text(page), "utf-8")
    overview = target / "api.md"
    overview.write_text(overview.read_text("utf-8").replace("<!-- api -->", contents()), "utf-8")


def text(page):
    """MyST text of one page."""
    directives = "\n".join(described(entry) for entry in page["entries"])
    return f"# {page['title']}\n\n{page['about']}\n\n```{{eval-rst}}\n{directives}\n```\n"


def described(entry):
    """Directives of one entry; a module that stands on one page whole says what it is."""
    module, names = members(entry)
    head = "" if ":" in entry else f".. automodule:: {module}\n\n"
    return head + "\n".join(directive(module, name) for name in names)


def directive(module, name):
    """The directive that shows one function, class or exception."""
    thing = getattr(importlib.import_module(module), name)
    if not inspect.isclass(thing):
        return f".. autofunction:: {module}.{name}\n"
    kind = "exception" if issubclass(thing, BaseException) else "class"
    return f".. auto{kind}:: {module}.{name}\n   :members:\n"


def members(entry):
    """(module, the names of it that an entry shows)."""
    module, _, listed = entry.partition(": ")
    return module, listed.split(", ") if listed else public(importlib.import_module(module))


def public(module):
    """Public functions and classes: those in `__all__`, else those that the module defines.

    What the book hands on from the library stands with the library.
    """
    if hasattr(module, "__all__"):
        names = module.__all__
        home = re.compile(rf"{module.__name__.partition('.')[0]}\b")
    else:
        names = [name for name in vars(module) if not name.startswith("_")]
        home = re.compile(rf"{module.__name__}$")
    things = {name: getattr(module, name) for name in names}
    return [
        name
        for name, thing in things.items()
        if callable(thing) and home.match(getattr(thing, "__module__", None) or "")
    ]


def contents():
    """The overview: each page, what it is about, and its names."""
    sections = []
    for name, page in PAGES.items():
        places = [place for entry in page["entries"] for place in places_of(entry)]
        links = ", ".join(f"{{py:obj}}`{place.rpartition('.')[2]} <{place}>`" for place in places)
        sections.append(f"## [{page['title']}]({name}.md)\n\n{page['about']}\n\n{links}\n")
    return "\n".join(sections)


def places_of(entry):
    """Full names of what an entry shows, which are its places on the page."""
    module, names = members(entry)
    return [f"{module}.{name}" for name in names]
