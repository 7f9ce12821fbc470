"""CoralNet's public pages: politely asked for, and read by what they say.

What is assumed, from the site's own published templates (github.com/coralnet/coralnet) and from programs that read the
site; the site itself was never reached from here:

- ``/source/<id>/browse/images/`` shows 20 photos a page, by name, each a link to ``/image/<number>/view/`` around a
  thumbnail whose ``alt`` is the photo's name (``title`` in older pages: the name, `` - `` and a status), then
  "Showing 1-20 of 640", "Page 1 of 32" and a link to the next page.
- ``/image/<number>/view/`` has the title "NAME | CoralNet", "Name: NAME", "Full resolution: W x H pixels", and the
  photo in ``#original_image_container``, whose address is of another host, is signed, and expires after some time.
- A private source answers with a page, status 200, that says "you don't have permission to view this page", or with
  the form to sign in. No account is used here, so private sources stay private.

A page that is otherwise is refused (`Failure` of kind ``unexpected``, with the page): nothing on it is guessed.
"""

from __future__ import annotations

import email.utils
import logging
import re
import threading
import time
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from reefcore import __version__
from reefcore.errors import ReefcoreError

logger = logging.getLogger(__name__)

HOST = "https://coralnet.ucsd.edu"
PER_PAGE = 20  # photos on a page, as the site's settings say
AT_ONCE, DELAY, LEAST_DELAY = 2, 1.0, 0.5  # requests at a time; seconds between two starts
MORE = 4  # tries of a host that is there but busy, beyond those of one that is not: half an hour by the usual pauses
LONGEST = 3600  # seconds that the site may ask to wait; if it asks for more, the crawl ends
LARGEST = 256 << 20  # bytes of one answer; the site itself takes photos of up to 30 MB
TERMS = f"""Photos of CoralNet's public sources: before they are fetched
- CoralNet's privacy policy says that all images of public sources are available for the public to browse and download,
  in full resolution. Read it, and what else the site asks of its users: {HOST}/privacy_policy, {HOST}/about/
- The photos stay the work of those who took them. Neither the site nor the release of ReefNet gives a licence for them:
  cite the sources and their owners, ask the owners before any other use, and do not publish the photos again.
- The site is run by a university. This program asks {AT_ONCE} things at a time at most, {DELAY:g} s apart
  unless told otherwise, and says who asks."""


class Failure(ReefcoreError):
    """What a request came to; `kind` is gone, denied, private, unexpected unreachable, busy, stopped."""

    def __init__(self, kind: str, what: str, where: str | None = None, do: str | None = None, body: bytes = b""):
        super().__init__(what, where, do)
        self.kind, self.body = kind, body


@dataclass(frozen=True)
class Listing:
    """A page of a source: number and name of its photos in their order, how many the source has, the next page."""

    photos: list[tuple[int, str]]
    total: int | None  # None where the page does not say
    following: str


@dataclass(frozen=True)
class View:
    """The page of a photo: its name, the address of its file, and width and height in pixels (None: unsaid)."""

    name: str
    address: str
    size: tuple[int, int] | None


def agent(contact: str) -> str:
    """Say who asks: project, version, and where its user can be reached.

    Raises
    ------
    ReefcoreError
        Where the contact is no mail address and no web address.
    """
    if not re.fullmatch(r"(?=[!-~]+$)([^\s@<>()]+@[^\s@<>()]+\.[^\s@<>()]+|https?://[^\s()]+)", contact):
        raise ReefcoreError(
            f"the site is told who asks, and {contact!r} is no address" if contact else "the site is told who asks",
            do="give a mail or web address of yours by --contact or the environment variable REEFCORE_CONTACT",
        )
    return f"reefcore/{__version__} (the ReefNet Companion; +{contact})"


class Client:
    """Asks slowly: few requests at a time, a delay between their starts, and longer pauses where the host wants them.

    Parameters
    ----------
    agent : str
        The user agent, see `agent`.
    host : str
    delay : float
        Seconds between the starts of two requests, whichever host they go to; at least `LEAST_DELAY` but on this
        computer itself. ``robots.txt`` may ask for more (`obey`).
    at_once : int
        At most 2: as many threads may use it at a time.
    timeout : (float, float)
        Seconds to connect, and without a byte.
    tries : int
        Of one request.
    back_off : float
        Seconds after the first failure, doubled after each further one.
    """

    def __init__(
        self,
        agent: str,
        host: str = HOST,
        delay: float = DELAY,
        at_once: int = AT_ONCE,
        timeout: tuple[float, float] = (15, 30),
        tries: int = 5,
        back_off: float = 4.0,
    ):
        here = urlsplit(host).hostname in ("127.0.0.1", "localhost")
        if not 1 <= at_once <= AT_ONCE:
            raise ReefcoreError(f"{at_once} requests at a time", do=f"give 1 to {AT_ONCE}: the site serves many others")
        if not (delay >= LEAST_DELAY or (here and delay >= 0)):
            raise ReefcoreError(
                f"a delay of {delay:g} s between requests is too short", do=f"give {LEAST_DELAY:g} s or more"
            )
        self.host, self.delay, self.at_once, self.timeout = host.rstrip("/"), delay, at_once, timeout
        self.tries, self.back_off, self.agent, self.stop = tries, back_off, agent, threading.Event()
        self._lock, self._local, self._next, self._until = threading.Lock(), threading.local(), 0.0, 0.0

    def _session(self):
        import requests

        if not hasattr(self._local, "session"):  # a session is of one thread
            self._local.session = requests.Session()
            self._local.session.headers.update({"User-Agent": self.agent, "Accept-Encoding": "identity"})
            self._local.session.max_redirects = 5
        return self._local.session

    def _turn(self) -> None:
        """Wait until this request may start."""
        with self._lock:
            mine = self._next = max(time.monotonic(), self._next + self.delay)
        while (left := max(mine, self._until) - time.monotonic()) > 0 or self.stop.is_set():
            if self.stop.wait(left):
                raise Failure("stopped", "this was stopped")

    def _pause(self, seconds: float) -> None:
        """Let no request start for some time."""
        self._until = max(self._until, time.monotonic() + seconds)

    def obey(self) -> None:
        """Read the host's rules for programs (``robots.txt``) and keep to its delay.

        Raises
        ------
        Failure
            Where they forbid the pages of photos, or cannot be read.
        """
        from urllib.robotparser import RobotFileParser

        rules = RobotFileParser()
        try:
            body, _ = self.get(f"{self.host}/robots.txt")
        except Failure as failure:
            if failure.kind not in ("gone", "denied"):  # without rules nothing is forbidden (RFC 9309)
                raise
            return
        if b"<html" in body[:1000].lower():
            return
        rules.parse(body.decode("utf-8", "replace").splitlines())
        for path in ("/source/1/browse/images/", "/image/1/view/"):
            if not rules.can_fetch(self.agent, self.host + path):
                do = "ask those who run it; photos that you have may be put into the folder by hand"
                raise Failure("busy", f"the site's robots.txt asks programs to keep away from {path}", self.host, do)
        if (asked := float(rules.crawl_delay(self.agent) or 0)) > self.delay:
            logger.warning("%s asks for %g s between requests, so all takes longer.", self.host, asked)
            self.delay = asked

    def get(self, url: str) -> tuple[bytes, str]:
        """Fetch an address; return its bytes and where they came from in the end.

        What is cut off goes on where it ended if the host can do that (strong ETag and ranges), else anew.

        Raises
        ------
        Failure
        """
        import requests

        data, tag, trouble, kind = bytearray(), "", "", ""
        for attempt in range(self.tries + MORE):
            if attempt >= self.tries and kind != "busy":
                break
            if attempt:
                self._pause(self.back_off * 2 ** (attempt - 1))
            self._turn()
            answered, part, kind = False, {}, "unreachable"
            if data and tag:
                part = {"Range": f"bytes={len(data)}-", "If-Range": tag}
            try:
                with self._session().get(url, headers=part, timeout=self.timeout, stream=True) as reply:
                    code, answered = reply.status_code, True
                    if code in (429, 503):
                        kind, trouble = "busy", f"the host asks for fewer requests ({code})"
                        if (asked := _seconds(reply.headers.get("Retry-After"))) > LONGEST:
                            raise Failure("busy", f"{trouble}, and to wait for {asked / 3600:.1f} hours", _bare(url))
                        self._pause(asked)
                        continue
                    trouble = f"the host has an error ({code})"
                    if code >= 500 or code == 416:
                        data.clear()
                        continue
                    if code in (401, 403):
                        raise Failure("denied", f"the host refuses this ({code})", _bare(url))
                    if code in (404, 410):
                        raise Failure("gone", f"there is nothing at this address ({code})", _bare(url))
                    if not (code == 206 and reply.headers.get("Content-Range", "").startswith(f"bytes {len(data)}-")):
                        data.clear()
                        if code != 200:
                            raise Failure("unexpected", f"the host answers with the status {code}", _bare(url))
                    tag = "" if (tag := reply.headers.get("ETag", "")).startswith("W/") else tag
                    whole = len(data) + int(reply.headers.get("Content-Length") or -1)
                    for piece in reply.iter_content(1 << 13):
                        data += piece
                        if len(data) > LARGEST:
                            raise Failure("unexpected", f"the answer has more than {LARGEST >> 20} MB", _bare(url))
                        if self.stop.is_set():
                            raise Failure("stopped", "this was stopped")
                    if "Content-Length" in reply.headers and len(data) != whole:
                        trouble = f"the answer has {len(data):,} bytes of {whole:,}"
                        continue
                    return bytes(data), reply.url
            except requests.TooManyRedirects:
                trouble = "it is redirected in a circle"
            except requests.RequestException as error:
                silent = isinstance(error, requests.Timeout) or "timed out" in str(error)
                lost = "the connection was lost" if answered else "the host cannot be reached"
                trouble = "the host is silent" if silent else lost
        raise Failure(kind, f"{trouble}, {self.tries + MORE * (kind == 'busy')} times", _bare(url))

    def page(self, path: str):
        """Fetch a page of the host; return it as BeautifulSoup.

        Raises
        ------
        Failure
            Also where the page is the form to sign in, or says that it is not for all.
        """
        from bs4 import BeautifulSoup

        url = urljoin(f"{self.host}/", path)
        body, last = self.get(url)
        soup = BeautifulSoup(body, "html.parser")
        if "/accounts/login" in last or soup.find("input", type="password"):
            raise Failure("private", "this page asks to sign in, so it is not public", url)
        if "have permission to view this page" in _text(soup):
            raise Failure("private", "this page says that it is not public", url)
        if urlsplit(last).netloc != urlsplit(url).netloc or soup.find() is None:
            raise unexpected(f"no page of the site came, but one of {_bare(last)}", url, soup)
        return soup


def unexpected(what: str, url: str, soup="") -> Failure:
    """Say that a page is not as this program expects."""
    return Failure("unexpected", f"this page is not as expected: {what}", url, body=str(soup).encode())


def _bare(url: str) -> str:
    """Leave the signature out of an address."""
    return url.partition("?")[0]


def _text(soup) -> str:
    return " ".join(soup.get_text(" ").replace("\u2019", "'").split())


def _seconds(said: str | None) -> float:
    """Read Retry-After: seconds, or a date."""
    if not said:
        return 0.0
    if said.strip().isdigit():
        return float(said)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def listing(soup, url: str) -> Listing:
    """Read a page of a source.

    Raises
    ------
    Failure
        Where it has photos without a name, or shows neither photos nor that there are none, or leads back.
    """
    photos = {}
    for link in soup.find_all("a", href=re.compile(r"/image/\d+/view/?$")):
        if (thumbnail := link.find("img")) is None:
            continue
        title = str(thumbnail.get("title") or "")
        name = str(thumbnail.get("alt") or title.rpartition(" - ")[0] or title).strip()
        if not name:
            raise unexpected("a photo without a name", url, soup)
        photos[int(re.search(r"/image/(\d+)/", link["href"])[1])] = name
    text = _text(soup)
    shown = re.search(r"Showing ([\d,]+) ?- ?([\d,]+) of ([\d,]+)", text)
    first, last, total = (int(part.replace(",", "")) for part in shown.groups()) if shown else (None, None, None)
    if not photos and "No image results" not in text:
        raise unexpected("it shows no photos and does not say that there are none", url, soup)
    if shown and last - first + 1 != len(photos):
        raise unexpected(f"it says that it shows {last - first + 1} photos and shows {len(photos)}", url, soup)
    following = ""
    for link in soup.find_all("a", href=True):
        words = f"{link.get('title') or ''} {' '.join(link.get('rel') or [])}".lower()
        if re.search(r"\bnext\b", words) or link.get_text(strip=True) in (">", "Next", "Next >", "»"):
            following = urljoin(url, link["href"])
            break
    at = re.search(r"Page (\d+) of (\d+)", text)
    more = at and int(at[1]) < int(at[2])
    if (more and not following) or (shown and last < total and not following):
        raise unexpected("it is not the last page and has no link to the next", url, soup)
    if following and (following == url or urlsplit(following).path != urlsplit(url).path):
        raise unexpected("the link to the next page leads elsewhere", url, soup)
    return Listing(list(photos.items()), total, following)


def view(soup, url: str) -> View:
    """Read the page of a photo.

    Raises
    ------
    Failure
        Where its name or the address of its file is not found.
    """
    text = _text(soup)
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    name = re.sub(r"\s*\|\s*CoralNet\s*$", "", title) if re.search(r"\|\s*CoralNet\s*$", title) else ""
    if not name:
        named = soup.find("li", string=re.compile(r"^\s*Name:"))
        name = named.get_text(" ", strip=True).partition(":")[2].strip() if named else ""
    if not name:
        raise unexpected("it does not say the name of its photo", url, soup)
    whole = soup.find(id="original_image_container") or soup.find(
        lambda tag: (
            any("original" in word for word in [tag.get("id") or "", *(tag.get("class") or [])]) and tag.find("img")
        )
    )
    image = whole.find("img", src=True) if whole else None
    if image is None:
        raise unexpected("it does not show where its photo is", url, soup)
    address = urljoin(url, image["src"])
    if urlsplit(address).scheme not in ("http", "https"):
        raise unexpected("the address of its photo is none", url, soup)
    size = re.search(r"Full resolution:\s*(\d+)\s*[x×]\s*(\d+)", text)
    return View(name, address, (int(size[1]), int(size[2])) if size else None)
