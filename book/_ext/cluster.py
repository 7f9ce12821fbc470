"""The table of what jobs ask for, on the page about clusters: of the code that asks."""

from reefcore.workflow import resources

PLACE = "<!-- the table of reefcore/workflow/resources.py -->"


def on_read(app, docname, source):
    """Put the table where the page has its place."""
    source[0] = source[0].replace(PLACE, resources.table())


def setup(app):
    """Register with Sphinx."""
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
