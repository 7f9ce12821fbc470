"""Addresses that leave the book: built from the one setting of the repository, and the forms that are known."""

from __future__ import annotations

import re

import yaml

from reefcore.errors import ReefcoreError
from reefcore.workflow import keys

_OWNED = re.compile(r"https://(github|gitlab)\.com/([A-Za-z0-9][\w.-]*)/([A-Za-z0-9_.-]+?)(?:\.git)?/?")
#: Hosts that a page may link to -> what comes after the host. A page links to nothing else, and loads nothing at all.
KNOWN = {
    "doi.org": r"/10\.\d{4,9}/\S+",
    "arxiv.org": r"/(abs|pdf)/\d{4}\.\d{4,5}(v\d+)?",
    "mybinder.org": r"/v2/(gh/[\w.-]+/|gl/[\w.-]+%2F)[\w.-]+/[\w.%-]+\?urlpath=lab/tree/[\w./-]+\.ipynb",
    "colab.research.google.com": r"/github/[\w.-]+/[\w.-]+/blob/[\w./-]+\.ipynb",
    "creativecommons.org": r"/(licenses|publicdomain)/\S+",
    **dict.fromkeys(("github.com", "gitlab.com", "huggingface.co"), r"/[\w.-]+(/\S*)?"),
    **dict.fromkeys(("openreview.net", "proceedings.mlr.press", "openaccess.thecvf.com", "aclanthology.org"), r"/\S+"),
    **dict.fromkeys(("papers.nips.cc", "proceedings.neurips.cc", "mlcommons.org", "jupyter.org"), r"/\S*"),
    **dict.fromkeys(("marinespecies.org", "coralnet.ucsd.edu", "biigle.de", "squidle.org", "datamermaid.org"), r"/\S*"),
    **dict.fromkeys(("reefcloud.ai", "taglab.isti.cnr.it", "gbif.org", "obis.org", "dwc.tdwg.org"), r"/\S*"),
}


def setting() -> tuple[str, str]:
    """Return the one setting of the repository in `_config.yml`: address, empty where there is none, and branch."""
    path = keys.root() / "_config.yml"
    said = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    given = (said or {}).get("repository") or {}
    return str(given.get("url") or ""), str(given.get("branch") or "main")


def links(url: str, branch: str, notebook: str) -> dict[str, str]:
    """Build the addresses under which a notebook opens elsewhere.

    Parameters
    ----------
    url : str
        Of the repository, as `_config.yml` says it: ``https://github.com/OWNER/NAME``, or of gitlab.com. Without one
        there are no addresses.
    branch : str
        A branch, a tag or a commit.
    notebook : str
        Path within the repository.

    Returns
    -------
    dict
        ``repository``, ``source`` (the notebook there), ``binder``, and ``colab`` of GitHub, which it alone opens.

    Raises
    ------
    ReefcoreError
        Where the address is of another form, or the branch or the path cannot stand in one.
    """
    if not url:
        return {}
    found = _OWNED.fullmatch(url.strip())
    if not found:
        do = "write https://github.com/OWNER/NAME, or of gitlab.com, or leave it empty"
        raise ReefcoreError(f"{url!r} is no address of a repository that Binder knows", "_config.yml, repository", do)
    if not re.fullmatch(r"[\w][\w./-]*", branch):
        raise ReefcoreError(f"{branch!r} is no name of a branch", "_config.yml, repository", "write it as git does")
    if not re.fullmatch(r"[\w./-]+\.ipynb", notebook) or ".." in notebook:
        raise ReefcoreError(f"{notebook!r} is no path of a notebook in a repository")
    host, owner, name = found.groups()
    home = f"https://{host}.com/{owner}/{name}"
    place, ref = f"{'gh' if host == 'github' else 'gl'}/{owner}", branch.replace("/", "%2F")
    place += f"/{name}" if host == "github" else f"%2F{name}"
    made = {
        "repository": home,
        "source": f"{home}/{'' if host == 'github' else '-/'}blob/{branch}/{notebook}",
        "binder": f"https://mybinder.org/v2/{place}/{ref}?urlpath=lab/tree/{notebook}",
    }
    if host == "github":
        made["colab"] = f"https://colab.research.google.com/github/{owner}/{name}/blob/{branch}/{notebook}"
    return made


def code(url: str, commit: str | None) -> str | None:
    """Build the address of a version of the code; None where there is no repository or no commit."""
    home = links(url, "main", "a.ipynb").get("repository")
    inside = "" if home and "//github.com" in home else "-/"
    return f"{home}/{inside}tree/{commit}" if home and commit else None


def problem(address: str) -> str | None:
    """Say what is wrong with an address that leaves the book; None where its form is known."""
    if re.fullmatch(r"mailto:[\w.+-]+@[\w-]+(\.[\w-]+)+", address):
        return None
    found = re.fullmatch(r"https://(?:www\.)?([a-z0-9.-]+)(?::\d+)?((?:[/?#]\S*)?)", address)
    if not found:
        return f"{address[:80]} is not an address of the form https://host/path"
    host, rest = found.groups()
    if host not in KNOWN:
        return f"{address[:80]} leads to {host}, which is not in the list of reefcore/workflow/links.py"
    good = re.fullmatch(f"{KNOWN[host]}(#\\S*)?", rest or "/")
    return None if good else f"{address[:120]} is not of the form that addresses of {host} have"
