"""Commit of a base model on the Hub, of which a branch or tag may have moved."""

from __future__ import annotations

from pact_eval.errors import PactError
from pact_eval.hub.downloads import list_repository
from pact_eval.hub.names import is_hub_id, model_name
from pact_eval.hub.snapshots import COMMIT


def can_move(base: str) -> bool:
    """Return whether a base is a name on the Hub whose revision is not a commit.

    Examples:
        >>> can_move("owner/name"), can_move("owner/name@main"), can_move("owner/name@" + 40 * "a")
        (True, True, False)
        >>> can_move("?")
        False
    """
    name = model_name(base) if is_hub_id(base) else None
    return name is not None and not COMMIT.fullmatch(name.revision or "")


def base_commit(base: str) -> tuple[str | None, tuple[str, ...]]:
    """Ask the Hub which commit a base is now.

    Args:
        base: `owner/name`, with `@revision` or not.

    Returns:
        The commit, and notes: what is not known if the Hub cannot be asked.

    Examples:
        >>> base_commit("owner/name@" + 40 * "a")
        (None, ())
    """
    name = model_name(base) if can_move(base) else None
    if name is None:
        return None, ()
    try:
        return list_repository(name).name.revision, ()
    except PactError as error:
        reason = str(error).removeprefix(f"{name}: ")
        note = f"the commit of {base} is not known, so a change of it is not noticed: {reason}"
        return None, (f"model: base: {note}",)
