"""Helpers of the benchmarks: options, machine description, interleaved timing, tables, sections.

Every benchmark has `--smallest`, with which it takes seconds and does every step once. A test runs
each so (`tests/test_benchmarks.py`). A peer that is not installed is named as not measured.

Contestants take turns, so a busy moment affects all of them alike. Results are medians over turns.
A benchmark whose numbers have a goal in seconds and a peer that does the same work can describe
them as `Row`s and print them with `rows_table`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from records import RECORDS, add_record

__all__ = [
    "NOT_MEASURED",
    "Contest",
    "Peer",
    "Row",
    "Timed",
    "chosen_options",
    "installed",
    "machine",
    "markdown_table",
    "parser",
    "peak_memory",
    "processor",
    "publish",
    "rows_table",
    "versions",
    "write_section",
]

Work = Callable[[], object]

OPTIONAL_PEERS: Final = {"lm-eval": "lm_eval", "mapie": "mapie", "safedecide": "safedecide"}
"""Peers that `make test` does not install, by distribution: the module."""

NOT_MEASURED: Final = "not measured"
"""What a table says of a peer that is not installed."""


@dataclass(frozen=True)
class Peer:
    """A library function that does the same work.

    Attributes:
        name: the library and function.
        run: the work.
        share: the share of our items that it gets; its time is divided by the share.
    """

    name: str
    run: Work
    share: float = 1.0


@dataclass(frozen=True)
class Row:
    """One number of a benchmark.

    Attributes:
        name: what is measured.
        ours: the work.
        goal: seconds, or None.
        peers: peers that do the same work.
    """

    name: str
    ours: Work
    goal: float | None
    peers: Sequence[Peer] = ()


def processor() -> str:
    """Name the processor, and the number of cores that this process may use."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


def machine(device: str = "cpu") -> str:
    """Describe the machine: GPU if one is used, processor, cores, system, Python."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    described = f"{processor()}, {platform.system()}, {python}"
    if device == "cpu":
        return described
    import torch

    return f"{torch.cuda.get_device_name(device)}, {described}"


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # the resource module may return the peak of the parent process
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1_000
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def versions(*packages: str) -> str:
    """Return the versions of packages, and name those that are not installed."""
    installed_versions = []
    for package in packages:
        try:
            installed_versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            installed_versions.append(f"{package} not installed")
    return ", ".join(installed_versions)


def installed(peer: str) -> bool:
    """Return whether a peer is installed."""
    return importlib.util.find_spec(OPTIONAL_PEERS[peer]) is not None


@dataclass(frozen=True)
class Timed:
    """Result of work that measures its own time.

    Attributes:
        seconds: time of the turn.
    """

    seconds: float


class Contest:
    """Contestants that take turns, block after block.

    Args:
        contestants: name -> the work of one turn.
    """

    def __init__(self, contestants: Mapping[str, Work]) -> None:
        self._contestants = dict(contestants)
        self._seconds: dict[str, list[float]] = {name: [] for name in contestants}

    def run(self, blocks: int, *, warm_up: bool = True) -> None:
        """Time every contestant once per block, and say so on stderr.

        Args:
            blocks: turns of each contestant that count.
            warm_up: start with a turn of each that does not count. A single block has none.
        """
        for work in self._contestants.values() if warm_up and blocks > 1 else ():
            work()
        for block in range(1, blocks + 1):
            for name, work in self._contestants.items():
                started = time.perf_counter()
                result = work()
                measured = isinstance(result, Timed)
                seconds = result.seconds if measured else time.perf_counter() - started
                self._seconds[name].append(seconds)
                sys.stderr.write(f"block {block} of {blocks}: {name}: {seconds:.3g} s\n")

    def seconds(self, name: str) -> float:
        """Return the median of a contestant's turns."""
        return statistics.median(self._seconds[name])

    def ratio(self, slow: str, fast: str) -> float:
        """Return the time of `slow` over that of `fast`: the median of the blocks' ratios."""
        return statistics.median(self._ratios(slow, fast))

    def ratio_text(self, slow: str, fast: str, share: float = 1.0) -> str:
        """Return the ratio with that of the least and of the largest block, if there are several.

        Args:
            slow: one contestant.
            fast: another.
            share: of the work that the first did.
        """
        ratios = sorted(ratio / share for ratio in self._ratios(slow, fast))
        text = f"{statistics.median(ratios):.3g}"
        return text if len(ratios) == 1 else f"{text} ({ratios[0]:.3g} to {ratios[-1]:.3g})"

    def _ratios(self, slow: str, fast: str) -> list[float]:
        turns = zip(self._seconds[slow], self._seconds[fast], strict=True)
        return [one / other for one, other in turns]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rows_table(rows: Sequence[Row], blocks: int) -> tuple[str, dict[str, float]]:
    """Time rows and their peers, interleaved.

    Returns:
        A table of medians, goals and ratios; and the ratios by name. A ratio is the peer's time
        over ours, for equal numbers of items.
    """
    contestants: dict[str, Work] = {}
    for row in rows:
        contestants[row.name] = row.ours
        contestants |= {f"{row.name}: {peer.name}": peer.run for peer in row.peers}
    contest = Contest(contestants)
    contest.run(blocks)
    lines = []
    ratios: dict[str, float] = {}
    for row in rows:
        goal = "" if row.goal is None else f"{row.goal:g}"
        first = [row.name, f"{contest.seconds(row.name):.3g}", goal]
        peers = []
        for peer in row.peers:
            name = f"{row.name}: {peer.name}"
            ratio = contest.ratio(name, row.name) / peer.share
            ratios[f"{peer.name.partition(' (')[0]} / ours, {row.name}"] = ratio
            seconds = contest.seconds(name) / peer.share
            shown = contest.ratio_text(name, row.name, peer.share)
            peers.append([peer.name, f"{seconds:.3g}", shown])
        for number, columns in enumerate(peers or [["", "", ""]]):
            lines.append([*(first if number == 0 else ["", "", ""]), *columns])
    heads = ["measured", "ours, s", "goal, s", "peer", "peer, s", "peer / ours"]
    return markdown_table(heads, lines), ratios


def parser(description: str | None, *, blocks: int | None = 5) -> argparse.ArgumentParser:
    """Return a parser with the options that benchmarks share.

    Args:
        description: docstring of the benchmark.
        blocks: usual number of interleaved blocks; None if nothing takes turns.
    """
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if blocks is not None:
        made.add_argument("--blocks", type=int, default=blocks, help="interleaved blocks per row")
    made.add_argument(
        "--write", type=Path, metavar="FILE", help="put the section into FILE, between its markers"
    )
    return made


def chosen_options(made: argparse.ArgumentParser, **smallest: object) -> argparse.Namespace:
    """Add `--smallest` to a parser, and parse the command line.

    Args:
        made: the parser.
        smallest: what `--smallest` takes for options that the command line leaves out.
    """
    made.add_argument(
        "--smallest", action="store_true", help="every step once, in seconds: checks the benchmark"
    )
    if made.parse_args().smallest:
        made.set_defaults(**smallest)
    return made.parse_args()


def write_section(path: Path, name: str, text: str) -> None:
    """Put a section between the markers of its name in a Markdown file.

    Args:
        path: file that has the markers `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
        name: name of the section.
        text: Markdown.

    Raises:
        SystemExit: the file does not have the markers.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, begin_marker, rest = path.read_text(encoding="utf-8").partition(begin)
    _, end_marker, after = rest.partition(end)
    if not begin_marker or not end_marker:
        message = f"{path}: expected the lines {begin} and {end}"
        raise SystemExit(message)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def publish(
    name: str, text: str, path: Path | None, ratios: Mapping[str, float] | None = None
) -> None:
    """Print a section. If a file was given, write it there, and record the ratios.

    Args:
        name: name of the section.
        text: Markdown.
        path: the file, or None.
        ratios: ratio of times by name.
    """
    sys.stdout.write(f"{text}\n")
    if path is None:
        return
    write_section(path, name, text)
    if ratios:
        sys.stdout.write(f"\n{add_record(name, processor(), ratios, RECORDS)}\n")
