"""Model card of a run: results in a README that keeps everything else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import read_text, write_atomically
from pact_eval._json import Json
from pact_eval.errors import InputError, RunError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment import RunReport
from pact_eval.plain_text import one_line
from pact_reports.model_card.front_matter import FrontMatter
from pact_reports.model_card.results import CardDataset, result_of
from pact_reports.model_card.section import section_of, with_section
from pact_reports.writers.markdown import markdown_text

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
            message = f"{report.run.place}: a model card needs a run on full contexts, not ablated"
            raise RunError(message)
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
            message = f"{path.parent}: folder not found; cannot write {path.name} to"
            raise InputError(message)
        text = read_text(path) if path.exists() else ""
        written = self.added_to(text, path)
        if written == text:
            return False
        write_atomically(path, written)
        return True
