"""Do workers agree? If they do not, the bytes of a run would depend on who scores what."""

from __future__ import annotations

from collections.abc import Mapping

from pact_eval._json import Json, dumps, flat
from pact_eval.errors import WorkerError
from pact_eval.scoring.workers.messages import WorkerDescription

DRIVER = "this process"


def check_agreement(
    settings: Mapping[str, Json],
    versions: Mapping[str, Json],
    workers: Mapping[str, WorkerDescription],
) -> None:
    """Check that workers have the model of the driver, and score alike.

    They must agree in the hashes of the weights and all else that identifies the model, the
    versions of the libraries, the device, the number of threads, and the engine with every number
    of its check.

    Args:
        settings: what identifies the model here.
        versions: versions of the libraries here.
        workers: the workers, by name.

    Raises:
        WorkerError: they do not agree; the message names the values and who has which.

    Examples:
        >>> one = WorkerDescription("a", 7, "cpu", 1, {}, {}, {"engine": {"name": "fork"}})
        >>> other = WorkerDescription("b", 8, "cpu", 1, {}, {}, {"engine": {"name": "naive"}})
        >>> check_agreement({}, {}, {"worker 1": one})
        >>> check_agreement({}, {}, {"worker 1": one, "worker 2": other})
        Traceback (most recent call last):
            ...
        pact_eval.errors.WorkerError: workers do not agree; nothing more was scored:
          facts.engine.name: "fork" on worker 1 (a, process 7); "naive" on worker 2 (b, process 8)
    """
    here: dict[str, Json] = {"settings": dict(settings), "versions": dict(versions)}
    found = {DRIVER: flat(here)}
    for name, worker in workers.items():
        found[f"{name} ({worker.host}, process {worker.pid})"] = flat(
            {
                "settings": dict(worker.settings),
                "versions": dict(worker.versions),
                "device": worker.device,
                "threads": worker.threads,
                "facts": dict(worker.facts),
            }
        )
    lines = [
        f"  {key}: {said}"
        for key in sorted({key for values in found.values() for key in values})
        if (said := _disagreement(key, found)) is not None
    ]
    if lines:
        message = "workers do not agree; nothing more was scored:\n" + "\n".join(lines)
        raise WorkerError(message)


def _disagreement(key: str, found: Mapping[str, Mapping[str, Json]]) -> str | None:
    """Return who has which value; None if all have one. The driver has settings and versions."""
    asked = key.startswith(("settings.", "versions."))
    by_value: dict[str, list[str]] = {}
    for who, values in found.items():
        if who != DRIVER or asked:
            by_value.setdefault(dumps(values.get(key)), []).append(who)
    if len(by_value) < 2:
        return None
    return "; ".join(f"{value} on {', '.join(names)}" for value, names in by_value.items())
