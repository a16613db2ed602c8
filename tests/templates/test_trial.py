"""Planted templates that do not end, or that take gigabytes, against the shipped ones that do."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from adapters import MODEL, copied
from commands import refuser, runner
from decision_models import TEMPLATES, write_decision_folder
from messages import assert_says

from pact_cli.audit.main import main as pact_audit
from pact_cli.main import main as pact_eval
from pact_eval.templates.files import DecisionFiles, first_rendering

_LOOP = "{%- for {0} in range(99999) -%}"
ENDLESS = {
    "nested loops": "".join(_LOOP.replace("{0}", name) for name in "abc") + "{%- endfor -%}" * 3,
    "a power of powers": "{{ (7 ** (10 ** 9)) % 7 }}",
}
UNBOUNDED = {
    "a text times a number": "{{ 'a' * 10 ** 10 }}",
    "a list times a number": "{{ ([state] * 10 ** 10)|length }}",
    "doubled in a loop": (
        "{%- set n = namespace(text='abc') -%}{%- for i in range(40) -%}"
        "{%- set n.text = n.text ~ n.text -%}{%- endfor -%}{{ n.text }}"
    ),
    "padded": "{{ '%20000000000d' % 7 }}",
    "in a generation block": "{% generation %}{{ 'a'.ljust(10 ** 10) }}{% endgeneration %}",
}
HOSTILE = ENDLESS | UNBOUNDED
HOLDOUT = MODEL.parent / "data" / "holdout.jsonl"


def _without_limits(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Hide `resource` from the child, as on Windows."""
    (folder / "resource.py").write_text("raise ImportError", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*UNBOUNDED, "a power of powers"])
def test_a_hostile_template_is_refused_within_15_seconds(name: str) -> None:
    started = time.monotonic()
    trial = first_rendering(DecisionFiles(HOSTILE[name]))
    assert time.monotonic() - started < 15
    if os.name == "posix" and sys.platform != "darwin":
        assert trial == ("time" if name in ENDLESS else "memory")
    else:
        assert trial in ("time", "memory")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["doubled in a loop", "nested loops"])
@pytest.mark.parametrize("contract", ["nimble", "generic"])
def test_a_hostile_chat_template_of_a_base_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, contract: str
) -> None:
    """An adapter chooses its base: `score` refuses it before it renders a prompt."""
    monkeypatch.setattr("pact_eval.prompts.trial.TRIAL_SECONDS", 2.0)
    base = shutil.copytree(MODEL, tmp_path / "base")
    (base / "chat_template.jinja").write_text(HOSTILE[name], encoding="utf-8")
    words = ("score", "--base-model", base, "--no-adapter", "--data", HOLDOUT)
    started = time.monotonic()
    said = refuser(pact_eval)(*words, "--contract", contract, "--out", tmp_path / "run")
    assert_says(said, "chat template does not end", "first rendering took more than")
    assert time.monotonic() - started < 60
    adapter = copied(tmp_path / "adapter")
    audit = runner(pact_audit)("adapter", adapter, "--base-model", base, code=3)
    assert_says(audit.stdout, "chat-template-does-not-end", "first rendering took more than")


@pytest.mark.slow
def test_loops_are_ended_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a limit of 2 s: the one power above, which no signal handler of Python ends, waits 10."""
    monkeypatch.setattr("pact_eval.prompts.trial.TRIAL_SECONDS", 2.0)
    assert first_rendering(DecisionFiles(ENDLESS["nested loops"])) == "time"


@pytest.mark.slow
def test_without_resource_the_time_is_limited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _without_limits(monkeypatch, tmp_path)
    monkeypatch.setattr("pact_eval.prompts.trial.TRIAL_SECONDS", 2.0)
    longer = f"{ENDLESS['nested loops']}{{# not rendered before #}}"
    assert first_rendering(DecisionFiles(longer)) == "time"


@pytest.mark.parametrize("name", TEMPLATES)
def test_honest_templates_end(name: str) -> None:
    assert first_rendering(DecisionFiles(TEMPLATES[name].get("chat_template"))) == "ends"


def test_a_template_that_raises_ends() -> None:
    assert first_rendering(DecisionFiles("{{ raise_exception('only scores') }}")) == "ends"
    assert first_rendering(DecisionFiles("{% if %}")) == "ends"  # refused as no template, later


@pytest.mark.slow
def test_score_decide_and_the_audit_refuse_the_adapter(tmp_path: Path) -> None:
    adapter = copied(tmp_path / "adapter")
    config = {"chat_template": UNBOUNDED["a text times a number"]}
    write_decision_folder(adapter, config)
    (adapter / "schema_config.json").unlink()
    base = ("--base-model", MODEL)
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"sealed": {"type": "noul", "instructions": "Is it so?"}}))
    refused = refuser(pact_eval)
    score = refused("score", adapter, *base, "--data", HOLDOUT, "--out", tmp_path / "run")
    assert_says(score, "more than 1 GB")
    assert not (tmp_path / "run").exists()
    words = ("--schema", schema, "--context", "The seal is broken.")
    assert_says(refused("decide", adapter, *base, *words), "more than 1 GB")
    audit = runner(pact_audit)("adapter", adapter, "--json", code=3)
    assert "template-does-not-end" in audit.stdout
