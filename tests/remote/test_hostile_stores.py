"""Stores that lie: listings without end, and keys that no file can have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pact_eval.errors import InputError
from pact_eval.runs.remote import copies, log_path, run_folders

pytest.importorskip("obstore")

_PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>
<IsTruncated>{more}</IsTruncated><NextContinuationToken>next</NextContinuationToken>{keys}
</ListBucketResult>"""
_KEY = (
    "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    "<ETag>0</ETag><Size>4</Size></Contents>"
)


class _Store(ThreadingHTTPServer):
    page = ""


class _Handler(BaseHTTPRequestHandler):
    server: _Store

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        content = self.server.page.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Store]:
    with _Store(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_SKIP_SIGNATURE": "true",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield server
        server.shutdown()


@pytest.mark.parametrize("keys", ["", _KEY.format("rows/a.parquet")])
def test_a_listing_without_end_is_bounded(
    keys: str, store: _Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without keys it is never too long, only too slow."""
    monkeypatch.setattr(copies, "LISTING_SECONDS", 1.0)
    store.page = _PAGE.format(more="true", keys=keys)
    with pytest.raises(InputError, match=r"has not ended its listing within 1 s"):
        run_folders(["s3://bucket/*"])
    with pytest.raises(InputError, match=r"has not ended|expected at most 10,000 files"):
        log_path("s3://bucket/rows")
    store.page = _PAGE.format(more="false", keys="")  # the client left behind ends


@pytest.mark.parametrize(
    "key", ["rows/../../x.parquet", "rows//etc/x.parquet", "rows/a&#10;x.parquet"]
)
def test_a_refused_key_is_named_with_the_reason(key: str, store: _Store) -> None:
    store.page = _PAGE.format(more="false", keys=_KEY.format(key))
    with pytest.raises(InputError) as refused:
        log_path("s3://bucket/rows")
    assert "cannot be reached" not in str(refused.value)
    assert "which cannot be a path" in str(refused.value)
    assert "x.parquet" in str(refused.value)
