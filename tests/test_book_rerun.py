"""What pages of the book get for who runs them again: addresses, the section of a chapter, files instead of data."""

import base64
import html
import importlib.util
import re
import shlex
from html.parser import HTMLParser

import nbformat
import pytest
from conftest import TOP
from PIL import Image

from reefcore import cli
from reefcore.errors import ReefcoreError
from reefcore.workflow import build, links, notebook

HOME = "https://github.com/reef/net.works"
RECORD = {"profile": "sample", "seconds": 8.5, "ingredients": {"step read": "1", "python": "3.11"}}


def extension(name: str):
    spec = importlib.util.spec_from_file_location(name, TOP / "book" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rerun, weight = extension("rerun"), extension("weight")


def data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


class TestLinks:
    def test_of_github(self):
        assert links.links(HOME, "main", "notebooks/24_colour.ipynb") == {
            "repository": HOME,
            "source": f"{HOME}/blob/main/notebooks/24_colour.ipynb",
            "binder": "https://mybinder.org/v2/gh/reef/net.works/main?urlpath=lab/tree/notebooks/24_colour.ipynb",
            "colab": "https://colab.research.google.com/github/reef/net.works/blob/main/notebooks/24_colour.ipynb",
        }
        assert links.links(f"{HOME}.git", "a/b", "n.ipynb")["binder"].startswith(
            "https://mybinder.org/v2/gh/reef/net.works/a%2Fb?"
        )
        assert links.code(HOME, "e927afaa36") == f"{HOME}/tree/e927afaa36"

    def test_of_gitlab_which_colab_does_not_open(self):
        made = links.links("https://gitlab.com/reef/net/", "main", "notebooks/24_colour.ipynb")
        assert "colab" not in made and made["source"].startswith("https://gitlab.com/reef/net/-/blob/main/")
        assert made["binder"].startswith("https://mybinder.org/v2/gl/reef%2Fnet/main?")
        assert links.code("https://gitlab.com/reef/net", "abc") == "https://gitlab.com/reef/net/-/tree/abc"

    def test_without_a_repository_there_are_none(self):
        assert links.links("", "main", "n.ipynb") == {} and links.code("", "abc") is None
        assert links.code(HOME, None) is None

    @pytest.mark.parametrize(
        "url",
        [
            "http://github.com/a/b",
            "https://github.com/a",
            "https://github.com/a/b/c",
            "https://github.com.evil.org/a/b",
            "https://example.org/a/b",
            "github.com/a/b",
            'https://github.com/a/b"onclick="x',
            "https://github.com/a/..%2f",
        ],
    )
    def test_another_address_is_refused_in_a_sentence(self, url):
        with pytest.raises(ReefcoreError, match=r"_config\.yml, repository: .* is no address of a repository"):
            links.links(url, "main", "n.ipynb")

    @pytest.mark.parametrize(("branch", "path"), [("a b", "n.ipynb"), ("main", "../n.ipynb"), ("main", "n.py")])
    def test_neither_is_another_branch_or_path(self, branch, path):
        with pytest.raises(ReefcoreError, match="is no "):
            links.links(HOME, branch, path)

    def test_all_that_are_made_are_of_known_form(self):
        for url in (HOME, "https://gitlab.com/reef/net"):
            made = [*links.links(url, "a/b", "notebooks/site/84_cover.ipynb").values(), links.code(url, "e927afa")]
            assert [text for address in made if (text := links.problem(address))] == []

    @pytest.mark.parametrize(
        "address",
        [
            "http://doi.org/10.1/a",
            "https://doi.org/",
            "https://arxiv.org/abs/1",
            "https://nowhere.org/",
            "javascript:alert(1)",
            "https://mybinder.org/v2/gh/a/main?urlpath=lab/tree/n.ipynb",
            "https://github.com/",
        ],
    )
    def test_others_are_not(self, address):
        assert links.problem(address)

    def test_the_setting_of_this_repository_is_good(self):
        assert links.links(*links.setting(), "notebooks/24_colour.ipynb")["colab"]


class TestSection:
    @pytest.fixture(params=[path.stem for path in build.notebooks().values()])
    def chapter(self, request):
        path = build.notebooks()[request.param]
        declared = notebook.parameters(notebook.read(path), path.name)
        return request.param, path.relative_to(TOP).as_posix(), declared

    def test_its_commands_are_taken_by_the_command_line(self, chapter):
        name, path, declared = chapter
        used = {"seed": 3, "profile": "smoke"} if "site" in declared else {}
        commands = dict(rerun.commands(name, path, declared, used))
        for said, line in commands.items():
            words = shlex.split(line)
            if words[0] == "papermill":
                assert (TOP / words[1]).is_file() and words[3] == "-p" and words[4] in declared
                continue
            options = cli._parser().parse_args(words[1:])
            given = dict(options.given)
            assert set(given) <= set(declared)
            settled = notebook.settle(given, declared, name)
            if said == "As on this page":
                assert settled == used
            elif said == "To set a value":
                assert len(given) == 1
            else:
                assert options.profile == "sites/NAME/site.yaml"

    def test_the_line_that_sets_a_value_shows_one(self, chapter):
        name, path, declared = chapter
        line = dict(rerun.commands(name, path, declared, {}))["To set a value"]
        own = [one.default for key, one in declared.items() if key not in ("profile", "seed", "site")]
        assert all(value in ("", []) for value in own) or not line.endswith(("=", "=[]"))

    def test_it_says_what_was_used_and_what_it_needs(self, chapter):
        name, path, declared = chapter
        text = rerun.section(name, path, declared, RECORD | {"parameters": {"seed": 7}}, (HOME, "main"))
        for key, one in declared.items():
            assert f"<code>{key}</code>" in text and f"<td>{html.escape(one.comment)}</td>" in text
        assert "here <code>7</code>" in text and "in 8 s" in text and "read." in text
        assert f'href="../{path}"' in text and f'href="{name}.ipynb"' in text and 'tabindex="0"' in text
        assert text.count('<div class="highlight"><pre') == len(rerun.commands(name, path, declared, {})) + 1
        assert "https://mybinder.org/v2/gh/reef/net.works/main?urlpath=lab/tree/" in text
        bare = rerun.section(name, path, declared, RECORD | {"parameters": {}}, ("", "main"))
        assert "mybinder" not in bare and "here <code>" not in bare and "Colab" not in bare

    def test_what_stands_in_a_notebook_is_text(self):
        cell = nbformat.v4.new_code_cell(
            'a: str = "<b>"  # <script>alert(1)</script>', metadata={"tags": ["parameters"]}
        )
        cell.source = 'profile: str = "x"  # p\n' + cell.source
        declared = notebook.parameters(nbformat.v4.new_notebook(cells=[cell]))
        text = rerun.section(
            "10_a", "notebooks/10_a.ipynb", declared, RECORD | {"parameters": {"a": "<i>$(x)"}}, ("", "")
        )
        assert "<script" not in text and "<b>" not in text and "<i>" not in text
        assert "-p &#x27;a=&lt;i&gt;$(x)&#x27;" in text


class _Links(HTMLParser):
    """Collects the tags of a page with their attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict]:
        return [given for name, given in self.found if name == tag]


class TestWeight:
    SVG = b'<?xml version="1.0"?><svg width="72pt" height="36pt" viewBox="0 0 72 36"></svg>'

    def shown(self, tmp_path, body, made_by=""):
        text = weight.lighten(body, weight.Files(tmp_path, "chapters/10_a"), made_by)
        assert "data:" not in text.replace("data as CSV", "")
        return text, _Links(text)

    def test_a_figure_and_its_data_become_files(self, tmp_path):
        csv = data("text/csv", b"a,b\n1,2\n")
        body = (
            f'<figure class="reef" id="one"><img alt="5 &gt; 4" src="{data("image/svg+xml", self.SVG)}">'
            f'<figcaption>Words <a download="one.csv" href="{csv}">data as CSV</a></figcaption></figure>'
            f'<div class="reef-table tall" id="two" role="region"><table><caption>T <a download="two.csv" href="{csv}">'
            "data as CSV</a></caption></table></div><table><caption>not of ours</caption></table>"
        )
        text, page = self.shown(tmp_path, body, ' · <a href="10_a.ipynb">notebook</a>')
        (image,) = page.all("img")
        assert image == {
            "alt": "5 > 4",
            "src": "10_a-files/one.svg",
            "width": "96",
            "height": "48",
            "decoding": "async",
        }
        folder = tmp_path / "chapters" / "10_a-files"
        assert (folder / "one.svg").read_bytes() == self.SVG and (folder / "two.csv").read_bytes() == b"a,b\n1,2\n"
        given = [one["href"] for one in page.all("a")]
        assert given == ["10_a-files/one.csv", "10_a.ipynb", "10_a-files/two.csv", "10_a.ipynb"]
        assert text.count("notebook</a></figcaption>") == 1 and text.count("notebook</a></caption>") == 1

    def test_later_images_load_late_and_given_sizes_stay(self, tmp_path):
        svg = data("image/svg+xml", self.SVG)
        text, page = self.shown(tmp_path, f'<img src="a.png" alt="x"/><img width="10" height="5" alt="y" src="{svg}"/>')
        first, second = page.all("img")
        assert "loading" not in first and second["loading"] == "lazy" and text.endswith("/>")
        assert (second["width"], second["height"]) == ("10", "5")

    def test_pixels_are_counted(self, tmp_path):
        Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
        picture = data("image/png", (tmp_path / "a.png").read_bytes())
        _, page = self.shown(tmp_path, f'<img alt="x" src="{picture}">')
        assert (page.all("img")[0]["width"], page.all("img")[0]["height"]) == ("30", "20")
        assert re.fullmatch(r"10_a-files/image-\w{8}\.png", page.all("img")[0]["src"])

    def test_names_are_safe_and_do_not_clash(self, tmp_path):
        names = ["../../x.csv", "X.CSV", "<script>.html", "a b ü.csv", ".csv", "x.csv"]
        link = '<a download="{}" href="{}">d</a>'
        body = "".join(
            link.format(name.replace("<", "&lt;").replace(">", "&gt;"), data("text/csv", str(n).encode()))
            for n, name in enumerate(names)
        )
        _, page = self.shown(tmp_path, body)
        addresses = [one["href"] for one in page.all("a")]
        assert len(set(addresses)) == len(names)
        for number, address in enumerate(addresses):
            assert re.fullmatch(r"10_a-files/[a-z0-9_.-]+\.csv", address), address
            assert (tmp_path / "chapters" / address).read_text() == str(number)
        assert [one["download"] for one in page.all("a")] == names  # what a reader's browser calls it

    def test_the_same_twice_is_one_file(self, tmp_path):
        link = f'<a download="a.csv" href="{data("text/csv", b"1")}">d</a>'
        self.shown(tmp_path, link * 2)
        assert [path.name for path in (tmp_path / "chapters" / "10_a-files").iterdir()] == ["a.csv"]

    def test_what_made_it_is_said(self):
        code = {"commit": "e927afaa36", "dirty": True, "label": "e927afaa36-dirty"}
        said = weight.made_by({"code": code}, "10_a", HOME)
        assert said == (
            ' · <a href="10_a.ipynb" download>notebook</a> · code '
            f'<a href="{HOME}/tree/e927afaa36">e927afa</a> with changes'
        )
        installed = {"commit": None, "dirty": None, "label": "src-12345678"}
        assert weight.made_by({"code": installed}, "10_a", HOME).endswith(" · code src-12345678")
        assert weight.made_by({}, "10_a", "").endswith("notebook</a>")
