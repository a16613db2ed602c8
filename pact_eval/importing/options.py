"""Options of `pact_eval.import_run`, named as those of `pact-eval import`, and what they make.

Examples:
    >>> import_options({"map": {"reference": "gold_index"}, "suite": ["suite.jsonl"]}).mapping
    {'reference': 'gold_index'}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pact_eval._choices import LogMetric, SeveralRight, check_choice
from pact_eval.data.hub_data import local_data, only_file_of
from pact_eval.data.labelled.reading import ReadingOptions, take_reading
from pact_eval.importing.row_reader import check_mapping
from pact_eval.importing.source import ImportOptions


class LogOptions(ReadingOptions, total=False):
    """Fields of `ImportOptions`, which documents them; `source` is `--from`."""

    source: str | None
    map: Mapping[str, str]
    family_from: str | None
    domain_from: str | None
    suite: Sequence[Path | str]
    filter: str | None
    metric: LogMetric | None
    scorer: str | None
    multi: SeveralRight | None
    data: Path | str | None


def import_options(options: LogOptions) -> ImportOptions:
    """Return how a log is read.

    Args:
        options: of the user; those that are left out have the defaults of the command.

    Raises:
        InputError: `map` names a column that a run does not have, or an option has another value.
        TypeError: there is no such option.
    """
    values: dict[str, Any] = dict(options)
    check_choice("--metric", values.get("metric"), get_args(LogMetric))
    check_choice("--multi", values.get("multi"), get_args(SeveralRight))
    mapping = check_mapping(values.pop("map", {}))
    suites = tuple(Path(path) for path in values.pop("suite", ()))
    reading = take_reading(values)
    data = values.pop("data", None)
    return ImportOptions(
        mapping=mapping,
        suites=suites,
        data=None if data is None else only_file_of(local_data(data)),
        reading=reading,
        **values,
    )
