"""One rendering of a template: the program of the process that `trial.py` starts.

It imports nothing of ours, so that it starts fast and needs little memory. The environment is that
of chat templates in transformers: a sandbox without access to Python, but with endless loops.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any, Final

OUT_OF_MEMORY: Final = 3
NO_JINJA: Final = 4


def _limit_memory(most_bytes: int) -> None:
    with suppress(ImportError, OSError, ValueError):  # Windows and macOS have no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


def _raise(message: str) -> None:
    raise ValueError(message)


def _environment() -> Any:
    """Return the environment of chat templates in transformers, without what it tracks."""
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - as in jinja2

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals |= {"raise_exception": _raise, "strftime_now": str}
    return environment


def main() -> int:
    """Render the template on standard input with each of its variables; return the exit code."""
    job: dict[str, Any] = json.load(sys.stdin)
    sys.path[:] = job["path"]
    try:
        environment = _environment()
    except ImportError:
        return NO_JINJA
    _limit_memory(job["most_bytes"])
    for variables in job["variables"]:
        try:
            environment.from_string(job["template"]).render(variables)
        except MemoryError:
            return OUT_OF_MEMORY
        except Exception:  # noqa: BLE001, S112 -- templates raise what their authors chose
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main())
