"""The rendered book as one file, the same bytes of the same book, to keep, to send and to read without a network."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import reefcore
from reefcore.errors import ReefcoreError
from reefcore.files import atomic, sha256
from reefcore.workflow import book, keys, status

START = "START-HERE.txt"
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold
_PACKED = {".jpg", ".png", ".webp", ".woff2", ".zip", ".parquet"}  # which deflating does not make smaller
_WORDS = """\
ReefNet Companion {version}, profile {profile}
{notice}

Unpack everything into a folder, and open index.html in a browser. No network is needed, and nothing is sent anywhere.

The pages:      index.html (on a web server, put the whole folder into it)
The notebooks:  notebooks/ as they are run, chapters/*.ipynb with their results
The data:       chapters/*-files/*.csv, behind the figures and tables of each page
The records:    chapters/*.json say what each page was computed from: parameters, code, inputs, packages
"""


def write(folder: str | Path | None = None) -> dict:
    """Pack the rendered book.

    The archive lies in ``build``: ``reefnet-companion-VERSION-PROFILE.zip``, with its checksum beside it in the form
    that ``sha256sum -c`` reads. Names are sorted, and times and owners are not kept.

    Parameters
    ----------
    folder : path, optional
        Where the archive goes.

    Returns
    -------
    dict
        ``path``, ``bytes``, ``sha256``, ``checksum`` (path), ``files`` (how many).

    Raises
    ------
    ReefcoreError
        Where there is no rendered book, or what it was made from has changed since, or a check of it fails.
    """
    html = keys.root() / book.HTML
    report = book.check(html)  # says where there is none
    if not book.is_fresh():
        raise ReefcoreError("what the rendered book was made from has changed since", html, "type `make book`")
    if late := status.late(status.index(), "notebooks"):
        names = ", ".join(f"{row['name']} ({row['state']})" for row in late[:3])
        names += f", and {len(late) - 3} more" if len(late) > 3 else ""
        raise ReefcoreError(f"chapters of the rendered book are not up to date: {names}", do="type `make book`")
    if report["problems"]:
        first, more = report["problems"][0], len(report["problems"]) - 1
        said = f"{first}{f', and {more} more' if more else ''}"
        raise ReefcoreError(f"the rendered book fails its checks: {said}", html, "see `reefcore book check`")
    records = filter(None, (keys.read_record(path) for path in sorted(html.glob("chapters/*.json"))))
    said = Counter((record["profile"], record["notice"]) for record in records).most_common(1)
    profile, notice = said[0][0] if said else ("none", "No chapter of this book is computed.")
    target = Path(folder or keys.root() / "build") / f"reefnet-companion-{reefcore.__version__}-{profile}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    words = _WORDS.format(version=reefcore.__version__, profile=profile, notice=notice)
    count = pack(html, target, {START: words})
    checksum = target.with_name(f"{target.name}.sha256")
    digest = sha256(target)
    with atomic(checksum) as temporary:
        temporary.write_text(f"{digest}  {target.name}\n", encoding="ascii")
    return {"path": target, "bytes": target.stat().st_size, "sha256": digest, "checksum": checksum, "files": count}


def pack(folder: Path, target: Path, more: dict[str, str]) -> int:
    """Pack the files of a folder, and some texts; return how many there are. Same contents, same bytes."""
    contents = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    contents = {name: path for name, path in contents.items() if name != ".buildinfo"} | more
    with atomic(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(contents, key=lambda name: (name not in more, name)):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            entry.compress_type = zipfile.ZIP_STORED if Path(name).suffix in _PACKED else zipfile.ZIP_DEFLATED
            content = contents[name]
            archive.writestr(entry, content if isinstance(content, str) else content.read_bytes(), compresslevel=9)
    return len(contents)
