"""A reef of one's own: site.yaml, the tables made from its files, and what is wrong with them.

A site is a folder with ``site.yaml`` (where annotations, photos and metadata are, and how to read them), ``labels.csv``
(what each label means, for its owner to edit), ``tables/`` (Parquet) and ``csv/`` (the same for spreadsheets). It takes
the place of a profile: `reefcore.workflow.open` opens it, and every chapter runs with it.
"""

from __future__ import annotations

from reefcore.site import checks
from reefcore.site.new import new, write_csv, write_lists
from reefcore.site.settings import FILE, MADE_UP, Site, find, load, slug
from reefcore.site.tables import label, make

__all__ = ["FILE", "MADE_UP", "Site", "checks", "find", "label", "load", "make", "new", "slug"]
__all__ += ["write_csv", "write_lists"]
