"""What the record keeps of a command: its output on every surface, its files, its figures.

Paths, times, versions and durations are masked, because they differ between two machines.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import click
import numpy as np
import polars as pl
from click.testing import CliRunner
from matplotlib.artist import Artist
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text
from scoring.servers.loopback import serving, systemone

import pact_eval
import pact_fixtures
from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation
from pact_eval.results import Framed

ROOT: Final = Path(__file__).resolve().parents[2]
INPUTS: Final = Path(__file__).with_name("inputs")
FIXTURES: Final = Path(pact_fixtures.__file__).parent
WIDTHS: Final = ("60", "80", "160")

_VOLATILE: Final = {
    *("created", "finished", "started", "registered_at", "versions", "resumed_with_versions"),
    *("command_line", "wall_seconds", "seconds", "provenance_sha256", "lock_sha256"),
}
"""Keys of JSON whose values differ between two runs of one command."""

_MASKS: Final = (
    (re.compile(rf"\b{re.escape(version('pact-eval'))}\b"), "<version>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d| UTC)?"), "<time>"),
)
_PYTHON: Final = "python "
_SLOW: Final = ("paper", "probe", "score")
_TEXTS: Final = {".csv", ".jsonl", ".md", ".sarif", ".tex", ".toml", ".tsv", ".txt"}
_DRAWN: Final = {".pdf", ".png", ".svg"}


@dataclass(frozen=True)
class Case:
    """Commands in one folder.

    Attributes:
        name: name of its file in the record.
        commands: words of `pact-eval`, or of `pact-audit` after "audit"; after "python", an
            expression with the names of `pact_eval`, and settings FEW. See `surfaces`.
        make: function of `inputs.py` that made the stored inputs of the case; "" if it has none.
        inputs: name of the case whose stored inputs are used. Default: its own.
        fixtures: folders that are copied into the folder, relative to `pact_fixtures`.
        widths: columns of the terminal.
    """

    name: str
    commands: Sequence[str]
    make: str = ""
    inputs: str = ""
    fixtures: Sequence[str] = ()
    widths: Sequence[str] = WIDTHS

    @property
    def archive(self) -> Path:
        """The file of the stored inputs."""
        return INPUTS / f"{self.inputs or self.name}.tar.xz"


def parsed(command: str) -> tuple[str, click.Group, list[str]]:
    """Return the name of the program, the program, and its arguments."""
    words = shlex.split(command)
    if words[0] == "audit":
        return "pact-audit", audit, words[1:]
    return "pact-eval", evaluation, words


def surfaces(command: str, widths: Sequence[str] = WIDTHS) -> list[str]:
    """Return where the output of a command is recorded: "json", and widths of the terminal.

    Pages, papers, scorings and CI formats are recorded once: they take seconds, or have no width.
    A result of the Python API has the one surface "python".
    """
    if command.startswith(_PYTHON):
        return ["python"]
    _, program, words = parsed(command)
    found = program.get_command(click.Context(program), words[0])
    options = {name for parameter in found.params for name in parameter.opts} if found else set()
    as_json = ["json"] if "--json" in options and not {"--format", "--help"} & {*words} else []
    once = {"--html", "--format", "--help"} & {*words} or words[0] in _SLOW
    return as_json or ["80"] if once else [*as_json, *widths]


def outcomes(
    case: Case, commands: Sequence[str] | None = None, only: str | None = None
) -> dict[str, Any]:
    """Run commands of a case in a new folder, and return what the record keeps of each.

    Args:
        case: the case.
        commands: those to run, in their order. Default: all.
        only: the one surface to run them on. Default: all.
    """
    with _folder() as folder:
        _put_inputs(case, folder)
        kept = {}
        for command in case.commands if commands is None else commands:
            names = [only] if only else surfaces(command, case.widths)
            kept[command] = _outcome(command, names, folder)
        return kept


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder whose name has always the same length, because texts are wrapped."""
    folder = Path(tempfile.mkdtemp(prefix="golden-", dir="/tmp"))
    try:
        with chdir(folder):
            yield folder
    finally:
        shutil.rmtree(folder)


def _put_inputs(case: Case, folder: Path) -> None:
    for name in case.fixtures:
        shutil.copytree(FIXTURES / name, folder / Path(name).name)
    if case.make or case.inputs:
        with tarfile.open(case.archive) as archive:
            archive.extractall(folder, filter="data")


def _outcome(command: str, names: Sequence[str], folder: Path) -> dict[str, Any]:
    before = _contents(folder)
    kept: dict[str, Any] = {}
    for number, name in enumerate(names):
        if number:
            _restore(folder, before)
        with kept_figures() as figures:
            run = _result if command.startswith(_PYTHON) else _run
            kept[name] = run(command, name, folder)
        if not number:
            after = _contents(folder)
            written = {path: raw for path, raw in after.items() if before.get(path) != raw}
            kept["files"] = {path: _file(path, raw, folder) for path, raw in written.items()}
            kept["files"] |= dict.fromkeys(before.keys() - after.keys(), "removed")
            kept["figures"] = figures
    return {name: value for name, value in kept.items() if value}


def _run(command: str, surface: str, folder: Path) -> dict[str, Any]:
    name, program, words = parsed(command)
    env = {"COLUMNS": "80", "PACT_EVAL_CONFIG": "", "CI": None}
    if surface == "json":
        words = [*words, "--json"]
    else:
        env["COLUMNS"] = surface
    runner = CliRunner(env=env)
    with (
        _server(words) as words,
        patch.object(sys, "argv", [name, *words]),  # runs record it
        patch("huggingface_hub.constants.HF_HUB_OFFLINE", new=True),  # read at import, once
    ):
        result = runner.invoke(program, words, prog_name=name)
    crashed = result.exception is not None and not isinstance(result.exception, SystemExit)
    return {
        "crash": _masked(repr(result.exception), folder) if crashed else None,
        "exit": result.exit_code,
        "stdout": _json_or_lines(result.stdout, folder) if surface == "json" else
        _lines(result.stdout, folder),
        "stderr": _lines(result.stderr, folder),
    }  # fmt: skip


def _result(command: str, surface: str, folder: Path) -> dict[str, Any]:
    """Evaluate an expression with the names of the API, and return how its result is shown."""
    names = {name: getattr(pact_eval, name) for name in pact_eval.__all__}
    names["FEW"] = pact_eval.Settings(resamples=300)
    try:
        result = eval(command.removeprefix(_PYTHON), names)  # noqa: S307 -- of cases.toml
        shown: dict[str, Any] = {
            "repr": _masked(repr(result), folder),
            "text": _lines(str(result), folder),
            "html": _page(result._repr_html_(), folder),
            "json": _json_or_lines(json.dumps(result.to_json()), folder),
        }
        if isinstance(result, Framed):
            shown["frame"] = _json_or_lines(result.frame().write_json(), folder)
    except Exception as error:  # noqa: BLE001 -- any crash is named
        return {"crash": _masked(repr(error), folder)}
    return shown


@contextmanager
def _server(words: Sequence[str]) -> Iterator[list[str]]:
    """Put the address of a server that answers into the words, if they ask for one."""
    if "ADDRESS" not in words:
        yield [*words]
        return
    with serving(systemone) as server:
        yield [server.url if word == "ADDRESS" else word for word in words]


def _contents(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _restore(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Undo what a command wrote; folders that it made go too, because some must be new."""
    for path in sorted(folder.rglob("*"), reverse=True):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.is_file() and name not in contents:
            path.unlink()
    for name, raw in contents.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != raw:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)


# Texts and files.


def _masked(text: str, folder: Path) -> str:
    for path, name in ((folder, "<work>"), (ROOT, "<repository>"), (Path.home(), "<home>")):
        text = text.replace(str(path), name)
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text


def _lines(text: str, folder: Path) -> list[str]:
    return _masked(text, folder).splitlines()


def _json_or_lines(text: str, folder: Path) -> Any:
    try:
        return _masked_json(json.loads(text), folder)
    except ValueError:
        return _lines(text, folder)


def _is_volatile(key: str, value: Any) -> bool:
    """Return whether a value is of this moment; the digest of a report has the hash of run.json."""
    return key in _VOLATILE or (key == "digest" and isinstance(value, dict))


def _masked_json(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {
            key: f"<{key}>" if _is_volatile(key, part) else _masked_json(part, folder)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [_masked_json(part, folder) for part in value]
    return _masked(value, folder) if isinstance(value, str) else value


def _file(name: str, raw: bytes, folder: Path) -> Any:
    """Return what the record keeps of a file that a command wrote."""
    suffix = Path(name).suffix
    if suffix in {".json", ".lock"}:
        layout = re.sub(r'"(?:[^"\\]|\\.)*"|[^\s{}\[\],:]+', "v", raw.decode())
        return {"json": _json_or_lines(raw.decode(), folder), "layout": _sha256(layout.encode())}
    if suffix == ".parquet":
        frame = pl.read_parquet(io.BytesIO(raw))
        rows = {name: column.to_list() for name, column in frame.to_dict().items()}
        return {"sha256": _sha256(raw), "schema": str(frame.schema), "rows": rows}
    if suffix == ".html":
        return _page(raw.decode(), folder)
    if suffix in _TEXTS or not suffix:
        return _lines(raw.decode(), folder)
    return "figure" if suffix in _DRAWN else _sha256(raw)


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


# Pages.


def _page(text: str, folder: Path) -> dict[str, Any]:
    reader = _PageReader(folder)
    reader.feed(text)
    return {"dom": reader.lines, "data": reader.data}


class _PageReader(HTMLParser):
    """Reads a page as lines: a tag with its attributes, or a text. Ids are numbered.

    Of the figures of matplotlib the texts are kept: their data are recorded at their source. Of
    styles, scripts and packed blocks the hash is kept.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.lines: list[str] = []
        self.data: dict[str, Any] = {}
        self.ids: dict[str, str] = {}
        self.block: str | None = None
        self.drawing = 0

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Add a line for the tag."""
        known = dict(attrs)
        if self.drawing or (tag == "svg" and known.get("role") == "img"):
            self.drawing += tag == "svg"
            if self.drawing > 1 or tag != "svg":
                return
            known = {"aria-label": known.get("aria-label")}
        parts = [f"{name}={self._id(name, value)}" for name, value in known.items()]
        self.lines.append(f"<{' '.join([tag, *parts])}>")
        if tag in {"script", "style"}:
            self.block = known.get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        """Leave a figure."""
        self.drawing -= bool(self.drawing) and tag == "svg"
        self.block = None

    def handle_data(self, data: str) -> None:
        """Add a text, or keep a block."""
        if self.block is None:
            self.lines += _lines(data.strip(), self.folder)
        elif data.startswith("{"):
            self.data[self.block] = _masked_json(json.loads(data), self.folder)
        else:
            self.data[self.block] = _sha256(data.encode())

    def _id(self, name: str, value: str | None) -> str:
        if name in {"id", "for"} or name.startswith("aria-") or (value or "").startswith("#"):
            key = (value or "").removeprefix("#")
            if name == "id":
                self.ids.setdefault(key, f"#{len(self.ids)}")
            return self.ids.get(key, _masked(value or "", self.folder))
        return _masked(value or "", self.folder)


# Figures.


@contextmanager
def kept_figures() -> Iterator[list[Any]]:
    """Keep the data of every figure that is saved."""
    kept: list[Any] = []
    save = Figure.savefig

    def savefig(figure: Any, *args: Any, **options: Any) -> None:
        kept.append(_figure(figure) | {"metadata": options.get("metadata")})
        save(figure, *args, **options)

    with patch.object(Figure, "savefig", savefig):
        yield kept


def _figure(figure: Any) -> dict[str, Any]:
    insets = [child for axes in figure.axes for child in axes.child_axes]
    return {
        "inches": _numbers(figure.get_size_inches()),
        "axes": [_axes(axes) for axes in (*figure.axes, *insets)],
        "legends": [_texts(legend.get_texts()) for legend in figure.legends],
        "texts": _texts(figure.texts),
        "fonts": _fonts(figure),
    }


def _fonts(figure: Any) -> list[list[Any]]:
    """Return every text with its font, those of axes, ticks and legends too."""
    texts = [text for text in figure.findobj(Text) if text.get_text()]
    found = {(one.get_text(), *one.get_fontfamily(), one.get_fontsize()) for one in texts}
    return sorted(map(list, found), key=str)


def _texts(texts: Sequence[Any]) -> list[str]:
    return [text.get_text() for text in texts]


def _axes(axes: Any) -> dict[str, Any]:
    legend = axes.get_legend()
    artists = (*axes.lines, *axes.patches, *axes.collections, *axes.images, *axes.texts)
    return {
        "position": [round(float(bound), 6) for bound in axes.get_position().bounds],
        "title": [axes.get_title(loc) for loc in ("left", "center", "right")],
        "labels": [axes.get_xlabel(), axes.get_ylabel()],
        "limits": [*map(float, (*axes.get_xlim(), *axes.get_ylim()))],
        "scales": [axes.get_xscale(), axes.get_yscale()],
        "ticks": [_texts(axes.get_xticklabels()), _texts(axes.get_yticklabels())],
        "legend": _texts(legend.get_texts()) if legend else [],
        "artists": [_artist(artist) for artist in artists if artist.get_visible()],
    }  # fmt: skip


_LOOKS: Final = (
    *("color", "facecolor", "edgecolor", "linestyle", "linewidth", "alpha"),
    *("marker", "markersize", "sizes", "fontfamily", "fontsize"),
)


def _artist(artist: Any) -> dict[str, Any]:
    kept: dict[str, Any] = {"is": type(artist).__name__, "label": artist.get_label()}
    for name in _LOOKS:
        getter = getattr(artist, f"get_{name}", None)
        if getter is not None:
            kept[name] = _look(name, getter())
    if kept["label"].startswith("_child"):
        del kept["label"]
    return kept | {name: _numbers(values) for name, values in _data(artist).items()}


def _look(name: str, value: Any) -> Any:
    if name.endswith("color") and not isinstance(value, str):
        return [to_hex(one, keep_alpha=True) for one in np.atleast_2d(np.asarray(value))]
    return _numbers(value) if isinstance(value, (np.ndarray, list, tuple)) else value


def _data(artist: Artist) -> dict[str, Any]:
    made = {}
    for name in ("xydata", "xy", "width", "height", "offsets", "segments", "array", "text"):
        getter = getattr(artist, f"get_{name}", None)
        if getter is not None:
            made[name] = getter()
    if isinstance(artist, Text):
        made["position"] = artist.get_position()
    if isinstance(artist, Patch) and "xy" not in made:  # the steps of a histogram
        made["path"] = artist.get_path().vertices
    if hasattr(artist, "get_paths"):
        made["paths"] = [path.vertices for path in artist.get_paths()]
    return made


def _numbers(value: Any) -> Any:
    if isinstance(value, np.ma.MaskedArray):
        return _numbers(np.ma.filled(value, np.nan))
    if isinstance(value, (np.ndarray, list, tuple)):
        return [_numbers(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
