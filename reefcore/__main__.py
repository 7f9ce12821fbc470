"""``python -m reefcore``: the command line."""

import sys

from reefcore.cli import main

sys.exit(main())
