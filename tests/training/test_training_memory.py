"""Peak memory of one training among several in a process."""

import subprocess
import sys

import numpy as np
import pytest

from pact_eval.training import recipe_model as memory

# A process of its own: what other tests have freed may still be part of this one.
SCRIPT = """
import numpy, torch
from pact_eval.training.recipe_model import peak_memory_bytes, reset_peak_memory

cpu = torch.device("cpu")
held = numpy.ones(50_000_000)  # 400 MB
del held
before = peak_memory_bytes(cpu)
reset_peak_memory(cpu)
print(before - peak_memory_bytes(cpu))
"""


@pytest.mark.slow
@pytest.mark.skipif(not memory._CLEAR.exists(), reason="needs /proc of Linux")
def test_the_peak_of_an_earlier_training_is_forgotten() -> None:
    """Also if this process has had a higher peak, which `getrusage` of the other one returns."""
    assert np.ones(150_000_000).size  # 1.2 GB
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 300_000_000
