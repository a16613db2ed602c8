"""Peak memory of a training: of the GPU, or else of this process."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Final

import torch

_CLEAR: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"
_STATUS: Final = Path("/proc/self/status")


def reset_peak_memory(device: torch.device) -> None:
    """Start to measure anew: of several trainings in one process, each has its own peak.

    On systems without `/proc`, the peak of the process is since its start.

    Args:
        device: device of the model.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)


def peak_memory_bytes(device: torch.device) -> int | None:
    """Return the most memory that a GPU has held, or else this process; None if not known.

    Args:
        device: device of the model.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError, IndexError):
        # `getrusage` never returns less than the peak of the process that started this one.
        _, _, after = _STATUS.read_text().partition("VmHWM:")
        return int(after.split()[0]) * 1024
    try:
        import resource  # POSIX only
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
