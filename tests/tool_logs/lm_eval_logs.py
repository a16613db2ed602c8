"""The logs in `fixtures/logs/lm_eval*`: lm-evaluation-harness with the tiny model, on small tasks.

    python tests/tool_logs/lm_eval_logs.py FOLDER

    holding_letters    choices A to D, shown in the prompt; the target is an index
    holding_texts      choices are names; the target is a text; mutual information; two filters
    tiny_wino          two prompts and one continuation, as in WinoGrande: target is not gold
    holding_several    in `lm_eval_several`: two right answers in every second question
    holding_texts      in `lm_eval_pair` too: by the base model, and by an adapter

The results lack what describes the machine (`pretty_env_info`, `upper_git_hash`).
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pact_fixtures"
MODEL = FIXTURES / "model"
ADAPTER = FIXTURES / "adapters" / "nimble_recipe"
NAMES = ("Ana", "Ben", "Cleo", "Dan", "Eve", "Finn")
THINGS = ("lamp", "ring", "map", "key")

_COMMON = """
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: multiple_choice
"""
_LETTERS = r"""
task: holding_letters
doc_to_text: "{{passage}}\n{{question}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
metric_list:
  - metric: acc
  - metric: acc_norm
"""  # noqa: E501 - one line of YAML
_TEXTS = r"""
task: holding_texts
doc_to_text: "{{passage}}\n{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer_text
metric_list:
  - metric: acc
  - metric: acc_mutual_info
filter_list:
  - name: none
    filter:
      - function: take_first
  - name: again
    filter:
      - function: take_first
"""
_WINO = """
task: tiny_wino
doc_to_text: !function wino.gold
doc_to_choice: !function wino.options
doc_to_target: target
metric_list:
  - metric: acc
"""
_SEVERAL = (
    _LETTERS.replace("holding_letters", "holding_several")
    .replace("doc_to_target: answer", "doc_to_target: right")
    .replace("  - metric: acc_norm\n", "")
)
_WINO_PY = """def gold(doc):
    return doc["gold"]


def options(doc):
    return doc["options"]
"""


def write_tasks(folder: Path) -> None:
    """Write data and tasks; paths are relative to the folder."""
    draw = random.Random(5)
    holding: list[dict[str, Any]] = []
    for number in range(12):
        who, gold, thing = draw.sample(NAMES, 4), draw.randrange(4), draw.choice(THINGS)
        sentences = [
            f"{name} is {'holding' if place == gold else 'looking for'} the {thing}."
            for place, name in enumerate(who)
        ]
        holding.append(
            {
                "id": f"q{number}",
                "article": f"a{number // 2}",
                "passage": " ".join(sentences),
                "question": f"Who is holding the {thing}?",
                "choices": who,
                "answer": gold,
                "answer_text": who[gold],
                "right": [gold, (gold + 1) % 4][: 1 + number % 2],
            }
        )
    wino: list[dict[str, Any]] = []
    for number in range(8):
        pair = draw.sample(NAMES, 2)
        options = [f"{pair[0]} gave the map to {pair[1]} because {name}" for name in pair]
        gold = draw.randrange(2)
        wino.append({"id": number, "options": options, "target": "asked for it.", "gold": gold})
    for name, rows in (("holding.jsonl", holding), ("wino.jsonl", wino)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = {"letters": _LETTERS, "texts": _TEXTS, "wino": _WINO, "several": _SEVERAL}
    for name, text in tasks.items():
        data = "wino.jsonl" if name == "wino" else "holding.jsonl"
        (folder / f"{name}.yaml").write_text(text + _COMMON.format(data=data))
    (folder / "wino.py").write_text(_WINO_PY)


def make(folder: Path) -> None:
    """Run the harness in a folder.

    The results are in `out/tiny`, `several/tiny`, `base/tiny` and `adapter/nimble_recipe`.
    """
    write_tasks(folder)
    (folder / "tiny").symlink_to(MODEL)
    with contextlib.chdir(folder):
        _run("out", ["holding_letters", "holding_texts", "tiny_wino"])
        _run("several", ["holding_several"])
    make_pair(folder)


def make_pair(folder: Path) -> None:
    """Run the base model and an adapter on the same questions."""
    write_tasks(folder)
    for link, place in (("tiny", MODEL), ("nimble_recipe", ADAPTER)):
        if not (folder / link).is_symlink():
            (folder / link).symlink_to(place)
    with contextlib.chdir(folder):
        _run("base", ["holding_texts"])
        _run("adapter", ["holding_texts"], peft="nimble_recipe")


def _run(out: str, tasks: list[str], **model: str) -> None:
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    tracker = EvaluationTracker(output_path=out)
    results = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": "tiny", "dtype": "float32"} | model,
        tasks=tasks,
        task_manager=TaskManager(include_path="."),
        log_samples=True,
        evaluation_tracker=tracker,
        bootstrap_iters=0,
        device="cpu",
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    for path in Path(sys.argv[1]).glob("*/*/results_*.json"):
        value = json.loads(path.read_text())
        for key in ("pretty_env_info", "upper_git_hash"):
            value.pop(key, None)
        path.write_text(json.dumps(value, indent=2) + "\n")
