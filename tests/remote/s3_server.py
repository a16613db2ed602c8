"""A real S3 server over a folder: hadro, which checks signatures. And one that lies."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import hadro
from hadro.storage.base import BucketInfo, ObjectInfo, StorageBackend

ACCESS_KEY = "AKIATESTONLY"
REGION = "eu-west-2"


@dataclass(frozen=True)
class S3:
    """A running server.

    Attributes:
        folder: its buckets, one folder each.
        environment: what a client needs to read it.
    """

    folder: Path
    environment: dict[str, str]

    @property
    def secret(self) -> str:
        """The secret key, which no output may have."""
        return self.environment["AWS_SECRET_ACCESS_KEY"]


def served(folder: Path, **options: object) -> Iterator[S3]:
    """Serve a folder until the generator is closed."""
    secret = secrets.token_hex(20)
    server = hadro.Server(
        data=str(folder),
        host="127.0.0.1",
        region=REGION,
        access_key=ACCESS_KEY,
        secret_key=secret,
        **options,
    )
    with server:
        yield S3(
            folder,
            {
                "AWS_ENDPOINT_URL": server.endpoint,
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": secret,
                "AWS_REGION": REGION,
                "AWS_ALLOW_HTTP": "true",
            },
        )


class Lying(StorageBackend):  # type: ignore[misc] # hadro ships no types
    """Says that a bucket has these keys, with these sizes; each has the same few bytes."""

    def __init__(self, sizes: dict[str, int], content: bytes = b"PAR1") -> None:
        self.sizes = sizes
        self.content = content

    def list_buckets(self) -> list[BucketInfo]:
        return []

    def bucket_exists(self, bucket: str) -> bool:
        return bucket == "bucket"

    def list_objects(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        del bucket
        yield from (self._info(key) for key in sorted(self.sizes) if key.startswith(prefix))

    def head_object(self, bucket: str, key: str) -> ObjectInfo | None:
        del bucket
        return self._info(key) if key in self.sizes else None

    def get_object(
        self, bucket: str, key: str, start: int | None = None, end: int | None = None
    ) -> bytes | None:
        del bucket, key
        return self.content[start : None if end is None else end + 1]

    def _info(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, self.sizes[key], dt.datetime.now(dt.UTC), '"0"')


class Silent(Lying):
    """Is asked, and does not answer for a minute.

    Attributes:
        request_arrived: whether anybody has asked.
    """

    def __init__(self) -> None:
        super().__init__({})
        self.request_arrived = Event()

    def list_objects(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        self.request_arrived.set()
        time.sleep(60)
        return super().list_objects(bucket, prefix)
