"""``python -m reefcore``: the command line; a job of a build in a process that is warm already, where there is one."""

import sys

from reefcore import warm

if "job" in sys.argv[1:3] and (code := warm.ask("reefcore", sys.argv[1:])) is not None:
    sys.exit(code)

from reefcore.cli import main

sys.exit(main())
