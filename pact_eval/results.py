"""Results of the public API and their notes: frozen, shown as tables or as JSON.

`pact_reports` lays results out and is above this package. It is looked up by name when a result is
shown, and not imported.

A note is a frozen dataclass. Its fields are the numbers, and `str` is the sentence that every
surface shows: terminal, page, LaTeX and JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


_LONGEST_LINE: Final = 200
_LONGEST_TEXT: Final = 40


class Result:
    """Base of what the API returns: Jupyter and `print` show it as tables."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object that a command prints of it with `--json`, as `to_json` does.

        Its values are dictionaries, lists, text, numbers, booleans and None: `json.dumps` takes it.
        """
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return the object that a command prints of it with `--json`, and `--full` of a report.

        What only a command has is left out: `command_line`. The files that `calibrate` has written
        are null, and of `score` and `import`, a result is one part.
        """
        values: dict[str, Any] = import_module("pact_reports.results").to_json(self)
        return values

    def _repr_html_(self) -> str:
        html: str = import_module("pact_reports.results").to_html(self)
        return html

    def __str__(self) -> str:
        text: str = import_module("pact_reports.results").to_text(self)
        return text

    def __repr__(self) -> str:
        return short_repr(self)


class Framed(Result):
    """A result that is also a data frame."""

    def frame(self) -> pl.DataFrame:
        """Return the numbers as a polars data frame; see `pact_reports.frames.frame_of`.

        Rates are fractions, and an undefined number is null. pandas reads it through the
        interchange protocol: `pandas.api.interchange.from_dataframe(result.frame())`. Without
        pyarrow, pandas warns that this is deprecated; use
        `pandas.DataFrame(result.frame().to_dict(as_series=False))`.
        """
        frame: pl.DataFrame = import_module("pact_reports.frames").frame_of(self)
        return frame


class Writable(Result):
    """A result that other commands read from a file."""

    def write(self, path: Path | str) -> Path:
        """Write the file, atomically, and return its path.

        It is what `thresholds --out` writes, and otherwise the JSON: of an audit for `--audit`, of
        a report for `verify`.

        Args:
            path: the file; an existing one is replaced.

        Raises:
            InputError: the file cannot be written.
        """
        written: Path = import_module("pact_reports.results").write(self, path)
        return written


def short_repr(value: Any, *, changed: bool = False) -> str:
    """Return the type and the small fields of a frozen dataclass, on one line of 200 characters.

    Args:
        value: the dataclass.
        changed: leave out fields that have their default.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, repr=False)
        ... class Two(Result):
        ...     name: str
        ...     items: tuple[int, ...]
        >>> Two("a", (1, 2, 3))
        Two(name='a', items=<3>)
    """
    values = {field.name: getattr(value, field.name) for field in fields(value) if field.repr}
    if changed:
        defaults = {field.name: field.default for field in fields(value)}
        values = {name: held for name, held in values.items() if held != defaults[name]}
    parts = (f"{name}={short_value(held)}" for name, held in values.items())
    line = f"{type(value).__name__}({', '.join(parts)})".replace("\n", " ")
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 4]}...)"


def short_value(value: Any) -> str:
    """Return a value in at most 40 characters: the size of what is longer.

    Examples:
        >>> short_value("a"), short_value((1, 2, 3))
        ("'a'", '<3>')
    """
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
    if hasattr(value, "__len__"):
        return f"<{len(value):,}>"
    return f"<{type(value).__name__}>"


@dataclass(frozen=True)
class Note(ABC):
    """Something that a reader has to know beside the numbers."""

    @abstractmethod
    def __str__(self) -> str:
        """Explain it in a sentence or two."""

    @property
    def short(self) -> str:
        """What of it concerns accuracy, confidence and calibration; "" for nothing.

        The first screen shows it. The other sentences are next to the metrics that they are about.
        """
        return ""
