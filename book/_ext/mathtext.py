"""Formulas for the book as SVG, drawn by matplotlib: nothing is fetched, and the LaTeX is the alternative text."""

import base64
import html
import io

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser

POINTS = 12.0  # matches the 16 pixels of the book's text


def svg(latex: str) -> tuple[bytes, float]:
    """Draw a formula; return the SVG and how far it reaches below the line, in points."""
    font = FontProperties(size=POINTS)
    text = f"${latex.strip()}$"
    width, height, depth, *_ = MathTextParser("path").parse(text, dpi=72, prop=font)
    figure = Figure(figsize=(width / 72, height / 72))
    figure.text(0, depth / height, text, fontproperties=font)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "mathtext", "mathtext.fontset": "cm"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return buffer.getvalue(), depth


def image(latex: str) -> str:
    """Write a formula as an HTML image inside the text."""
    drawing, depth = svg(latex)
    data = base64.b64encode(drawing).decode()
    return (
        f'<img class="math" src="data:image/svg+xml;base64,{data}" alt="{html.escape(latex.strip())}" '
        f'style="vertical-align: {-depth:.2f}pt"/>'
    )


def visit_inline(self, node):
    """Render ``$...$``."""
    from docutils import nodes

    self.body.append(image(node.astext()))
    raise nodes.SkipNode


def visit_block(self, node):
    """Render ``$$...$$`` and ``{math}``."""
    from docutils import nodes

    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(image(" ".join(node.astext().split())) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer("mathtext", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
