"""Tiny causal models with random weights and tokenizers trained on the spot: nothing is downloaded.

Run as a script it writes one: `python tests/tiny_models.py FOLDER [qwen2|qwen3]`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = (
    "Write a function that returns the sum of two numbers.",
    "def add(a, b):\n    return a + b",
    "```python\nprint(1)\n```",
    "user assistant system tool 0123456789",
    '<tool_call>\n{"name": "bash", "arguments": {"command": "ls -la"}}\n</tool_call>',
)


def tokenizer(size: int) -> object:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|pad|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([text for text in TEXTS for _ in range(20)], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<|pad|>", eos_token="<|im_end|>", padding_side="left"
    )


def build(folder: Path, kind: str = "qwen2", *, hidden: int = 32, layers: int = 2, seed: int = 0) -> str:
    """Write a model of a hundred thousand bytes or so into `folder`, and return its path."""
    import torch
    import transformers

    words = tokenizer(400)
    words.chat_template = CHATML if kind == "qwen2" else _tool_template()  # type: ignore[attr-defined]
    end, pad = words.eos_token_id, words.pad_token_id  # type: ignore[attr-defined]
    options = {
        "vocab_size": len(words),  # type: ignore[arg-type]
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": pad,
        "tie_word_embeddings": True,
    }
    torch.manual_seed(seed)
    if kind == "qwen2":
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**options))
    else:
        config = transformers.Qwen3Config(head_dim=hidden // 4, **options)
        model = transformers.Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    words.save_pretrained(folder)  # type: ignore[attr-defined]
    return str(folder)


def _tool_template() -> str:
    """TRL's own template for Qwen3: it parses tool calls from the templates that it knows, and no others."""
    found = importlib.util.find_spec("trl")
    if found is None or found.origin is None:
        raise RuntimeError("a model that calls tools needs TRL's chat templates")
    return (Path(found.origin).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), *sys.argv[2:3]))
