"""A double of CoralNet on `doubles.Server`: pages as its published templates write them, photos at signed addresses."""

import html
import io
import itertools

import numpy as np
from doubles import Reply, Server
from PIL import Image


def jpeg(seed: int, width: int = 64, height: int = 48, form: str = "JPEG", **options) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer := io.BytesIO(), form, **options)
    return buffer.getvalue()


class CoralNet(Server):
    """`sources`: number -> list of (photo's number, name); `photos`: number -> bytes; both may change while it runs."""

    PAGE = 3

    def __init__(self, sources: dict, photos: dict | None = None, sizes: bool = True):
        super().__init__()
        self.sources, self.private, self.sizes, self.robots = sources, set(), sizes, None
        self.photos = photos or {number: jpeg(number) for photos in sources.values() for number, _ in photos}
        self.signed, self.expired = itertools.count(), set()
        self.route(r"/source/(\d+)/browse/images/", self.browse)
        self.route(r"/image/(\d+)/view/", self.view)
        self.route(r"/media/(\d+)\.jpg", self.file)
        self.route(r"/accounts/login/", lambda request: "<form><input type='password' name='password'/></form>")
        self.route(r"/robots\.txt", lambda request: Reply(b"", 404) if self.robots is None else self.robots)

    def page(self, title: str, content: str) -> Reply:
        text = f"<!DOCTYPE html><html><head><title>{html.escape(title)}</title></head><body>{content}</body></html>"
        return Reply(text, headers={"Content-Type": "text/html; charset=utf-8"})

    def browse(self, request) -> Reply:
        number = int(request.match[1])
        if number in self.private:
            return self.page("CoralNet", "<p>Sorry, you don't have permission to view this page.</p>")
        if number not in self.sources:
            return Reply("<html><body>Not found</body></html>", 404)
        photos = sorted(self.sources[number], key=lambda one: one[1].lower())
        at, pages = int(request.query.get("page", ["1"])[0]), max(1, -(-len(photos) // self.PAGE))
        here = photos[(at - 1) * self.PAGE : at * self.PAGE]
        if not here:
            return self.page("A source | CoralNet", "No image results.")
        thumbnails = "".join(
            f'<span class="thumb_wrapper"><a href="/image/{image}/view/"><img class="thumb confirmed" src="/t/{image}" '
            f'title="{html.escape(name)} - Confirmed" alt="{html.escape(name)}" /></a></span>'
            for image, name in here
        )
        first = (at - 1) * self.PAGE + 1
        previous = f'<a href="?page={at - 1}" class="prev-next-page" title="Previous page"> &lt; </a>' if at > 1 else ""
        following = (
            f'<a href="?page={at + 1}" class="prev-next-page" title="Next page"> &gt; </a>' if at < pages else ""
        )
        return self.page(
            "A source - Browse Images | CoralNet",
            f"{thumbnails}<div>Showing {first}-{first + len(here) - 1}\n of {len(photos)}</div>"
            f"{previous}<span>\n Page {at}\n of {pages}</span>{following}",
        )

    def view(self, request) -> Reply:
        number = int(request.match[1])
        names = {image: (name, source) for source, photos in self.sources.items() for image, name in photos}
        if number not in names:
            return Reply("<html><body>Not found</body></html>", 404)
        name, source = names[number]
        size = Image.open(io.BytesIO(self.photos[number])).size if self.sizes is True else self.sizes
        resolution = f"<li>Full resolution: {size[0]} x {size[1]} pixels</li>" if size else ""
        return self.page(
            f"{name} | CoralNet",
            f'<h2><a href="/source/{source}/">A source</a> <a href="/image/{number}/view/">{html.escape(name)}</a></h2>'
            f'<div id="original_image_container" style="display:none;"><img src="/media/{number}.jpg?'
            f'Signature={next(self.signed)}&amp;Expires=60" /></div>'
            f'<div id="scaled_image_container"><img src="/t/{number}" /></div>'
            f"<ul><li>Name: {html.escape(name)}</li>{resolution}</ul>",
        )

    def file(self, request) -> Reply:
        number, signature = int(request.match[1]), request.query["Signature"][0]
        if signature in self.expired:
            return Reply("<Error><Code>AccessDenied</Code></Error>", 403)
        return Reply(self.photos[number], headers={"Content-Type": "image/jpeg", "ETag": f'"{number}"'})
