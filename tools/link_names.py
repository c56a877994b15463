"""Link what chapters name to the library reference, and its entries back to those chapters.

Names are looked up as Python would: by the imports of the page's notebook. Text may also name what
the library exports without saying of which module, if the page's code calls nothing else so.
"""

import ast
import importlib
import json
import re

ARTICLE = re.compile(r"<article.*?</article>", re.S)
ENTRY = re.compile(r'<dt class="sig sig-object py" id="([\w.]+)">')
DOT = r'<span class="o">\.</span>'
CHAIN = rf'<span class="n">\w+</span>(?:{DOT}<span class="n">\w+</span>)*'
INLINE = (
    r'<code class="docutils literal notranslate"><span class="pre">[\w.]+(?:\(\))?</span></code>'
)
# Links and headings stay as they are; nor is the end of `x.y().z` a name.
NAMED = re.compile(
    rf"<a\b.*?</a>|<h\d.*?</h\d>|{DOT}{CHAIN}|(?P<code>{CHAIN})|(?P<text>{INLINE})", re.S
)
SUMMARY = re.compile(r"(<dd>(?:<p>.*?</p>)?)", re.S)  # its first sentence
TITLE = re.compile(r"<title>(.*?)(?: &#8212;|</title>)", re.S)
ROOTS = ("acvlib", "acvlib.models", "acvlib.folds")


def link(folder, source):
    """Link the pages of `folder`, which were built from `source`."""
    reference = Reference(folder)
    users = {}
    for page in sorted(source.glob("*.ipynb")) + sorted(source.glob("*.md")):
        built = folder / f"{page.stem}.html"
        if built.exists() and not page.stem.startswith("api"):
            names = Names(code_of(page))
            text = built.read_text("utf-8")
            linked, places = with_links(text, names, reference)
            built.write_text(linked, "utf-8")
            for place in places:
                title = TITLE.search(text)[1]
                users.setdefault(place, []).append((title, f"{built.name}#use-{place}"))
    for name in sorted(set(reference.pages.values())):
        text = (folder / name).read_text("utf-8")
        (folder / name).write_text(with_users(text, users), "utf-8")


def code_of(page):
    """The Python code of a notebook; of a page of prose, what its examples take for granted."""
    if page.suffix == ".md":
        return "import acvlib as acv"
    cells = json.loads(page.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = "\n".join(code).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("%", "!")))


class Reference:
    """Places of the library reference, by the objects that they are about."""

    def __init__(self, folder):
        self.pages = {}
        for page in sorted(folder.glob("api_*.html")):
            self.pages |= dict.fromkeys(ENTRY.findall(page.read_text("utf-8")), page.name)
        self.values = {place: value_of(place) for place in self.pages}  # kept: ids are for life
        self.places = {}
        for place, value in self.values.items():
            if callable(value):
                self.places.setdefault(id(value), place)

    def place(self, value, attributes):
        """The place of an object or of its attributes, as far as there is one; else None."""
        for number, name in enumerate(attributes):
            if id(value) in self.places:
                whole = ".".join([self.places[id(value)], *attributes[number:]])
                return whole if whole in self.pages else self.places[id(value)]
            value = getattr(value, name, None)
        return self.places.get(id(value))


def value_of(place):
    """The object of a full name."""
    module, attributes = place, []
    while True:
        try:
            value = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            attributes.insert(0, last)
    for name in attributes:
        value = getattr(value, name, None)
    return value


class Names:
    """What the names of a page stand for."""

    def __init__(self, code):
        self.imported, self.assigned = {}, set()
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.add(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.assigned.add(node.id)

    def add(self, node):
        """Add the names that a statement imports from the library or the book."""
        source = getattr(node, "module", None)
        for alias in node.names:
            path = f"{source}.{alias.name}" if source else alias.name
            if path.split(".")[0] in ("acvlib", "acvbook"):
                whole = path if source or alias.asname else path.split(".")[0]
                self.imported[alias.asname or whole.rpartition(".")[2]] = value_of(whole)

    def of_code(self, name):
        """The object that code calls so; None for others than those of the library and the book."""
        return self.imported.get(name)

    def of_text(self, name):
        """The object that text calls so, which the page need not import."""
        if name in self.imported or name in self.assigned:
            return self.imported.get(name)
        roots = map(importlib.import_module, ROOTS)
        found = [getattr(root, name) for root in roots if name in root.__all__]
        return found[0] if found and callable(found[0]) else None


def with_links(page, names, reference):
    """The page with its names as links, and the places that they lead to."""
    used = []

    def linked(match):
        if not (match["code"] or match["text"]):
            return match[0]
        first, *attributes = re.sub(r"<[^>]*>|\(\)", "", match[0]).split(".")
        value = names.of_code(first) if match["code"] else names.of_text(first)
        place = reference.place(value, attributes)
        if place is None:
            return match[0]
        mark = "" if place in used else f' id="use-{place}"'
        used.append(place)
        return f'<a class="to-api"{mark} href="{reference.pages[place]}#{place}">{match[0]}</a>'

    return ARTICLE.sub(lambda article: NAMED.sub(linked, article[0]), page), set(used)


def with_users(page, users):
    """A page of the reference whose entries name the chapters that use them."""
    parts = ENTRY.split(page)
    for number in range(1, len(parts), 2):
        place = parts[number]
        if place in users:
            links = [f'<a href="{address}">{title}</a>' for title, address in users[place]]
            line = f'<p class="used-in">Used in {", ".join(links)}.</p>'
            parts[number + 1] = SUMMARY.sub(rf"\1{line}", parts[number + 1], count=1)
        parts[number] = f'<dt class="sig sig-object py" id="{place}">'
    return "".join(parts)
