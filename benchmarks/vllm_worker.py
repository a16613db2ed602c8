"""vLLM in a process of its own, for `shapes.py`: it scores the same prompts, turn after turn.

    python benchmarks/vllm_worker.py MODEL_FOLDER      # run by a Python with vLLM

The first line of stdin is JSON: a list of {"ids": [...], "codes": [...]}. Each further line asks
for one turn with an empty prefix cache. Each answer is one line of JSON on stdout: seconds, and for
every prompt the log-probabilities of its codes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any


def main() -> None:
    """Answer turns until stdin ends.

    Raises:
        SystemExit: this Python has no vLLM.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODEL_FOLDER")
    folder: str = parser.parse_args().model
    try:
        from vllm import LLM, SamplingParams
    except ImportError as error:
        message = f"expected a Python with vLLM, got {sys.executable}: not measured"
        raise SystemExit(message) from error

    answers, sys.stdout = sys.stdout, sys.stderr  # what vLLM prints goes to stderr
    model: Any = LLM(
        folder,
        dtype="float32",
        enable_prefix_caching=True,
        enforce_eager=True,
        skip_tokenizer_init=True,
        max_model_len=4608,
        max_logprobs=26,
        seed=0,
    )
    prompts = json.loads(sys.stdin.readline())
    inputs = [{"prompt_token_ids": prompt["ids"]} for prompt in prompts]
    settings = [
        SamplingParams(
            temperature=0,
            max_tokens=1,
            logprobs=len(prompt["codes"]),
            logprob_token_ids=prompt["codes"],
            detokenize=False,
        )
        for prompt in prompts
    ]
    for _turn in sys.stdin:
        model.reset_prefix_cache()
        started = time.perf_counter()
        outputs = model.generate(inputs, settings, use_tqdm=False)
        seconds = time.perf_counter() - started
        logprobs = [
            [one.outputs[0].logprobs[0][code].logprob for code in prompt["codes"]]
            for one, prompt in zip(outputs, prompts, strict=True)
        ]
        answers.write(json.dumps({"seconds": seconds, "logprobs": logprobs}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
