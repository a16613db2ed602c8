"""Model card of a run: results in a README that keeps everything else."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from pact_eval._files import read_text, write_atomically
from pact_eval._json import Json, dumps
from pact_eval.errors import InputError, RunError, missing_extra
from pact_eval.evaluation.conclusions.data import DataConclusion, leak_prefix
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.registry import MetricSpec, registered_metrics
from pact_eval.numbers import sample_text
from pact_eval.plain_text import one_line
from pact_eval.runs.places import url_of
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.seal import seal_digest
from pact_eval.stats.estimate import LEVEL
from pact_reports.tables.cells import leak_lines
from pact_reports.views.brief import not_known_text, report_line
from pact_reports.views.report import decoding_text, metrics_table
from pact_reports.writers.markdown import markdown_text, to_markdown

try:
    import yaml
    from huggingface_hub import EvalResult, ModelCardData
except ModuleNotFoundError as error:
    raise missing_extra("a model card", "huggingface_hub", "remote") from error


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
    def values(self) -> dict[Any, Any]:
        """The parsed YAML.

        Raises:
            InputError: it is not YAML, or not a mapping.
        """
        values = self._parse(yaml.safe_load)
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
        keys = self._keys()
        old = [] if values.get(INDEX) is None else values[INDEX]
        if not isinstance(old, list) or not all(
            isinstance(entry, dict) and isinstance(entry.get("results"), list) for entry in old
        ):
            line = next(key.start_mark.line for key, _ in keys if key.value == INDEX)
            raise self._error(line, f"{INDEX}: {_SHAPE}")
        models = [dict(entry) for entry in old] or [{"name": model, "results": []}]
        # In place of the first own entry, and of no further ones.
        kept: list[Any] = []
        for entry in models[0]["results"]:
            replaced = result if own(entry) else entry
            if replaced is not result or result not in kept:
                kept.append(replaced)
        models[0]["results"] = kept if result in kept else [*kept, result]
        end = line_end(self.opening)
        before, after, line = self.yaml, "", None
        for key, value in keys:
            if key.value == INDEX:
                before, line = self.yaml[: key.start_mark.index], key.start_mark.line
                after = _not_of_value(self.yaml, key.start_mark.index, value.end_mark.index)
        if models == old:
            return f"{self.opening}{self.yaml}{self.closing}"
        if before and not before.endswith(("\n", "\r")):
            before += end
        form: dict[str, Any] = {"allow_unicode": True, "sort_keys": False, "line_break": end}
        text = f"{before}{yaml.safe_dump({INDEX: models}, **form)}{after}"
        try:
            written = yaml.safe_load(text)
        except yaml.YAMLError:
            written = None
        # Braces and anchors do not survive such a cut. Texts are compared: NaN is not equal to NaN.
        if repr(written) != repr({**values, INDEX: models}):
            problem = f"{INDEX} cannot be written without a change of other keys"
            remedy = _PLAIN_KEYS if line is None else _PLAIN_INDEX
            raise self._error(line or 0, problem, remedy)
        return f"{self.opening}{text}{self.closing}"

    def _keys(self) -> list[tuple[Any, Any]]:
        """Return the keys of the mapping with their values, each with its place in the YAML."""
        root = self._parse(lambda text: yaml.compose(text, Loader=yaml.SafeLoader))
        keys = [] if root is None else list(root.value)
        places = [key for key, _ in keys if key.value == INDEX]
        if len(places) > 1:
            raise self._error(places[1].start_mark.line, f"{INDEX} occurs twice")
        return keys

    def _parse(self, parse: Callable[[str], Any]) -> Any:
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


_TASK: Final = ("text-classification", "Typed decisions")
_UNNAMED: Final = "unnamed"
_KEY_DIGITS: Final = 12


@dataclass(frozen=True)
class CardDataset:
    """The data of a run, as a model card names it.

    Attributes:
        id: `owner/name` on the Hub, or the name of the file without its ending.
        name: name of the file.
        revision: commit on the Hub, or the SHA-256 of the file.

    Examples:
        >>> CardDataset("holdout", "holdout.jsonl", "0" * 64).key
        '97e53feac9ef'
    """

    id: str
    name: str
    revision: str

    @classmethod
    def of(cls, provenance: Provenance) -> CardDataset:
        """Return the data of a run.

        A run without a hash of its data is named by the hash of its items and references.
        """
        seal, sha256 = provenance.seal, provenance.data.sha256
        revision = sha256 or ("" if seal is None else seal.references_sha256)
        place = Path(provenance.data_file or _UNNAMED)
        url = url_of(place)
        if url is not None and url.startswith("hf://datasets/"):
            _, owner, repository, *path = url.removeprefix("hf://").split("/")
            name, _, commit = repository.partition("@")
            return cls(f"{owner}/{name}", "/".join(path) or name, commit or revision)
        return cls(place.stem, place.name, revision)

    @property
    def key(self) -> str:
        """Twelve hex digits that identify the data."""
        text = dumps([self.id, self.name, self.revision])
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]

    def is_of(self, result: Any) -> bool:
        """Return whether an entry of a card has our results on this data.

        Args:
            result: of the metadata of a card, of any shape.
        """
        dataset = result.get("dataset") if isinstance(result, dict) else None
        if not isinstance(dataset, dict) or not isinstance(dataset.get("args"), dict):
            return False
        named = [dataset.get(name) for name in ("type", "name", "revision")]
        return "seal" in dataset["args"] and named == [self.id, self.name, self.revision]


def card_metrics(report: RunReport) -> tuple[MetricSpec, ...]:
    """Return the metrics of a card: those of the tables of main results and of every run."""
    shown = {*registered_metrics("full", "main results"), *registered_metrics("full", "every run")}
    return tuple(spec for spec in report.evaluation.metrics if spec in shown)


def result_of(report: RunReport, dataset: CardDataset, model: str) -> dict[str, Json]:
    """Return the entry of a model card with the results of a run.

    Rates are fractions, NLL is in nats. Metrics that are undefined or infinite are left out: the
    Hub reads finite numbers. `args` has the interval, and the seal of the run. The name of a metric
    on leaking data begins with the leak.

    Args:
        report: on a run on full contexts.
        dataset: its data.
        model: name of the model.
    """
    evaluation, leak = report.evaluation, leak_prefix(report.experiment.data.leak)
    seal = report.run.provenance.seal
    sealed = {
        "seal": None if seal is None else seal_digest(seal),
        "report": report.digest.sha256,
    }
    results = []
    for spec in card_metrics(report):
        estimate = evaluation.groups[0].estimates[spec.name]
        if not math.isfinite(estimate.value):
            continue
        args: dict[str, Json] = {
            "decoding": evaluation.decoding_name,
            "calibration": evaluation.calibration,
            "k": evaluation.k,
        }
        ends = {"low": estimate.low, "high": estimate.high}
        known: dict[str, Json] = {name: end for name, end in ends.items() if math.isfinite(end)}
        args |= known | ({"confidence": 1 - LEVEL} if known else {})
        named = EvalResult(
            task_type=_TASK[0],
            task_name=_TASK[1],
            dataset_type=dataset.id,
            dataset_name=dataset.name,
            dataset_revision=dataset.revision,
            dataset_args=sealed,
            metric_type=spec.name,
            metric_name=f"{leak}{spec.title}",
            metric_value=estimate.value,
            metric_args={**args, "items": estimate.n, "clusters": estimate.clusters},
        )
        results.append(named)
    card: Any = ModelCardData(model_name=model, eval_results=results)
    return dict(card.to_dict()["model-index"][0]["results"][0])


_FOLDERS: Final = re.compile(r"(?<![\w.:/\\])(?:[A-Za-z]:[\\/]|[/~])(?:[^\s\\/,;()]*[\\/])*")


def section_of(report: RunReport, dataset: CardDataset) -> str:
    """Write what a run is worth: the answer, the conclusions, the metrics, and where they are from.

    A leak comes first, in a paragraph of its own, and the answer begins with it. Runs and files
    are called by their names, so the card has no path of this machine.

    Args:
        report: on a run on full contexts.
        dataset: its data.
    """
    evaluation, leak = report.evaluation, report.experiment.data.leak
    everything, seal = evaluation.groups[0], report.run.provenance.seal
    paragraphs = [f"## Evaluation on {markdown_text(dataset.name)}"]
    first = [*(line.text for line in leak_lines(leak)), report_line(evaluation, leak)]
    paragraphs += [f"**{_markdown(text)}**" for text in first]
    paragraphs.append("\n".join(f"- {_markdown(line)}" for line in _lines(report)))
    table = metrics_table(evaluation.groups[:1], card_metrics(report), evaluation.unit)
    table = replace(table, title="Metrics", caption=" ".join(decoding_text(evaluation).split()))
    paragraphs.append(to_markdown(table).rstrip("\n"))
    sources = [f"- Data: {markdown_text(dataset.name)}, revision `{dataset.revision}`."]
    if seal is not None:
        sample = sample_text(everything.items, everything.clusters, evaluation.unit)
        run = markdown_text(report.run.label)
        sources.append(f"- Run: {run}, {sample}, seal `{seal_digest(seal)}`.")
    version = metadata.version("pact-eval")
    sources.append(f"- Report: pact-eval {version}, digest `{report.digest.sha256}`.")
    return "\n\n".join([*paragraphs, "\n".join(sources)])


def _lines(report: RunReport) -> Iterator[str]:
    """Yield conclusions, open questions, warnings and notes."""
    yield from (conclusion.sentence for conclusion in report.conclusions)
    if unknown := not_known_text(report.conclusions):
        yield f"Not known: {unknown}."
    names = {run.place: run.name for run in report.experiment.all_runs}
    warnings = (_by_name(warning, names) for warning in report.warnings)
    yield from (f"Warning: {warning!s}" for warning in warnings)
    yield from (f"Note: {note!s}" for note in report.evaluation.notes)


def _by_name(warning: Any, names: Mapping[str, str]) -> Any:
    """Return a warning with the names of runs in place of their folders."""

    def name(place: str) -> str:
        return names.get(place, Path(place).name)

    folders = {field: getattr(warning, field, None) for field in ("run", "first", "other")}
    named: dict[str, Any] = {
        field: name(place) for field, place in folders.items() if isinstance(place, str)
    }
    counts = getattr(warning, "runs", None)
    if isinstance(counts, Mapping):
        named["runs"] = {name(place): count for place, count in counts.items()}
    return replace(warning, **named)


def _markdown(text: str) -> str:
    r"""Return text as Markdown; of an absolute path, its last part.

    Examples:
        >>> _markdown("not the one of /home/me/data/manifest.json; 1/2")
        'not the one of manifest.json; 1/2'
    """
    return markdown_text(_FOLDERS.sub("", text))


def with_section(text: str, section: str, dataset: CardDataset, place: Path) -> str:
    r"""Return a card with a section; the one on the same data is replaced.

    Args:
        text: the card, or its part below the front matter.
        section: Markdown.
        dataset: the data of the section.
        place: the file, for messages.

    Raises:
        InputError: the comment before or after the section is missing, or occurs twice.

    Examples:
        >>> data = CardDataset("holdout", "holdout.jsonl", "0" * 64)
        >>> once = with_section("# A model\n", "## New", data, Path("README.md"))
        >>> print(once, end="")
        # A model
        <BLANKLINE>
        <!-- pact-eval results 97e53feac9ef -->
        ## New
        <!-- end of pact-eval results 97e53feac9ef -->
        >>> with_section(once, "## New", data, Path("README.md")) == once
        True
    """
    first = f"<!-- pact-eval results {dataset.key} -->"
    last = f"<!-- end of pact-eval results {dataset.key} -->"
    end = line_end(text)
    written = "\n".join((first, section, last)).replace("\n", end)
    start, stop = text.find(first), text.find(last)
    if (text.count(first), text.count(last)) == (0, 0):
        gap = "" if not text or text.endswith(2 * end) else end
        newline = "" if not text or text.endswith(end) else end
        return f"{text}{newline}{gap}{written}{end}"
    if (text.count(first), text.count(last)) != (1, 1) or stop < start:
        at = start if start >= 0 else stop
        raise InputError(
            f"{place}:{text.count(chr(10), 0, at) + 1}: expected one comment {first!r} and one "
            f"{last!r} after it; remove both, and the section is written at the end"
        )
    return f"{text[:start]}{written}{text[stop + len(last) :]}"


_MARK: Final = "\ufeff"


@dataclass(frozen=True)
class ModelCard:
    """Content of the model card of a run.

    Attributes:
        model: name of the model: of its adapter, its base model, or its run.
        dataset: the data of the run.
        result: the entry of the metadata, as `huggingface_hub` makes it.
        section: the section of the text.
        data: the conclusion on the data, with which both begin if it leaks.

    Example:
        from pact_eval import Experiment
        card = ModelCard.of(Experiment.read(["runs/pact-17"]).report())
        card.write(Path("adapters/pact/README.md"))
    """

    model: str
    dataset: CardDataset
    result: dict[str, Json]
    section: str
    data: DataConclusion

    @classmethod
    def of(cls, report: RunReport) -> ModelCard:
        """Return what the card of a run says.

        Args:
            report: on a run on full contexts.

        Raises:
            RunError: the run is on ablated contexts, which have no right answers.
            MissingExtraError: huggingface_hub is not installed.
        """
        if report.run.ablated:
            raise RunError(
                f"{report.run.place}: a model card needs a run on full contexts, not ablated"
            )
        provenance = report.run.provenance
        place = provenance.adapter_folder or provenance.base_model
        model = one_line(report.run.name if place is None else Path(place).name)
        dataset = CardDataset.of(provenance)
        result = result_of(report, dataset, model)
        section = section_of(report, dataset)
        return cls(model, dataset, result, section, report.experiment.data)

    def added_to(self, text: str, place: Path) -> str:
        """Return a card with the results; those on the same data are replaced.

        Args:
            text: the card; "" for a new one.
            place: its file, for messages.

        Raises:
            InputError: the front matter is not YAML, or the comments around the section are broken.
        """
        mark, body = (_MARK, text[1:]) if text.startswith(_MARK) else ("", text)
        body = body or f"# {markdown_text(self.model)}\n"
        card = FrontMatter.of(body, place)
        with_result = card.with_result(self.result, self.model, self.dataset.is_of)
        return f"{mark}{with_section(with_result, self.section, self.dataset, place)}"

    def write(self, path: Path) -> bool:
        """Write the results into a card; a missing file is created.

        Args:
            path: the file, such as README.md.

        Returns:
            Whether the file changed.

        Raises:
            InputError: the folder is missing, or the card cannot be read or written.
        """
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: folder not found; cannot write {path.name} to")
        text = read_text(path) if path.exists() else ""
        written = self.added_to(text, path)
        if written == text:
            return False
        write_atomically(path, written)
        return True
