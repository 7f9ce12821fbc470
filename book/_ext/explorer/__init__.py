"""The explorer's script, style and Vega, for the pages that hold one; other pages load nothing of it."""

import os
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
OWN = ("explorer.css", "explorer.js")


def vega(cache: Path) -> str:
    """Give Vega, Vega-Lite and Vega-Embed as one script, from the package vl-convert: no network is asked."""
    import vl_convert

    path = cache / f"vega-{vl_convert.__version__}.js"
    if not path.exists():  # bundling takes seconds, and is the same each time
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=cache, suffix=".tmp", delete=False, encoding="utf-8") as file:
            file.write(f"(() => {{\n{vl_convert.javascript_bundle()}\n}})();\n")  # its names stay its own
        os.replace(file.name, path)
    return path.read_text(encoding="utf-8")


def add(app, pagename, templatename, context, doctree):
    """Load the scripts on pages whose text asks for them, after their content."""
    if 'data-needs="vega"' not in context.get("body", ""):
        return
    static = Path(app.outdir, "_static")
    static.mkdir(exist_ok=True)
    for name in OWN:
        static.joinpath(name).write_bytes(HERE.joinpath(name).read_bytes())
    bundle = static / "vega.js"
    if not bundle.exists():
        bundle.write_text(vega(Path(app.srcdir).parent / "build"), encoding="utf-8")
    app.add_css_file("explorer.css")
    app.add_js_file("vega.js", defer="defer", priority=900)
    app.add_js_file("explorer.js", defer="defer", priority=901)


def setup(app):
    """Register with Sphinx."""
    app.connect("html-page-context", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
