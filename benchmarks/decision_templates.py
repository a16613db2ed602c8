"""Decision templates: our engine against `pipeline("decision")`, from records to answers.

    python benchmarks/decision_templates.py --write benchmarks/performance.md

Both render the same template, the Nimble contract as `pact-eval export` writes it, for the items
and the model of `scoring.py`. Times include rendering and tokenising. At K = 1 both have the same
prompts, and answers are compared. At K = 4 the pipeline is asked four times per item: choices and
scores with their answers in the orders of the views, booleans in one order, as a request has no
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from common import Contest, chosen_options, machine, markdown_table, parser, publish, versions
from scoring import CPU, FIXTURES, PROMPT_TOKENS, SEED, make_items, make_model, probed_kernel
from transformers.decision import DecisionConfig

from pact_eval.data.records import Record
from pact_eval.prompts.contract import code_orders
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.cpu import float32_products, keep_freed_memory
from pact_eval.scoring.prefix_tree import prefix_tree
from pact_eval.scoring.scorer import Scorer
from pact_eval.templates.contract import DecisionTemplate
from pact_eval.templates.files import TYPES, DecisionFiles, nimble_template

VIEWS = (1, 4)


def ours(model: Any, encoder: Encoder, records: Sequence[Record], k: int) -> Callable[[], Any]:
    """Return a contestant: encode the views and score them with the fork engine."""
    views = encoder.encode(records[:2], k, SEED)
    scorer = Scorer(model, 4096, "fork", probed_kernel(model, views))
    scorer.prepare(views)
    return lambda: scorer.score(encoder.encode(records, k, SEED))


def pipeline(model: Any, tokenizer: Any, files: DecisionFiles) -> Any:
    """Return the pipeline with a template."""
    config = DecisionConfig(
        labels={name: [*labels] for name, labels in files.labels.items()},
        chat_template=files.template,
        noul_options=[*files.noul_options],
        sanitize_control_tokens=files.sanitize_control_tokens,
    )
    return transformers.pipeline(
        "decision", model=model, tokenizer=tokenizer, decision_config=config
    )


def requests(record: Record, k: int) -> list[dict[str, Any]]:
    """Return the requests of the K views of a record."""
    bodies = []
    for order in code_orders(SEED, record.id, record.n_choices, k):
        field = record.field
        answers = [field.answers[index] for index in order]
        question: dict[str, Any] = {
            "type": TYPES[field.kind],
            "instructions": field.instructions,
            "criteria": {answer.key: answer.description for answer in answers},
        }
        if field.kind == "score":
            question["criteria"] = [answer.description for answer in answers]
        elif field.kind == "boolean":
            told = {a.key: a.description for a in answers if a.description is not None}
            question["criteria"] = told
        bodies.append({"state": record.state, "questions": {"decision": question}})
    return bodies


def shared_tokens(encoder: Encoder, records: Sequence[Record]) -> str:
    """Return how many tokens both compute: the ratio of times without any other difference."""
    told = []
    for k in VIEWS:
        tree = prefix_tree([view.token_ids for view in encoder.encode(records, k, SEED)])
        ratio = tree.prompt_tokens / tree.tokens
        told.append(f"K = {k}: {tree.prompt_tokens:,} / {tree.tokens:,} = {ratio:.2f}.")
    return " ".join(["Tokens of all prompts over those that the fork engine computes.", *told])


def largest_difference(scored: Sequence[Any], answers: Sequence[dict[str, Any]]) -> float:
    """Return the largest difference of a probability."""
    largest = 0.0
    for one, reply in zip(scored, answers, strict=True):
        here = torch.tensor(one.logits).double().softmax(-1).numpy()
        answer = reply["decision"]
        there = answer.get("probabilities", {}).values() or (1 - answer["noul"], answer["noul"])
        largest = max(largest, float(np.abs(here - [*there]).max()))
    return largest


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, default=8, help="pairs to score")
    options.add_argument("--tokens", type=int, default=PROMPT_TOKENS, help="of a prompt, at least")
    chosen = chosen_options(options, blocks=1, pairs=1, tokens=1)
    transformers.utils.logging.set_verbosity_error()
    keep_freed_memory()
    tokenizer = transformers.AutoTokenizer.from_pretrained(FIXTURES / "model")
    records = make_items(Encoder(tokenizer, NIMBLE), chosen.pairs, chosen.tokens).pairs
    files = nimble_template(tokenizer)
    encoder = Encoder(tokenizer, DecisionTemplate(files), 4096)
    model = make_model("Qwen3", len(tokenizer) + 2)  # the pipeline adds two tokens
    decide = pipeline(model, tokenizer, files)
    contestants: dict[str, Callable[[], Any]] = {}
    for k in VIEWS:
        bodies = [request for record in records for request in requests(record, k)]
        contestants[f"ours, K = {k}"] = ours(model, encoder, records, k)
        contestants[f"pipeline, K = {k}"] = lambda bodies=bodies: [decide(body) for body in bodies]
    with float32_products(CPU, torch.float32) as products:
        differs = largest_difference(
            *(contestants[f"{who}, K = 1"]() for who in ("ours", "pipeline"))
        )
        contest = Contest(contestants)
        contest.run(chosen.blocks)
    rows = [
        [
            str(k),
            f"{contest.seconds(f'pipeline, K = {k}') / len(records):.3f}",
            f"{contest.seconds(f'ours, K = {k}') / len(records):.3f}",
            f"{contest.ratio(f'pipeline, K = {k}', f'ours, K = {k}'):.2f}",
        ]
        for k in VIEWS
    ]
    lengths = [len(view.token_ids) for view in encoder.encode(records, 1, SEED)]
    heads = ["K", 'pipeline("decision"), s per item', "pact-eval, s per item", "ratio of times"]
    parts = [
        f"{machine()}; {versions('torch', 'transformers')}; {chosen.blocks} blocks.",
        markdown_table(heads, rows),
        f"{len(records)} records in pairs, {np.mean(lengths):.0f} tokens per prompt. Matrix "
        f"products: {products}. Times include rendering and tokenising. At K = 1, the largest "
        f"difference of a probability is {differs:.1e}. {shared_tokens(encoder, records)}",
    ]
    ratios = {f'pipeline("decision") / ours, K = {row[0]}': float(row[-1]) for row in rows}
    publish("decision-templates", "\n\n".join(parts), chosen.write, ratios)


if __name__ == "__main__":
    main()
