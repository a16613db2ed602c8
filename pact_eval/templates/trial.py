"""The first rendering of a decision template, in a process with limits on time and memory.

A template from an adapter's folder is a program. transformers runs it in a sandbox, from which it
reaches nothing; but it can loop for ever, or multiply a text until the memory is gone.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

from pact_eval._json import Json
from pact_eval.data.records import Field, FieldKind, parse_field
from pact_eval.templates import rendering
from pact_eval.templates.files import TYPES, DecisionFiles

TRIAL_SECONDS: Final = 10.0
"""Longest time for the first rendering of a template, in seconds."""

TRIAL_BYTES: Final = 10**9
"""Most memory for it, in bytes of address space. Windows and macOS limit the time only."""

Trial = Literal["ends", "time", "memory", "not tried"]
"""How the first rendering ended; `not tried` if Jinja is not installed."""

PROBE_STATE: Final[Json] = {"note": "The seal is broken."}
"""The state of the requests that a template is probed with."""

PROBES: Final[dict[FieldKind, Field]] = {
    "choice": parse_field(
        "probe",
        {
            "type": "choice",
            "instructions": "Which desk?",
            "criteria": {"first": "One of them", "second": None, "third": "The last"},
        },
    ),
    "boolean": parse_field(
        "probe",
        {
            "type": "noul",
            "instructions": "Is it so?",
            "criteria": {"false": "Not so", "true": "It is so"},
        },
    ),
    "score": parse_field(
        "probe",
        {"type": "score", "instructions": "How bad?", "criteria": ["Fine", "Bad", "Worse"]},
    ),
}
"""A question of each kind that a template is probed with."""


def first_rendering(files: DecisionFiles) -> Trial:
    """Render the template of decision files with a question of each kind, within limits.

    Whether it can be rendered is not judged here, only that it ends within `TRIAL_SECONDS` and
    `TRIAL_BYTES`.

    Examples:
        >>> first_rendering(DecisionFiles("{{ state }}"))
        'ends'
        >>> first_rendering(DecisionFiles("{{ 'a' * 10**10 }}"))
        'memory'
    """
    if files.template is None:
        return "ends"
    variables = [_variables(field, files) for field in PROBES.values()]
    return _render(files.template, json.dumps(variables))


def trial_fault(trial: Trial) -> str | None:
    """Return what is wrong with a template by its first rendering; None if nothing is.

    Examples:
        >>> trial_fault("time")
        'its first rendering took more than 10 s'
    """
    limits = {"time": f"{TRIAL_SECONDS:g} s", "memory": f"{TRIAL_BYTES / 1e9:g} GB of memory"}
    return f"its first rendering took more than {limits[trial]}" if trial in limits else None


def _variables(field: Field, files: DecisionFiles) -> Json:
    """Return what transformers shows to a template of one question."""
    labels = files.labels_of(field.kind)[: len(field.answers)]
    question: Json = {
        "name": field.name,
        "type": TYPES[field.kind],
        "instructions": field.instructions,
        "options": [answer.key for answer in field.answers],
        "labels": [*labels],
        "descriptions": [answer.description for answer in field.answers],
    }
    return {
        "messages": [{"role": "user", "content": ""}],
        "state": PROBE_STATE,
        "question": question,
        "add_generation_prompt": True,
        "enable_thinking": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
    }


@functools.lru_cache(maxsize=16)
def _render(template: str, variables: str) -> Trial:
    job: dict[str, Json] = {
        "path": [*sys.path],
        "most_bytes": TRIAL_BYTES,
        "template": template,
        "variables": json.loads(variables),
    }
    process = subprocess.Popen(  # noqa: S603 -- this Python, and our code
        [sys.executable, "-P", str(Path(rendering.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    with process:
        try:
            process.communicate(json.dumps(job), timeout=TRIAL_SECONDS)
        except subprocess.TimeoutExpired:
            return "time"
        finally:
            process.kill()
    if process.returncode == rendering.NO_JINJA:
        return "not tried"
    return "ends" if process.returncode == 0 else "memory"  # or the system has ended it
