"""The logs in `fixtures/logs/helm`: HELM with joint multiple choice, run by its own runner.

    python tests/tool_logs/helm_logs.py FOLDER

    tiny        the tiny model through HuggingFaceClient: it rarely answers with a letter
    scripted    a client that answers with letters, spaces around them, a word, or nothing;
                two trials with other examples in the prompt, and perturbed questions

HELM 0.5.16 runs in an environment of its own: it asks for pandas 2 and datasets 3. The resources of
nltk are not downloaded, because they are for metrics of texts only. Of the statistics, those of
`KEPT` are kept.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import nltk

nltk.download = lambda *_arguments, **_options: True

from helm.benchmark.adaptation.adapter_spec import AdapterSpec  # noqa: E402 - after nltk.download
from helm.benchmark.augmentations.data_augmenter import DataAugmenterSpec  # noqa: E402
from helm.benchmark.augmentations.perturbation import PerturbationSpec  # noqa: E402
from helm.benchmark.executor import ExecutionSpec  # noqa: E402
from helm.benchmark.huggingface_registration import register_huggingface_model  # noqa: E402
from helm.benchmark.metrics.common_metric_specs import get_exact_match_metric_specs  # noqa: E402
from helm.benchmark.model_deployment_registry import (  # noqa: E402
    ClientSpec,
    ModelDeployment,
    register_model_deployment,
)
from helm.benchmark.model_metadata_registry import (  # noqa: E402
    get_unknown_model_metadata,
    register_model_metadata,
)
from helm.benchmark.run_spec import RunSpec  # noqa: E402
from helm.benchmark.runner import Runner  # noqa: E402
from helm.benchmark.scenarios.scenario import (  # noqa: E402
    CORRECT_TAG,
    TEST_SPLIT,
    TRAIN_SPLIT,
    Input,
    Instance,
    Output,
    Reference,
    Scenario,
    ScenarioSpec,
)
from helm.clients.client import Client  # noqa: E402
from helm.common.authentication import Authentication  # noqa: E402
from helm.common.request import GeneratedOutput, Request, RequestResult, Token  # noqa: E402

MODEL = Path(__file__).parents[2] / "fixtures" / "pact_fixtures" / "model"
NAMES = ("Ana", "Ben", "Cleo", "Dan", "Eve", "Finn")
THINGS = ("lamp", "ring", "map", "key")
TESTS = 8
KEPT = ("exact_match", "quasi_exact_match", "max_prob")


class Holding(Scenario):
    """Who is holding a thing?"""

    name = "holding"
    description = "Who is holding a thing?"
    tags = ()

    def get_instances(self, output_path: str) -> list[Instance]:
        """Return questions of four names; the last two have two right answers."""
        del output_path
        draw = random.Random(11)
        instances = []
        for number in range(TESTS + 4):
            who, gold, thing = draw.sample(NAMES, 4), draw.randrange(4), draw.choice(THINGS)
            sentences = [
                f"{name} is {'holding' if at == gold else 'looking for'} the {thing}."
                for at, name in enumerate(who)
            ]
            also = (gold + 1) % 4 if number >= TESTS + 2 else gold
            instances.append(
                Instance(
                    Input(f"{' '.join(sentences)}\nWho is holding the {thing}?"),
                    [
                        Reference(Output(name), [CORRECT_TAG] if at in (gold, also) else [])
                        for at, name in enumerate(who)
                    ],
                    split=TRAIN_SPLIT if number < 4 else TEST_SPLIT,
                )
            )
        return instances


class Scripted(Client):
    """Answers that depend on the prompt alone."""

    def make_request(self, request: Request) -> RequestResult:
        """Answer with a letter, with spaces around it, or with something else."""
        draw = random.Random(request.prompt)
        text = draw.choice([" A", " B", " C\n", "D", " A", " B", " the", ""])
        logprob = -draw.random()
        done = GeneratedOutput(text, logprob, [Token(text, logprob)] if text else [])
        return RequestResult(
            success=True,
            embedding=[],
            completions=[done],
            cached=False,
            request_time=0.0,
            request_datetime=0,
        )

    def tokenize(self, request: Any) -> Any:
        """Never called: the tokenizer is that of the tiny model."""
        raise NotImplementedError(request)

    decode = tokenize


def _spec(name: str, model: str, **changes: Any) -> RunSpec:
    perturbed = changes.pop("perturbed", False)
    adapter = AdapterSpec(
        method="multiple_choice_joint",
        instructions="Answer with a letter.",
        input_prefix="",
        reference_prefix="\nA. ",
        reference_suffix="",
        output_prefix="\nAnswer: ",
        max_train_instances=2,
        num_outputs=1,
        temperature=0.0,
        max_tokens=1,
        model=model,
        model_deployment=model,
        **changes,
    )
    augmentations = "helm.benchmark.augmentations"
    lower = PerturbationSpec(f"{augmentations}.lowercase_perturbation.LowerCasePerturbation")
    return RunSpec(
        name=name,
        scenario_spec=ScenarioSpec("helm_logs.Holding", {}),
        adapter_spec=adapter,
        metric_specs=get_exact_match_metric_specs(),
        data_augmenter_spec=DataAugmenterSpec(
            perturbation_specs=[lower] if perturbed else [],
            should_augment_eval_instances=perturbed,
            should_include_original_eval=True,
        ),
        groups=["holding"],
    )


def make(folder: Path) -> None:
    """Run HELM in a folder."""
    register_huggingface_model("pact/tiny", str(MODEL))
    register_model_metadata(get_unknown_model_metadata("pact/scripted"))
    register_model_deployment(
        ModelDeployment(
            name="pact/scripted",
            client_spec=ClientSpec("helm_logs.Scripted", {}),
            model_name="pact/scripted",
            tokenizer_name="pact/tiny",
            max_sequence_length=2000,
        )
    )
    runner = Runner(
        ExecutionSpec(None, Authentication(""), str(folder / "local"), parallelism=1),
        output_path=str(folder / "output"),
        suite="tiny",
        skip_instances=False,
        cache_instances=False,
        cache_instances_only=False,
        skip_completed_runs=False,
        exit_on_error=True,
    )
    runner.run_all(
        [
            _spec("tiny", "pact/tiny"),
            _spec("scripted", "pact/scripted", num_train_trials=2, perturbed=True),
        ]
    )
    for name in ("tiny", "scripted"):
        for kept in ("run_spec", "scenario_state", "per_instance_stats", "stats"):
            written = folder / "output" / "runs" / "tiny" / name / f"{kept}.json"
            (folder / name).mkdir(exist_ok=True)
            content = json.loads(written.read_text("utf-8"))
            if kept == "stats":
                content = [entry for entry in content if entry["name"]["name"] in KEPT]
            for instance in content if kept == "per_instance_stats" else ():
                instance["stats"] = [
                    stat for stat in instance["stats"] if stat["name"]["name"] in KEPT
                ]
            (folder / name / written.name).write_text(json.dumps(content) + "\n", "utf-8")
    for made in ("local", "output"):
        shutil.rmtree(folder / made)


if __name__ == "__main__":
    sys.modules["helm_logs"] = sys.modules["__main__"]
    make(Path(sys.argv[1]))
