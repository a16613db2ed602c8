"""`pact-eval init`: write a `pact.toml` from the contents of the folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_cli.commands import command
from pact_cli.config import NAME, find_config
from pact_cli.console import tell
from pact_eval._files import read_json, write_atomically
from pact_eval.data.files import dataset_files, read_manifest
from pact_eval.errors import InputError
from pact_eval.hub.names import is_hub_id
from pact_eval.models.folders import ADAPTER_CONFIG, SCHEMA_CONFIG, named_base_model
from pact_eval.runs.provenance import read_provenance
from pact_reports.figures.style import NEUTRAL


@command(reads_settings=False)
def init() -> None:
    """Write a pact.toml from what is in this folder.

    It looks for data/manifest.json, adapters and the base model that they name, runs, and
    hypotheses.toml. A comment explains every line. What could be two things is left as a comment.
    An existing file of settings is not replaced.
    """
    path = Path(NAME)
    there = path if path.exists() else find_config(Path.cwd())
    if there is not None and there.resolve().parent == Path.cwd().resolve():
        message = f"{there.name}: this folder has settings already; edit them, or remove the file"
        raise InputError(message)
    project = find_project(Path())
    write_atomically(path, settings_text(project))
    tell([f"wrote {NAME}; read it, and edit it", f"next: {_next(project)}"])


def _next(project: Found) -> str:
    if project.data is not None:
        return "pact-audit data"
    if project.adapters:
        return f"pact-eval score {project.adapters[0]} --data FILE"
    return "put your data into data/, then: pact-audit manifest data"


_SEED: Final = re.compile(r"-\d+$")


@dataclass(frozen=True)
class Found:
    """Contents of a folder; paths start from it.

    Attributes:
        data: folder of a dataset with a manifest, or None.
        evaluation: names of its evaluation files.
        adapters: adapter folders.
        bases: base models that the adapters name: folders, or ids of a hub.
        missing_bases: paths of base models that the adapters name and that do not exist.
        runs: folder of runs, or None.
        arms: names of the arms of runs, or else of the adapters.
        ks: numbers of views of the runs.
        criteria: file of hypotheses, or None.
    """

    data: str | None = None
    evaluation: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    missing_bases: tuple[str, ...] = ()
    runs: str | None = None
    arms: tuple[str, ...] = ()
    ks: tuple[int, ...] = ()
    criteria: str | None = None


def find_project(folder: Path) -> Found:
    """Look for data, adapters, runs and hypotheses in a folder.

    Args:
        folder: the folder of a project.
    """
    adapters = [path.parent for path in _first_levels(folder, "adapter_config.json")]
    named = dict.fromkeys(name for adapter in adapters for name in _base_of(adapter, folder))
    missing = tuple(name for name in named if not _is_base(name, folder))
    arms, ks = _runs(folder / "runs")
    from_adapters = (_SEED.sub("", adapter.name) for adapter in adapters)
    has_data = (folder / "data" / "manifest.json").is_file()
    return Found(
        data="data" if has_data else None,
        evaluation=_evaluation_files(folder / "data") if has_data else (),
        adapters=tuple(str(adapter.relative_to(folder)) for adapter in adapters),
        bases=tuple(name for name in named if name not in missing),
        missing_bases=missing,
        runs="runs" if (folder / "runs").is_dir() else None,
        arms=tuple(dict.fromkeys(arms or from_adapters)),
        ks=tuple(sorted(set(ks))),
        criteria="hypotheses.toml" if (folder / "hypotheses.toml").is_file() else None,
    )


def _first_levels(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files of a name, one or two folders down."""
    paths = (*folder.glob(f"*/{name}"), *folder.glob(f"*/*/{name}"))
    for path in sorted(paths):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _evaluation_files(data: Path) -> tuple[str, ...]:
    try:
        files = dataset_files(data, read_manifest(data / "manifest.json").value)
    except InputError:
        return ()
    return tuple(file.name for file in files if file.role == "eval")


def _base_of(adapter: Path, folder: Path) -> Iterator[str]:
    """Yield the base model that an adapter names: a folder from the adapter, or an id."""
    configs = []
    for path in (adapter / ADAPTER_CONFIG, adapter / SCHEMA_CONFIG):
        try:
            value = read_json(path)
        except InputError:
            value = None
        configs.append(value if isinstance(value, dict) else None)
    name = named_base_model(*configs)
    if name is None:
        return
    inside = adapter / name
    is_path = inside.is_dir() or (not _is_base(name, folder) and not Path(name).is_absolute())
    yield os.path.relpath(inside, folder) if is_path else name


def _is_base(name: str, folder: Path) -> bool:
    """Return whether a name is an id of a hub, or a folder that exists."""
    return is_hub_id(name) or (folder / name).is_dir()


def _runs(folder: Path) -> tuple[list[str], list[int]]:
    arms, ks = [], []
    for path in sorted(folder.glob("*/run.json")):
        try:
            run = read_provenance(path.parent)
        except InputError:
            continue
        arms += [run.arm] if run.arm else []
        ks += [run.k] if run.k else []
    return arms, ks


def settings_text(project: Found) -> str:
    """Return the text of a `pact.toml`, with a comment for every line.

    Args:
        project: what the folder holds.

    Example:
        >>> 'data = "data"' in settings_text(Found(data="data"))
        True
    """
    lines = [
        "# Settings of pact-eval for this project. The command line and PACT_EVAL_* variables come",
        "# first. Paths start from this folder. A line with # in front of it has no effect.",
        "",
        "# Folder of the dataset, with its manifest.json. `pact-audit data` checks it.",
        _line("data", project.data, "data"),
        "# Evaluation file in that folder, which `score` reads. Without it: that of the manifest.",
        *_choice("eval", project.evaluation, "holdout.jsonl"),
        "# Base model: a folder, or an id of a hub. Without it: the one that the adapter names.",
        *_missing(project.missing_bases),
        *_choice("base-model", project.bases, "organisation/name"),
        "# Folder of runs: `score` writes to it, `pact-eval runs` lists it.",
        _line("runs", project.runs, "runs", sure=project.runs is not None),
        "# Views per record: the canonical order of the answers and K - 1 permutations.",
        *_choice("k", project.ks, 4),
        "# Seeds: of the letter orders, and of the bootstrap.",
        "# order-seed = 0",
        "# bootstrap-seed = 0",
        "# Probabilities: single is view 0 alone, ensemble the mean over the K views.",
        '# decoding = "single"',
        "# Arm that the others are compared with. Without it: the first with a seed.",
        *_choice("method", project.arms if len(project.arms) == 1 else (), "pact", sure=False),
        "# Hypotheses, which `report --html` and `paper` judge.",
        _line("criteria", project.criteria, "hypotheses.toml", sure=project.criteria is not None),
        "",
        "# Arms, by the key that runs record. An arm is one recipe over several seeds.",
        "# `name` is what tables, figures and the page call it; no two arms may have the same one.",
        "# `colour` is that of figures and of the page.",
        *_arms(project.arms),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, value: object, example: object, *, sure: bool = True) -> str:
    text = json.dumps(example if value is None else value, ensure_ascii=False)
    return f"{'' if value is not None and sure else '# '}{name} = {text}"


def _choice(
    name: str, values: tuple[object, ...], example: object, *, sure: bool = True
) -> Iterator[str]:
    """Write one value; several are comments, because nothing says which one is meant."""
    if len(values) == 1:
        yield _line(name, values[0], example, sure=sure)
    elif not values:
        yield _line(name, None, example)
    else:
        yield f"# Found {len(values)}: choose one of them."
        for value in values:
            yield _line(name, value, example, sure=False)


def _missing(paths: tuple[str, ...]) -> Iterator[str]:
    """Write base models that an adapter names and that do not exist, as comments."""
    for path in paths:
        yield "# An adapter names this folder, which does not exist: copy the model there, or edit."
        yield _line("base-model", path, path, sure=False)


def _arms(arms: tuple[str, ...]) -> Iterator[str]:
    colours = NEUTRAL.colours
    for number, arm in enumerate(arms):
        key = arm if re.fullmatch(r"[A-Za-z0-9_-]+", arm) else json.dumps(arm)
        yield f"[arms.{key}]"
        yield f"name = {json.dumps(arm, ensure_ascii=False)}"
        yield f'colour = "{colours[number % len(colours)]}"'
    if not arms:
        yield "# [arms.pact]"
        yield '# name = "PACT"'
        yield f'# colour = "{colours[0]}"'
