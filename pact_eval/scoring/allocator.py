"""Keep freed memory for the next pass, where the C library would hand it back each time.

glibc gives large blocks to the system as soon as they are freed. A forward pass on a CPU frees and
takes the same megabytes in every layer, and each page comes back zeroed, through a fault: 23,000 of
them in a pass of 1,080 tokens through six small layers, which was up to half of its time.
"""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = ["keep_freed_memory"]

# <malloc.h>: blocks up to the first size come from the heap, which is cut down at the second.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT: Final = 1 << 30
_NEVER: Final = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Let glibc keep what the process frees, up to blocks of 1 GiB, until the process ends.

    The peak of memory in use is the same; what was freed stays with the process.

    Returns:
        Whether the C library took the setting; False on systems without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT) and mallopt(_TRIM_THRESHOLD, _NEVER))
