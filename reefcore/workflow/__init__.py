"""From steps to pages: profiles opened, what changed made again, notebooks run, the book built and checked."""

from reefcore.profiles import Profile
from reefcore.profiles import load as load_profile
from reefcore.workflow.book import check as check_site
from reefcore.workflow.keys import root
from reefcore.workflow.notebook import execute
from reefcore.workflow.project import Project, code_version, open

__all__ = ["Profile", "Project", "check_site", "code_version", "execute", "load_profile", "open", "root"]
