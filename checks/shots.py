"""Pictures of every page, for looking: `python checks/shots.py FOLDER [PAGE...] [--html DIR]`.

Each page whole, 1280 and 360 pixels wide, light and dark, as PNG into FOLDER; and sheets of six pages side by side.
"""

import argparse
import math
from pathlib import Path

import browser
from PIL import Image, ImageDraw

from reefcore.parallel import pool
from reefcore.workflow import keys
from reefcore.workflow.book import HTML

KINDS = {
    (kind, theme): size
    for kind, size in (("wide", browser.WIDE), ("phone", browser.PHONE))
    for theme in ("light", "dark")
}
TALL = 12_000  # pixels: what is below is seen on other pages


def shoot(base: str, names: list[str], folder: Path) -> None:
    """Take the pictures of some pages in one browser."""
    with browser.browser() as started:
        for name in names:
            for (kind, theme), size in KINDS.items():
                with browser.opened(started, base + name, [], size, theme) as page:
                    browser.scroll(page)
                    high = min(page.evaluate("document.scrollingElement.scrollHeight"), TALL)
                    page.set_viewport_size({"width": size["width"], "height": max(high, size["height"])})
                    page.wait_for_timeout(300)
                    path = folder / f"{kind}-{theme}" / (name.replace("/", "--").removesuffix(".html") + ".png")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=path)


def sheet(paths: list[Path], target: Path, width: int, height: int) -> None:
    """Put pictures beside each other; what is longer than the sheet is left out."""
    whole = Image.new("RGB", (len(paths) * (width + 10), height + 20), "#888888")
    pen = ImageDraw.Draw(whole)
    for place, path in enumerate(paths):
        picture = Image.open(path)
        scale = width / picture.width
        picture = picture.resize((width, max(1, round(picture.height * scale)))).crop((0, 0, width, height))
        whole.paste(picture, (place * (width + 10), 20))
        pen.text((place * (width + 10) + 4, 4), path.stem, fill="white")
    whole.save(target)


def main() -> None:
    """Take all pictures, two browsers at a time, and make the sheets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the pictures go, outside the repository")
    parser.add_argument("pages", nargs="*", help="such as chapters/40_supervised.html (all)")
    parser.add_argument("--html", type=Path, default=keys.root() / HTML, help="the rendered book")
    options = parser.parse_args()
    names = options.pages or browser.pages(options.html)
    with browser.serve(options.html) as base, pool(2) as workers:
        for job in [workers.submit(shoot, base, names[part::2], options.folder) for part in range(2)]:
            job.result()
    for kind, theme in KINDS:
        paths = [
            options.folder / f"{kind}-{theme}" / (n.replace("/", "--").removesuffix(".html") + ".png") for n in names
        ]
        for part in range(math.ceil(len(paths) / 6)):
            target = options.folder / f"sheet-{kind}-{theme}-{part + 1:02}.png"
            sheet(paths[6 * part : 6 * part + 6], target, 640 if kind == "wide" else 330, 2400)
    print(f"{len(names)} pages in {options.folder}")


if __name__ == "__main__":
    main()
