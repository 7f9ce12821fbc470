"""A double of the Hugging Face hub: listings at a commit, large files by a redirect to a host of files, ranges."""

import hashlib
import json

from doubles import Reply, Server, redirect

LARGE = 1000  # bytes: from here a file is kept as LFS


class HubServer(Server):
    """The hub: ``hub.put("owner/name", {"path": b"..."})`` makes a commit.

    `gated` repositories ask for a token; with `xet` large files are kept in pieces, as of late.
    """

    def __init__(self):
        super().__init__()
        self.commits, self.gated, self.blobs, self.xet = {}, set(), {}, False
        self.route(r"/api/(datasets|models)/([\w.-]+/[\w.-]+)(?:/revision/([\w.-]+))?", self._listing)
        self.route(r"/(?:(datasets)/)?([\w.-]+/[\w.-]+)/resolve/([\w.-]+)/(.+)", self._file)
        self.route(r"/cdn/(\w+)", lambda request: self.blobs[request.match[1]])

    def put(self, repository: str, files: dict, kind: str = "datasets") -> str:
        files = {path: data if isinstance(data, bytes) else data.encode() for path, data in files.items()}
        known = self.commits.setdefault((kind, repository), {})
        told = repr([repository, sorted((path, hashlib.sha256(data).hexdigest()) for path, data in files.items())])
        commit = hashlib.sha1(told.encode()).hexdigest()
        known[commit] = known["main"] = (commit, files)
        return commit

    def _at(self, kind, repository, revision):
        known = self.commits.get((kind, repository))
        if known is None:
            return Reply(b"", 401, {"X-Error-Message": "Invalid username or password."})
        if revision not in known:
            return Reply(b"", 404, {"X-Error-Code": "RevisionNotFound"})
        return known[revision]

    def _listing(self, request):
        kind, repository, revision = request.match.groups()
        found = self._at(kind, repository, revision or "main")
        if isinstance(found, Reply):
            return found
        commit, files = found
        siblings = []
        for path, data in files.items():
            one = {
                "rfilename": path,
                "size": len(data),
                "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
            }
            if len(data) >= LARGE:
                one["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            siblings.append(one)
        told = {
            "id": repository,
            "modelId": repository,
            "sha": commit,
            "private": False,
            "siblings": siblings,
            "tags": [],
        }
        return Reply(json.dumps(told), 200, {"Content-Type": "application/json"})

    def _file(self, request):
        kind, repository, revision, path = request.match.groups()
        found = self._at(kind or "models", repository, revision)
        if isinstance(found, Reply):
            return found
        if repository in self.gated and "Authorization" not in request.headers:
            return Reply(b"", 403, {"X-Error-Code": "GatedRepo"})
        commit, files = found
        if path not in files:
            return Reply(b"", 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        data = files[path]
        sha, headers = hashlib.sha256(data).hexdigest(), {"X-Repo-Commit": commit}
        if self.xet:  # the same file in pieces, from another host, for those who can
            route = f"{self.url}/api/{kind or 'models'}/{repository}/xet-read-token/{commit}"
            headers |= {"X-Xet-Hash": sha, "X-Xet-Refresh-Route": route}
        if len(data) < LARGE:
            return Reply(data, 200, headers | {"ETag": f'"{hashlib.sha1(b"blob %d" % len(data) + data).hexdigest()}"'})
        self.blobs[sha] = Reply(data, 200, headers | {"ETag": f'"{sha}"'})
        return redirect(
            f"{self.url}/cdn/{sha}", **{"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{sha}"'} | headers
        )
