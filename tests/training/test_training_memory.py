"""Peak memory of one training among several in a process."""

import numpy as np
import pytest
import torch

from pact_eval.training import memory

CPU = torch.device("cpu")


@pytest.mark.skipif(not memory._CLEAR.exists(), reason="needs /proc of Linux")
def test_the_peak_of_an_earlier_training_is_forgotten() -> None:
    held = np.ones(50_000_000)  # 400 MB
    del held
    before = memory.peak_memory_bytes(CPU)
    memory.reset_peak_memory(CPU)
    after = memory.peak_memory_bytes(CPU)
    assert before is not None
    assert after is not None
    assert before - after > 200_000_000
