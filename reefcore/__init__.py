"""The library behind the ReefNet Companion: from point annotations of reef photos to tables, figures and decisions.

Every module is a room with one concept; import the one you need (``from reefcore import annotations, metrics``).
Importing the package itself loads nothing heavy.
"""

__version__ = "0.1.0"
