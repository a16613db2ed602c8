"""Is it a pickle? Told by reading its opcodes, of which none is carried out.

Pickles of the protocols 2 to 5 start with a mark of their own. Those of the protocols 0 and 1 are
plain text or nearly, and start with any opcode; so may a hostile one of a later protocol.
"""

from __future__ import annotations

import io
import pickletools
import re
import warnings
from typing import Final

__all__ = ["HEAD_BYTES", "is_pickle"]

HEAD_BYTES: Final = 1 << 16
"""How much of a file is read as opcodes."""

_CALLS: Final = {"REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"}
_IMPORTS: Final = {"GLOBAL", "STACK_GLOBAL"}
_NAMES: Final = re.compile(r"[\w.\-]+ [\w.\-]+")  # of a module, and of what is in it
# Fewer may be read in a text by chance: "Git v2.31.7" is a float, and the end.
_ENOUGH_OPCODES: Final = 8


def is_pickle(head: bytes) -> bool:
    r"""Say whether bytes read as a pickle: opcodes that find what they need on the stack.

    Args:
        head: the first `HEAD_BYTES` of a file, or all of it.

    Returns:
        True where the opcodes call something, import something and end, end where the file does,
        or are too many for a text.

    Example:
        >>> is_pickle(b"cos\nsystem\n(S'id'\ntR."), is_pickle(b"cos and system.")
        (True, False)
    """
    stream, stack, n_read, imports = io.BytesIO(head), _Stack(), 0, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for opcode, argument, _ in pickletools.genops(stream):
                stack.apply(opcode)
                n_read += 1
                if opcode.name == "GLOBAL" and not _NAMES.fullmatch(str(argument)):
                    return False
                imports = imports or opcode.name in _IMPORTS
                if opcode.name in _CALLS:
                    return True
    except (ValueError, OverflowError):
        # It broke off at an opcode that is none, or where the head ends.
        is_cut = len(head) >= HEAD_BYTES and stream.tell() == len(head)
        return is_cut and n_read >= _ENOUGH_OPCODES
    return imports or n_read >= _ENOUGH_OPCODES or stream.tell() == len(head)


class _Stack:
    """How many values lie on an unpickler's stack, and between its marks."""

    def __init__(self) -> None:
        self._depths = [0]

    def apply(self, opcode: pickletools.OpcodeInfo) -> None:
        """Take what an opcode takes and put what it puts; ValueError where there is too little."""
        takes, puts = opcode.stack_before, opcode.stack_after
        n_taken = len(takes)
        if pickletools.markobject in takes or (opcode.name == "POP" and self._depths[-1] == 0):
            if len(self._depths) == 1:
                message = "no mark"
                raise ValueError(message)
            self._depths.pop()
            is_pop = opcode.name == "POP"
            n_taken = 0 if is_pop else takes.index(pickletools.markobject)
        if self._depths[-1] < n_taken:
            message = "too little on the stack"
            raise ValueError(message)
        self._depths[-1] -= n_taken
        for value in puts:
            if value is pickletools.markobject:
                self._depths.append(0)
            else:
                self._depths[-1] += 1
