"""A trainer as a user may write it: it imports nothing of pact-eval, and is done in no time."""

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

parser = argparse.ArgumentParser()
for name in ("arm", "seed", "base", "train", "out", "settings"):
    parser.add_argument(f"--{name}", required=True)
options = parser.parse_args()
settings = json.loads(options.settings)
with Path(options.train).open(encoding="utf-8") as lines:
    records = [json.loads(line) for line in lines]
rng = np.random.default_rng([int(options.seed), len(records), len(options.arm)])
size = json.loads(Path(options.base, "config.json").read_text())["hidden_size"]
weights = {}
for side, shape in (("A", (2, size)), ("B", (size, 2))):
    numbers = rng.normal(0, settings.get("scale", 0.05), shape)
    module = "base_model.model.model.layers.0.self_attn.o_proj"
    weights[f"{module}.lora_{side}.weight"] = numbers.astype(np.float32)
out = Path(options.out)
out.mkdir(parents=True, exist_ok=True)
save_file(weights, out / "adapter_model.safetensors", metadata={"format": "pt"})
config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4}
config |= {"target_modules": ["o_proj"], "layers_to_transform": [0]}
config |= {"base_model_name_or_path": options.base}
contract = {"task": "schema_candidate_classification_v1", "seed": int(options.seed)}
contract["contract_fingerprint"] = (
    "fb04eca3d6dc37d419a4556dff33ce47f17ffcdb9c41c176ac2c023de48244b7"
)
for file, content in (("adapter_config", config), ("schema_config", contract)):
    (out / f"{file}.json").write_text(json.dumps(content))
