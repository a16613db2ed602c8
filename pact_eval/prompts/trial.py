"""One rendering of a template of Jinja, in a process with limits on time and memory.

A template from somebody's folder is a program. transformers runs it in a sandbox, from which it
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
from pact_eval.prompts import rendering

TRIAL_SECONDS: Final = 10.0
"""Longest time for the first rendering of a template, in seconds."""

TRIAL_BYTES: Final = 10**9
"""Most memory for it, in bytes of address space. Windows and macOS limit the time only."""

Trial = Literal["ends", "time", "memory", "not tried"]
"""How the first rendering ended; `not tried` if Jinja is not installed."""


def chat_rendering(template: str) -> Trial:
    """Render a chat template with a system message and a user message, within limits.

    Whether it can be rendered is not judged here, only that it ends within `TRIAL_SECONDS` and
    `TRIAL_BYTES`.

    Examples:
        >>> chat_rendering("{% for each in messages %}{{ each.content }}{% endfor %}")
        'ends'
        >>> chat_rendering("{{ 'a' * 10**10 }}")
        'memory'
    """
    messages: Json = [{"role": role, "content": "Noted."} for role in ("system", "user")]
    return render_within_limits(template, json.dumps([{"messages": messages, **CHAT_VARIABLES}]))


CHAT_VARIABLES: Final[dict[str, Json]] = {
    "add_generation_prompt": True,
    "enable_thinking": False,
    "bos_token": "<s>",
    "eos_token": "</s>",
}
"""What transformers shows to every chat template, besides the messages."""


def trial_fault(trial: Trial) -> str | None:
    """Return what is wrong with a template by its first rendering; None if nothing is.

    Examples:
        >>> trial_fault("time")
        'its first rendering took more than 10 s'
    """
    limits = {"time": f"{TRIAL_SECONDS:g} s", "memory": f"{TRIAL_BYTES / 1e9:g} GB of memory"}
    return f"its first rendering took more than {limits[trial]}" if trial in limits else None


@functools.lru_cache(maxsize=16)
def render_within_limits(template: str, variables: str) -> Trial:
    """Render a template with each of several sets of variables, given as a list in JSON."""
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
