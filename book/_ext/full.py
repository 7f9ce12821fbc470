"""The tables of the page about the full profile: what is fetched, and what each chapter needs, by the code."""

from reefcore.workflow import full

PLACE = "<!-- {} of reefcore/workflow/full.py -->"


def on_read(app, docname, source):
    """Put the tables where the page has their places."""
    if docname == "full":
        for name, text in full.tables().items():
            source[0] = source[0].replace(PLACE.format(name), text)


def setup(app):
    """Register with Sphinx."""
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
