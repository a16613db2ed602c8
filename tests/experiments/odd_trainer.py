"""A trainer that does what the name of its arm says: one that works, and several that do not."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
arm, out = options["--arm"], Path(options["--out"])
if arm in ("works", "breaks", "leaks"):
    subprocess.run([sys.executable, "train.py", *sys.argv[1:]], check=True)
weights = out / "adapter_model.safetensors"
if arm == "fails":
    sys.stdout.write("".join(f"line {number}\n" for number in range(30)))
    sys.exit(7)
if arm == "breaks":
    weights.write_bytes(weights.read_bytes()[:200])
if arm == "hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path("child.pid").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(3600)
if arm == "leaks":
    from pact_eval.custody import (
        HashedData,
        TrainingRecord,
        TrainingRole,
        UsedData,
        hash_data,
        write_training_record,
    )

    used: dict[TrainingRole, HashedData] = {
        "train": hash_data([UsedData(Path("data/holdout.jsonl"))])
    }
    sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
    named = write_training_record(out, TrainingRecord(sha256, used, {}))
    config = json.loads((out / "schema_config.json").read_text())
    (out / "schema_config.json").write_text(json.dumps(config | {"training_data_sha256": named}))
