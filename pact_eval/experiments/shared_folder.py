"""Probe of the nodes of a cluster: the same files, the same versions, and file locks that work.

Steps run on any node, so the folders of the plan and of the experiment are on storage that all
nodes share, at the same path. File locks keep two processes from one step, also on two nodes. The
probe tests each of these on every node before anything starts: a node reads the plan and a stamp,
fails to take the lock that the experiment holds, and writes an answer that the experiment reads.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval.experiments.receipts import installed_version

LOCK: Final = "experiment.lock"
"""Lock of the folder of an experiment, which the experiment holds as long as it runs."""

LATE_SECONDS: Final = 60.0
"""After so long, a file of another node is seen: NFS keeps what it knows of a folder as long."""

_EXPECTED: Final = "expected storage that all nodes share, at the same path"
_FOLDER: Final = "probe"
_STAMP: Final = "stamp"
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Probe:
    """Facts that every node must find.

    Attributes:
        plan: the plan, an absolute path.
        plan_sha256: its hash.
        folder: folder of the experiment, an absolute path.
        stamp: text that this experiment has written there.
        versions: versions of the distributions that results depend on.
    """

    plan: Path
    plan_sha256: str
    folder: Path
    stamp: str
    versions: Mapping[str, str | None]

    def problem_here(self) -> str:
        """Return what this node lacks to run a step; "" if nothing."""
        place = self._answers / _STAMP
        if not place.is_file():
            return f"does not see {place}; {_EXPECTED}"
        if place.read_text(encoding="utf-8") != self.stamp:
            return f"has another folder {self.folder}; {_EXPECTED}"
        here = {name: installed_version(name) for name in self.versions}
        differing = [name for name, version in self.versions.items() if here[name] != version]
        if differing:
            name = differing[0]
            return (
                f"has {name} {here[name] or 'not installed'}; expected {self.versions[name]}, as "
                "where the experiment was started"
            )
        return ""

    def answer(self, node: str) -> str:
        """Look at everything on this node, and answer with a file.

        Args:
            node: identity of the node, which is the name of the file.

        Returns:
            What the node lacks; "" if nothing.
        """
        from filelock import FileLock, Timeout  # slow to import

        if not self.plan.is_file():
            return f"does not see {self.plan}; {_EXPECTED}"
        if sha256_of_file(self.plan) != self.plan_sha256:
            return f"has another file {self.plan}; {_EXPECTED}"
        problem = self.problem_here()
        if problem:
            return problem
        try:
            with FileLock(self.folder / LOCK, timeout=0):
                return (
                    f"takes a file lock in {self.folder} that another node holds; expected storage "
                    "with file locks for all nodes (NFS: without nolock and local_lock; Lustre: "
                    "with flock)"
                )
        except Timeout:
            pass
        try:
            (self._answers / node).write_text(self.stamp, encoding="utf-8")
        except OSError as error:
            return f"cannot write into {self.folder}: {error.strerror}"
        return ""

    def unseen(self, nodes: Collection[str], seconds: float = LATE_SECONDS) -> set[str]:
        """Return the nodes whose answers are not seen here.

        Args:
            nodes: identities of nodes that have answered.
            seconds: the longest wait.
        """
        until = time.monotonic() + seconds
        while True:
            left = {node for node in nodes if not (self._answers / node).is_file()}
            if not left or time.monotonic() > until:
                return left
            time.sleep(_POLL_SECONDS)

    @property
    def _answers(self) -> Path:
        return self.folder / _FOLDER


@contextmanager
def open_probe(plan: Path, folder: Path, distributions: Collection[str]) -> Iterator[Probe]:
    """Write what every node must find, for the duration of the block.

    Args:
        plan: the plan.
        folder: folder of the experiment, which exists.
        distributions: those whose versions must agree.
    """
    versions = {name: installed_version(name) for name in sorted(distributions)}
    stamp = secrets.token_hex(16)
    probe = Probe(plan.absolute(), sha256_of_file(plan), folder.absolute(), stamp, versions)
    answers = probe.folder / _FOLDER
    shutil.rmtree(answers, ignore_errors=True)  # of an experiment that was killed
    answers.mkdir()
    (answers / _STAMP).write_text(stamp, encoding="utf-8")
    try:
        yield probe
    finally:
        shutil.rmtree(answers, ignore_errors=True)
