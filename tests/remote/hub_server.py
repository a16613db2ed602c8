"""A server in place of the Hugging Face Hub: repositories are folders, their commits are given.

It has the addresses that the client of the Hub calls, and answers as the Hub does: `api/models` and
`api/datasets` with the commit and the files of a revision, `tree`, and `resolve` with ETag,
`X-Repo-Commit` and ranges. Faults of a real Hub and lies of a hostile one are switched on.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_COMMIT = re.compile(r"[0-9a-f]{40}")
_API = re.compile(
    r"/api/(models|datasets)/([^/]+/[^/]+?)(?:/(revision|tree)/(refs/\w+/[^/]+|[^/]+)(?:/(.*))?)?"
)
_RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/(refs/\w+/[^/]+|[^/]+)/(.+)")
INVALID = "Invalid credentials in Authorization header"


def commit_of(text: str) -> str:
    """Return 40 hex digits."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@dataclass
class Repository:
    """A repository: a folder for each commit, and what branches and tags stand for.

    Attributes:
        folders: folder with the files, by commit.
        revisions: commit, by branch or tag.
        token: the only token that may read it; None lets everybody read it.
        gated: whether access to files must be granted; everybody may list them.
        listed: paths that the listing has and no folder holds.
    """

    folders: dict[str, Path] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    gated: bool = False
    listed: tuple[str, ...] = ()

    def add(self, folder: Path, *revisions: str) -> str:
        """Add a commit with the files of a folder; return it."""
        commit = commit_of(f"{folder} {len(self.folders)}")
        self.folders[commit] = folder
        self.revisions |= dict.fromkeys(revisions or ("main",), commit)
        return commit


class Hub(ThreadingHTTPServer):
    """The server.

    Attributes:
        repositories: by `models/owner/name` and `datasets/owner/name`.
        status: status of every reply; None answers.
        cut: number of bytes after which the reply with a file ends; None sends all of it.
        elsewhere: address of another server that files are redirected to; "" sends them.
        tokens: the header Authorization of every request, in order.
        requests: method and path of every request, in order.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.status: int | None = None
        self.cut: int | None = None
        self.elsewhere = ""
        self.tokens: list[str | None] = []
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, name: str) -> Repository:
        """Add a repository, such as `datasets/owner/name`."""
        return self.repositories.setdefault(name, Repository())

    def sent(self) -> list[str]:
        """Return the files whose bytes were asked for."""
        return [request.rpartition("/resolve/")[2].partition("/")[2] for request in self.requests
                if request.startswith("GET") and "/resolve/" in request]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        self.server.tokens.append(self.headers.get("Authorization"))
        if self.server.status is not None:
            self.reply(self.server.status, b"{}")
        elif match := _API.fullmatch(path):
            self.answer_api(f"{match[1]}/{match[2]}", match[3], match[4] or "main", match[5] or "")
        elif match := _RESOLVE.fullmatch(path):
            self.answer_file(f"{match[1] or 'models/'}{match[2]}", match[3], match[4])
        else:
            self.refuse(404, "RepoNotFound")

    def folder(self, name: str, revision: str) -> tuple[str, Path, Repository] | None:
        """Return commit and folder of a revision; None after the reply that says what is wrong."""
        repository, header = self.server.repositories.get(name), self.headers.get("Authorization")
        if repository is None:
            self.refuse(401 if header is None else 404, "RepoNotFound")
        elif repository.token is not None and header is None:
            self.refuse(401, "RepoNotFound")
        elif repository.token is not None and header != f"Bearer {repository.token}":
            self.refuse(401, None, INVALID)
        else:
            commit = repository.revisions.get(revision, revision)
            if commit in repository.folders:
                return commit, repository.folders[commit], repository
            self.refuse(404, "RevisionNotFound")
        return None

    def answer_api(self, name: str, what: str | None, revision: str, inside: str) -> None:
        place = self.folder(name, revision)
        if place is None:
            return
        commit, folder, repository = place
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        names = [*(path.relative_to(folder).as_posix() for path in files), *repository.listed]
        if what != "tree":
            siblings = [{"rfilename": file, "size": _size(folder / file)} for file in names]
            value = {"id": name.partition("/")[2], "sha": commit, "siblings": siblings}
            self.reply(200, json.dumps(value).encode())
        elif "recursive=" in self.path.lower():
            entries = [_entry(folder, file) for file in names if file.startswith(inside)]
            self.reply(200, json.dumps(entries).encode())
        elif (folder / inside).is_dir():
            here = [path.relative_to(folder).as_posix() for path in (folder / inside).iterdir()]
            self.reply(200, json.dumps([_entry(folder, path) for path in sorted(here)]).encode())
        else:
            self.refuse(404, "EntryNotFound")

    def answer_file(self, name: str, revision: str, file: str) -> None:
        place = self.folder(name, revision)
        if place is None:
            return
        commit, folder, repository = place
        if repository.gated:
            self.refuse(403, "GatedRepo")
            return
        if not (folder / file).is_file():
            self.refuse(404, "EntryNotFound")
            return
        content = (folder / file).read_bytes()
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": commit,
            "Accept-Ranges": "bytes",
        }
        if self.server.elsewhere:
            headers |= {"Location": self.server.elsewhere + self.path}
            headers |= {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(content))}
            self.reply(302, b"", headers)
            return
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if match is None:
            self.reply(200, content, headers)
            return
        first, last = int(match[1]), int(match[2] or len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self.reply(206, content[first : last + 1], headers)

    def refuse(self, status: int, code: str | None, message: str | None = None) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self.reply(status, b"{}", {key: text for key, text in headers.items() if text is not None})

    def reply(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.server.cut if "/resolve/" in self.path else None
        self.wfile.write(content[:cut])
        if cut is not None and cut < len(content):
            self.wfile.flush()
            self.close_connection = True

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 4


def _entry(folder: Path, name: str) -> dict[str, Any]:
    is_folder = (folder / name).is_dir()
    return {
        "type": "directory" if is_folder else "file",
        "oid": commit_of(name),
        "size": 0 if is_folder else _size(folder / name),
        "path": name,
    }


@contextmanager
def served() -> Iterator[Hub]:
    """Serve until the block ends."""
    with Hub() as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        yield hub
        hub.shutdown()
