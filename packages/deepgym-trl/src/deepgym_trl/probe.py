"""What ``check`` starts in a process of its own: the installed TRL's trainers, on a model made of noise.

``python -m deepgym_trl.probe answer.json`` writes one JSON object: for each question its answer, or
``{"error": ...}``. Nothing is downloaded; the model has some thousand weights.

touches: GRPOTrainer._generate_and_score_completions, RLOOTrainer._generate_and_score_completions (to read
off the advantages that the trainer has computed).
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["GROUP", "TOUCHES", "made", "main", "outputs", "step"]

TOUCHES = (
    "trl.GRPOTrainer._generate_and_score_completions",
    "trl.RLOOTrainer._generate_and_score_completions",
)
#: Rewards of one group, with an outage in it. Without the ``None`` they are those of the group beside it.
GROUP = (1.0, 0.0, None, 0.25)
_CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
#: Modules of this package that use private parts of TRL and say so in their own TOUCHES.
USERS = ("masking", "trainer_of", "probe")


def main(path: str) -> None:
    """Answer all questions into the file ``path``. A question that raises has its error as its answer."""
    questions: dict[str, Callable[[], Any]] = {
        "grpo": functools.partial(group_with_an_outage, "GRPO"),
        "rloo": functools.partial(group_with_an_outage, "RLOO"),
        "loss": tokens_in_the_loss,
        "async": async_form,
        "trainer": trainer_is_found,
        "tools": tool_calls_read,
        "missing": missing_parts,
    }
    Path(path).write_text(json.dumps({name: _answered(ask) for name, ask in questions.items()}))


def _answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - whatever TRL raises here is what was asked
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def group_with_an_outage(kind: str) -> dict[str, list[float]]:
    """Advantages of a group in which one row has no reward, and of the same group without that row."""
    return {"with": _advantages(kind, GROUP), "without": _advantages(kind, _judged(GROUP))}


def tokens_in_the_loss() -> list[float]:
    """Tokens of each row that ``DeepGymGRPOTrainer`` trains on; 0 for the row without a reward."""
    import trl

    from .trainers import DeepGymGRPOTrainer

    batch = outputs(DeepGymGRPOTrainer, trl.GRPOConfig, _judge(GROUP), len(GROUP))
    counted: list[float] = (batch["completion_mask"] * batch["tool_mask"]).sum(1).tolist()
    return counted


def async_form() -> list[float]:
    """Advantages of one step with the ``async`` reward function, which TRL has to await."""
    import trl

    from .rewards import make_async_trl_reward_fn

    judge: Any = make_async_trl_reward_fn("two_sum", masked=False)
    with closing(judge.args[0]):
        return step(trl.GRPOTrainer, trl.GRPOConfig, judge, 2)


def trainer_is_found() -> bool:
    """Whether a reward function learns which trainer calls it."""
    import trl

    from .trainer_of import trainer_of

    found: list[Any] = []

    def judge(completions: Sequence[Any], log_metric: Any = None, **columns: Any) -> list[float]:
        found.append(trainer_of(log_metric))
        return [0.0] * len(completions)

    step(trl.GRPOTrainer, trl.GRPOConfig, judge, 2)
    return isinstance(found[0], trl.GRPOTrainer)


def tool_calls_read() -> list[str]:
    """Names of the tools that TRL and transformers together find in one call as Qwen3 writes it."""
    import trl

    _, tokenizer = _noise()
    template = Path(trl.__file__).with_name("chat_templates") / "qwen3.jinja"
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    import_module("trl.chat_template_utils").add_response_schema(tokenizer)
    read = tokenizer.parse_response
    prefix = {"prefix": ""} if "prefix" in inspect.signature(read).parameters else {}
    message = read(_CALL, **prefix)
    return [call["function"]["name"] for call in message.get("tool_calls", ())]


def missing_parts() -> list[str]:
    """Names of TRL's private parts that this package uses and that the installed TRL doesn't have.

    ``trl.GRPOTrainer._log_metric`` is looked for in the class, ``trl.GRPOTrainer(): beta`` in a trainer.
    """
    import trl

    used = {name for user in USERS for name in import_module(f"deepgym_trl.{user}").TOUCHES}
    owners: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("GRPO", "RLOO"):
            trainer, config = getattr(trl, f"{kind}Trainer"), getattr(trl, f"{kind}Config")
            owners[f"trl.{kind}Trainer"] = trainer
            owners[f"trl.{kind}Trainer()"] = made(trainer, config, _judge([0.0, 0.0]), 2, folder)
    return sorted(name for name in used if not _is_there(name, owners))


def _is_there(name: str, owners: Mapping[str, Any]) -> bool:
    owner, _, attribute = name.replace(": ", ".").rpartition(".")
    return hasattr(owners[owner], attribute)


def step(trainer_class: Any, config_class: Any, judge: Callable[..., Any], rows: int) -> list[float]:
    """Advantages that a real trainer computes in one step of training, of one group of ``rows``.

    Raises whatever the trainer raises.
    """
    advantages = outputs(trainer_class, config_class, judge, rows)["advantages"]
    return [float(value) for value in advantages]


def outputs(trainer_class: Any, config_class: Any, judge: Callable[..., Any], rows: int) -> dict[str, Any]:
    """What the loss of that step is made of: ``advantages``, ``completion_mask``, ..., by TRL's own names."""
    seen: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = made(trainer_class, config_class, judge, rows, folder)
        score = trainer._generate_and_score_completions

        def scored(inputs: Any) -> Any:
            seen.append(score(inputs))
            return seen[-1]

        trainer._generate_and_score_completions = scored
        trainer.train()
    return seen[0]


def made(trainer_class: Any, config_class: Any, judge: Callable[..., Any], rows: int, folder: str) -> Any:
    """A trainer of noise for one step of one group, which writes into ``folder`` if anywhere."""
    from datasets import Dataset

    config = config_class(
        output_dir=folder,
        per_device_train_batch_size=rows,
        num_generations=rows,
        max_completion_length=2,
        max_steps=1,
        beta=0.0,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    )
    model, tokenizer = _noise()
    return trainer_class(
        model=model,
        reward_funcs=judge,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "a b c"}] * rows),
        processing_class=tokenizer,
    )


def _advantages(kind: str, rewards: Sequence[float | None]) -> list[float]:
    import trl

    trainer, config = getattr(trl, f"{kind}Trainer"), getattr(trl, f"{kind}Config")
    return step(trainer, config, _judge(rewards), len(rewards))


def _judge(rewards: Sequence[float | None]) -> Callable[..., list[float | None]]:
    def judge(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return list(rewards)

    return judge


def _judged(rewards: Sequence[float | None]) -> list[float]:
    return [reward for reward in rewards if reward is not None]


@functools.lru_cache(maxsize=1)
def _noise() -> tuple[Any, Any]:
    """A model with random weights and a tokenizer of a few words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    words = {word: index for index, word in enumerate(["<pad>", "<eos>", "<unk>", *"abcdefgh"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
    )
    return Qwen2ForCausalLM(config), fast


if __name__ == "__main__":
    main(sys.argv[1])
