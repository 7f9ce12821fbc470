"""At the end of each chapter: what somebody needs who runs it again, with this reef or another."""

import html
import shlex
import shutil
from pathlib import Path

from reefcore.site import MADE_UP
from reefcore.workflow import keys, links, notebook

ENVIRONMENT = ("environment.yml", "requirements.lock")
REEF = "sites/NAME/site.yaml"


def commands(name: str, path: str, declared: dict, used: dict) -> list[tuple[str, str]]:
    """List the command lines of a chapter, each with what it is for.

    Parameters
    ----------
    name, path : str
        Of the notebook; the path within the repository.
    declared : dict
        Its parameters, of `notebook.parameters`.
    used : dict
        Those that differ from the defaults.
    """
    options = [word for key, value in used.items() for word in ("-p", f"{key}={_text(value)}")]
    own = declared["profile"].default == MADE_UP  # a chapter of a site
    own_kind = [key for key in declared if key not in ("profile", "seed", "site")] or [[*declared][-1]]
    filled = [key for key in own_kind if used.get(key, declared[key].default) not in ("", [])]
    last = (filled or own_kind)[-1]  # an empty value would show nothing of how one is written
    value = used.get(last, declared[last].default)
    papermill = ["papermill", path, "out.ipynb", *(("-p", "profile", REEF) if own else ("-p", last, _text(value)))]
    found = [
        ("As on this page", ["reefcore", "run", name, *options]),
        ("To set a value", ["reefcore", "run", name, "-p", f"{last}={_text(value)}"]),
    ]
    if own or "site" in declared:
        found.append(("On your reef", ["reefcore", "run", name, "--profile", REEF]))
    found.append(("By hand, with papermill", papermill))
    return [(said, shlex.join(words)) for said, words in found]


def _text(value) -> str:
    return value if isinstance(value, str) else repr(value)


def parameters(declared: dict, used: dict) -> str:
    """Write the table of the parameters."""
    import ast

    rows = []
    for key, one in declared.items():
        here = f"<br>here <code>{html.escape(repr(used[key]))}</code>" if key in used else ""
        kind = html.escape(ast.unparse(one.type))
        rows.append(
            f'<tr><th scope="row"><code>{html.escape(key)}</code></th><td>{kind}</td>'
            f"<td><code>{html.escape(repr(one.default))}</code>{here}</td><td>{html.escape(one.comment)}</td></tr>"
        )
    return (
        '<div class="run-parameters" role="region" tabindex="0" aria-label="Parameters of this page"><table>'
        '<thead><tr><th scope="col">parameter</th><th scope="col">type</th><th scope="col">default</th>'
        f'<th scope="col">meaning</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def section(page: str, path: str, declared: dict, record: dict, repository: tuple[str, str], up: str = "../") -> str:
    """Write the section.

    Parameters
    ----------
    page : str
        Name of the chapter.
    path : str
        Of its notebook, within the repository, and in the site.
    declared : dict
        Its parameters.
    record : dict
        Of its last run.
    repository : tuple of str
        Address and branch, as `_config.yml` says them.
    up : str
        The way from the page to the site's first page.
    """
    used = {key: value for key, value in record["parameters"].items() if key in declared}
    used = {key: value for key, value in used.items() if value != declared[key].default}
    steps = [one.removeprefix("step ") for one in record["ingredients"] if one.startswith("step ")]
    needs = f" It reads what these steps make, which run before it where they have not yet: {', '.join(steps)}."
    away = links.links(*repository, path)
    opened = [f'<a href="{html.escape(away[kind])}">{kind.title()}</a>' for kind in ("binder", "colab") if kind in away]
    first = ""
    if "colab" in away:
        install = f'%pip install "reefcore[train] @ git+{away["repository"]}@{repository[1]}"'
        first = f"<p>In Colab, run this first:</p>{block(install)}"
    run, took = ("Left out of", "") if "left_out" in record else ("Run with", f" in {record['seconds']:.0f} s")
    lines = "".join(f"<p>{said}:</p>{block(line)}" for said, line in commands(page, path, declared, used))
    files = (
        f'Notebook: <a download href="{up}{path}">clean, with its parameters</a>, '
        f'<a download href="{page}.ipynb">executed, with its results</a> · Environment: '
        + ", ".join(
            f'<a download href="{up}environment/{name}">{name}</a>'
            for name in ENVIRONMENT
            if (keys.root() / name).exists()
        )
        + (f" · Open in {' or '.join(opened)}" if opened else "")
    )
    return (
        '<section id="run-this-page"><h2>Run this page yourself<a class="headerlink" href="#run-this-page" '
        'title="Link to this heading">#</a></h2>'
        f"<p>{run} the profile {html.escape(record['profile'])}{took}."
        f"{html.escape(needs) if steps else ''}</p>"
        f'<p>{files}</p>{parameters(declared, used)}<div class="run-commands">{lines}{first}</div></section>'
    )


def block(text: str) -> str:
    """Write a line of code with the markup that gets a copy button."""
    return (
        '<div class="highlight-console notranslate"><div class="highlight"><pre>'
        f"<span></span>{html.escape(text)}\n</pre></div></div>"
    )


def on_page(app, pagename, templatename, context, doctree):
    """Give the template the section of a chapter, and lay its notebooks beside it."""
    folder, name = Path(app.srcdir), pagename.rpartition("/")[2]
    record = keys.read_record(folder / f"{pagename}.json")
    found = [
        path for path in (f"notebooks/{name}.ipynb", f"notebooks/site/{name}.ipynb") if (keys.root() / path).exists()
    ]
    if not pagename.startswith("chapters/") or record is None or not found:
        return
    for source, target in ((keys.root() / found[0], found[0]), (folder / f"{pagename}.ipynb", f"{pagename}.ipynb")):
        (Path(app.outdir) / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, Path(app.outdir) / target)
    declared = notebook.parameters(notebook.read(keys.root() / found[0]), found[0])
    record = {"parameters": {}, "seconds": 0} | record
    context["reef_rerun"] = section(name, found[0], declared, record, links.setting())


def environment(app):
    """Lay the environment files into the site."""
    target = Path(app.outdir) / "environment"
    target.mkdir(parents=True, exist_ok=True)
    for name in ENVIRONMENT:
        if (keys.root() / name).exists():
            shutil.copyfile(keys.root() / name, target / name)


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", environment)
    app.connect("html-page-context", on_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
