"""Sphinx extension: a name of the library in code font leads to its entry in the reference."""

import importlib

from docutils import nodes
from sphinx.util.nodes import make_refnode

ROOTS = ("acvlib", "acvlib.models", "acvlib.folds")


def full_name(text):
    """The names of a function or class that `ROOTS` export; empty where they have no such."""
    name = text.removesuffix("()").removeprefix("acv.").removeprefix("acvlib.")
    for root in ROOTS:
        value = importlib.import_module(root)
        for part in name.split("."):
            value = getattr(value, part, None)
        if callable(value):
            return [f"{root}.{name}", f"{value.__module__}.{value.__qualname__}"]
    return []


def link(app, doctree, page):
    entries = app.env.domains["py"].objects
    for literal in list(doctree.findall(nodes.literal)):
        if literal.get("classes") or isinstance(literal.parent, nodes.reference | nodes.title):
            continue
        found = [entries[name] for name in full_name(literal.astext()) if name in entries]
        found = [entry for entry in found if entry.objtype != "module" and entry.docname != page]
        if found:
            place = app.builder, page, found[0].docname, found[0].node_id
            literal.replace_self(make_refnode(*place, literal.deepcopy()))


def read_in_parallel(app):
    """By two processes; two extensions say nothing about it, and read nothing."""
    app.parallel = 2
    for name in {"sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"} & {*app.extensions}:
        app.extensions[name].parallel_read_safe = True


def setup(app):
    app.connect("builder-inited", read_in_parallel)
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True}
