"""Sphinx extension: formulas as MathML, which browsers show without any script."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def mathml(node, display):
    """The MathML of a formula; ValueError for a command that has none."""
    converted = convert(node.astext(), display=display)
    if "\\" in converted:
        raise ValueError(f"a formula that cannot be typeset: {node.astext()}")
    return converted


def inline(writer, node):
    writer.body.append(f'<span class="math">{mathml(node, "inline")}</span>')
    raise SkipNode


def block(writer, node):
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({node["number"]})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(f"{mathml(node, 'block')}</div>\n")
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
