"""The YAML front matter of a model card: one result replaced, all else kept as it is written.

A model card begins with YAML between two lines `---`. Its key `model-index` has the results. Other
keys keep their text, with comments and order; only `model-index` is written again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_reports.model_card.libraries import yaml

INDEX: Final = "model-index"

_BLOCK: Final = re.compile(r"(\s*---(?:\r\n|\r|\n))([\S\s]*?)((?<=[\r\n])---[ \t]*(?:\r\n|\n|$))")
_OPENING: Final = re.compile(r"\s*---[ \t]*(?:[\r\n]|$)")
_SHAPE: Final = "expected a list of models, each with a name and a list of results"
_REMEDY: Final = "correct it, or remove the front matter"
_PLAIN_INDEX: Final = f"write {INDEX} as a plain top-level key, or remove it"
_PLAIN_KEYS: Final = "write the keys as plain lines KEY: VALUE, without ... after them"


@dataclass(frozen=True)
class FrontMatter:
    r"""The front matter of a card, and the text around it.

    Attributes:
        place: the file, for messages.
        opening: everything before the YAML: the first line `---`.
        yaml: the YAML.
        closing: the rest of the card: the second line `---`, and the text.

    Examples:
        >>> card = FrontMatter.of("---\nlicense: mit\n---\n# A model\n", Path("README.md"))
        >>> card.yaml, card.values
        ('license: mit\n', {'license': 'mit'})
    """

    place: Path
    opening: str
    yaml: str
    closing: str

    @classmethod
    def of(cls, text: str, place: Path) -> FrontMatter:
        """Split a card; one without front matter gets an empty one.

        Args:
            text: the card, with its line ends; no byte order mark.
            place: its file, for messages.

        Raises:
            InputError: the front matter has no end, or its first line is not as expected.
        """
        match = _BLOCK.match(text)
        if match is not None:
            return cls(place, match[1], match[2], match[3] + text[match.end() :])
        if _OPENING.match(text):
            line = text[: text.index("---")].count("\n") + 1
            raise InputError(f"{place}:{line}: {_opening_problem(text)}; {_REMEDY}")
        end = line_end(text)
        rest = f"{end}{text}" if text else ""
        return cls(place, f"---{end}", "", f"---{end}{rest}")

    @property
    def text(self) -> str:
        """The card."""
        return f"{self.opening}{self.yaml}{self.closing}"

    @property
    def values(self) -> dict[Any, Any]:
        """The parsed YAML.

        Raises:
            InputError: it is not YAML, or not a mapping.
        """
        values = self._parsed(yaml.safe_load)
        if values is None:
            return {}
        if not isinstance(values, dict):
            raise self._error(0, f"expected keys with values, got a {type(values).__name__}")
        return values

    def with_result(self, result: dict[str, Json], model: str, own: Callable[[Any], bool]) -> str:
        """Return the card with a result among those of its first model.

        Args:
            result: an entry of `results`, as `results.result_of` returns it.
            model: name of the model, if the card names none.
            own: whether an entry is replaced by the result.

        Raises:
            InputError: the front matter cannot be read, or the result cannot be added without a
                change of other keys.
        """
        values = self.values
        old = self._index(values)
        models = [dict(entry) for entry in old] or [{"name": model, "results": []}]
        models[0]["results"] = _with_one(models[0]["results"], result, own)
        if models == old:
            return self.text
        return f"{self.opening}{self._replaced(values, models)}{self.closing}"

    def _index(self, values: dict[Any, Any]) -> list[Any]:
        index = values.get(INDEX)
        if index is None:
            return []
        shaped = isinstance(index, list) and all(
            isinstance(entry, dict) and isinstance(entry.get("results"), list) for entry in index
        )
        if not shaped:
            line = next(key.start_mark.line for key, _ in self._keys() if key.value == INDEX)
            raise self._error(line, f"{INDEX}: {_SHAPE}")
        return list(index)

    def _replaced(self, values: dict[Any, Any], models: list[Any]) -> str:
        """Return the YAML with other models; without that key, they come last."""
        end = line_end(self.opening)
        written = _dumped({INDEX: models}, end)
        before, after, line = self.yaml, "", None
        for key, value in self._keys():
            if key.value == INDEX:
                before, line = self.yaml[: key.start_mark.index], key.start_mark.line
                after = _not_of_value(self.yaml, key.start_mark.index, value.end_mark.index)
        if before and not before.endswith(("\n", "\r")):
            before += end
        text = f"{before}{written}{after}"
        expected = {**values, INDEX: models}
        # Braces and anchors do not survive such a cut. Texts are compared: NaN is not equal to NaN.
        if repr(_read(text)) != repr(expected):
            problem = f"{INDEX} cannot be written without a change of other keys"
            remedy = _PLAIN_KEYS if line is None else _PLAIN_INDEX
            raise self._error(line or 0, problem, remedy)
        return text

    def _keys(self) -> list[tuple[Any, Any]]:
        """Return the keys of the mapping with their values, each with its place in the YAML."""
        root = self._parsed(lambda text: yaml.compose(text, Loader=yaml.SafeLoader))
        keys = [] if root is None else list(root.value)
        places = [key for key, _ in keys if key.value == INDEX]
        if len(places) > 1:
            raise self._error(places[1].start_mark.line, f"{INDEX} occurs twice")
        return keys

    def _parsed(self, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(self.yaml)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or str(error)
            where = 0 if mark is None else mark.line
            raise self._error(where, f"not valid YAML: {problem}") from None
        except (ValueError, TypeError, RecursionError) as error:  # such as the date 2026-13-45
            raise self._error(0, f"not valid YAML: {error}") from None

    def _error(self, line: int, problem: str, remedy: str = _REMEDY) -> InputError:
        at = self.opening.count("\n") + line + 1
        return InputError(f"{self.place}:{at}: front matter: {problem}; {remedy}")


def _opening_problem(text: str) -> str:
    if re.match(r"\s*---[ \t]", text):
        return "expected a first line --- without spaces after it"
    if re.match(r"\s*---\r(?!\n)", text):
        return "expected lines that end with a line feed, and a first line --- alone"
    return "expected a second line --- that ends the front matter"


def _with_one(entries: list[Any], result: dict[str, Json], own: Callable[[Any], bool]) -> list[Any]:
    """Return entries with a result in place of the first own entry, and no further own ones."""
    kept: list[Any] = []
    for entry in entries:
        if not own(entry):
            kept.append(entry)
        elif result not in kept:
            kept.append(result)
    return kept if result in kept else [*kept, result]


def line_end(text: str) -> str:
    r"""Return how lines of a text end: as its first line does.

    Examples:
        >>> line_end("a\r\nb"), line_end("a")
        ('\r\n', '\n')
    """
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def _not_of_value(text: str, start: int, end: int) -> str:
    r"""Return what follows a value: a parser counts blank lines and comments behind it as its own.

    Examples:
        >>> _not_of_value("a:\n- b\n# of c\nc: d\n", 0, 14)
        '# of c\nc: d\n'
    """
    lines = text[start:end].splitlines(keepends=True)
    while lines and lines[-1].strip()[:1] in ("", "#"):
        lines.pop()
    return text[start + len("".join(lines)) :]


def _dumped(values: dict[Any, Any], end: str) -> str:
    text = yaml.safe_dump(values, allow_unicode=True, sort_keys=False, line_break=end)
    return str(text)


def _read(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
