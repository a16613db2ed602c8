"""Base of notes: typed values on the numbers of a result, each with its sentence.

A note is a frozen dataclass. Its fields are the numbers, and `str` is the sentence that every
surface shows: terminal, page, LaTeX and JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


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
