"""Regular expressions of a LoRA configuration, run with a time limit.

They come from a foreign file, and one can be written that takes years on a short name. One that
repeats or groups anything is therefore tried in a process of its own that is given some seconds.
Auditing reports expressions that take longer. Scoring refuses them before PEFT, which would hang.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval._json import Json
from pact_eval.errors import AdapterError, PactError
from pact_eval.models.folders import ADAPTER_CONFIG, AdapterFiles

_SECONDS: Final = 10.0
_REPEATS: Final = re.compile(r"[*+?{(]")
_SCRIPT: Final = """
import json, re, sys, warnings
warnings.simplefilter("ignore")
patterns, names = json.load(sys.stdin)
json.dump([[n for n in names if re.fullmatch(p, n)] for p in patterns], sys.stdout)
"""


class PatternError(PactError):
    """The regular expressions of a configuration cannot be tried within some seconds."""


def full_matches(patterns: Sequence[str], names: Sequence[str]) -> list[frozenset[str]]:
    """Return the names that each regular expression matches from end to end.

    Args:
        patterns: regular expressions that Python can read.
        names: what they are tried on.

    Returns:
        One set per pattern.

    Raises:
        PatternError: they fail together, or take longer than some seconds.

    Examples:
        >>> [sorted(matches) for matches in full_matches(["q.proj", "v.*"], ["q_proj", "v_proj"])]
        [['q_proj'], ['v_proj']]
    """
    if not any(_REPEATS.search(pattern) for pattern in patterns):
        return [_full_matches(pattern, names) for pattern in patterns]
    try:
        # -I: nothing in the current folder is imported.
        done = subprocess.run(  # noqa: S603 - our own interpreter and script; the data go to stdin
            [sys.executable, "-I", "-c", _SCRIPT],
            input=json.dumps([patterns, names]),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        message = f"they fail, or take longer than {_SECONDS:.0f} seconds"
        raise PatternError(message) from None
    return [frozenset(names_of_pattern) for names_of_pattern in json.loads(done.stdout)]


def is_regex(text: str) -> bool:
    """Return whether Python can read a text as a regular expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def ending(key: str) -> str:
    """Return the expression by which PEFT looks for a key of a rank or alpha pattern."""
    return rf"(.*\.)?({key})"


def refuse_costly_patterns(adapter: AdapterFiles, names: Sequence[str]) -> None:
    """Try every regular expression of a configuration, as PEFT will, within some seconds.

    Args:
        adapter: the adapter.
        names: the names of the base model's modules.

    Raises:
        AdapterError: they take longer. What Python cannot read is left to PEFT, which refuses it.
    """
    try:
        full_matches(list(filter(is_regex, _peft_patterns(adapter.config))), names)
    except PatternError as error:
        message = (
            f"{adapter.folder / ADAPTER_CONFIG}: expected regular expressions that can be tried on "
            f"the {len(names):,} modules of the base model: {error}; name the modules in lists"
        )
        raise AdapterError(message) from None


def _peft_patterns(config: Mapping[str, Json]) -> Iterator[str]:
    """Yield the expressions that PEFT makes of a configuration and matches with module names.

    PEFT matches some from the start of a name only; `(?s:.*)` at their end does the same.
    """
    for key in ("target_modules", "exclude_modules"):
        yield from (value for value in [config.get(key)] if isinstance(value, str))
    for key in ("rank_pattern", "alpha_pattern"):
        yield from (ending(module) for module in _texts(config.get(key)))
    for module in _texts(config.get("modules_to_save")):
        yield rf"(^|.*\.){module}($|\..*)(?s:.*)"
    for module in _texts(config.get("layers_pattern")):
        yield rf"(?:^|.*?\.){module}\.(?P<idx>\d+)\.(?s:.*)"


def _texts(value: Json) -> list[str]:
    """Return the text itself, or the texts among the items of a list or the keys of an object."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | dict):
        return []
    return [text for text in texts if isinstance(text, str)]


def _full_matches(pattern: str, names: Sequence[str]) -> frozenset[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = re.compile(pattern)
    return frozenset(name for name in names if compiled.fullmatch(name))
