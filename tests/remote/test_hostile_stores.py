"""Stores that lie: listings without end, and keys that no file can have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from messages import assert_says

from pact_eval.errors import InputError
from pact_eval.runs.remote import copies
from pact_eval.runs.remote.places import log_path, run_folders

pytest.importorskip("obstore")

_PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>
<IsTruncated>false</IsTruncated>{keys}</ListBucketResult>"""
_MORE = "<NextContinuationToken>next</NextContinuationToken>"
_KEY = (
    "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    "<ETag>0</ETag><Size>4</Size></Contents>"
)


class _Store(ThreadingHTTPServer):
    page = ""
    location = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Store

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.received.append(str(self.headers))
        content = self.server.page.encode()
        if self.server.location:
            self.send_response(307)
            self.send_header("Location", self.server.location + self.path)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def served() -> Iterator[_Store]:
    with _Store() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Store]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with served() as server:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_SKIP_SIGNATURE": "true",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize("keys", ["", _KEY.format("rows/a.parquet")])
def test_a_listing_without_end_is_bounded(
    keys: str, store: _Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without keys it is never too long, only too slow."""
    monkeypatch.setattr(copies, "LISTING_SECONDS", 0.25)
    store.page = _PAGE.format(keys=_MORE + keys)
    with pytest.raises(InputError, match=r"listing within 0.25 s"):
        run_folders(["s3://bucket/*"])
    with pytest.raises(InputError, match=r"listing within 0.25 s|at most 10,000 files"):
        log_path("s3://bucket/rows")
    store.page = _PAGE.format(keys="")  # the client left behind ends


@pytest.mark.parametrize(
    "key", ["rows/../../x.parquet", "rows//etc/x.parquet", "rows/a&#10;x.parquet"]
)
def test_a_refused_key_is_named_with_the_reason(key: str, store: _Store) -> None:
    store.page = _PAGE.format(keys=_KEY.format(key))
    with pytest.raises(InputError) as refused:
        log_path("s3://bucket/rows")
    assert "cannot be reached" not in str(refused.value)
    assert "cannot be a path" in str(refused.value)
    assert "x.parquet" in str(refused.value)


def test_a_redirect_to_another_host_is_refused_before_it_gets_a_session_token(
    store: _Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SKIP_SIGNATURE")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"SECRET-{name}")
    with served() as elsewhere:
        elsewhere.page = _PAGE.format(keys=_KEY.format("rows/a.parquet"))
        store.location = f"http://localhost:{elsewhere.server_address[1]}"
        with pytest.raises(InputError) as refused:
            log_path("s3://bucket/rows")
        assert not elsewhere.received
    assert "SECRET-AWS_SESSION_TOKEN" in store.received[0]
    assert_says(refused.value, "redirects to another host", "refused")
    assert "SECRET" not in str(refused.value)
    assert "localhost" not in str(refused.value)


def test_a_redirect_to_another_port_of_the_host_is_followed(store: _Store) -> None:
    """Otherwise the test above would not show that the host is what is refused."""
    with served() as elsewhere:
        elsewhere.page = _PAGE.format(keys="")
        store.location = f"http://127.0.0.1:{elsewhere.server_address[1]}"
        with pytest.raises(InputError, match="no such file"):
            log_path("s3://bucket/rows")
        assert elsewhere.received


def test_behind_a_proxy_the_client_is_left_as_it_is(
    store: _Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/security.md says so. The proxy here is a server that gets the request."""
    store.page = _PAGE.format(keys="")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{store.server_address[1]}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.invalid")
    with pytest.raises(InputError, match="no such file"):
        log_path("s3://bucket/rows")
    assert "store.invalid" in store.received[0]
