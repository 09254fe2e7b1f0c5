"""``make_verl_reward_fn`` with what a loop of one's own really has: verl's batches, and its batch manager."""

from __future__ import annotations

import asyncio
import pickle
import runpy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepgym import DeepGym, load_environment
from deepgym.exceptions import NoVerdictError
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, SCRIPT, WRONG
from deepgym_verl import make_verl_reward_fn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl.workers.reward_manager import BatchRewardManager

    from verl import DataProto

PROMPT = 12


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A byte-level one of 400 tokens, as a fast tokenizer of transformers'."""
    made = runpy.run_path(str(Path(__file__).parent.parent / "tiny_models.py"))["tokenizer"](400)
    return made


@pytest.fixture
def dg() -> Iterator[DeepGym]:
    with DeepGym(provider=FakeProvider(SCRIPT)) as client:
        yield client


def batch_of(tokenizer: Any, answers: list[str], rows: list[dict[str, Any]] | None = None) -> Any:
    """What a rollout leaves: prompts filled up at the left, responses at the right."""
    texts = [f"So:\n```python\n{each}\n```\n" if each else "" for each in answers]
    ids = [[*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id] for text in texts]
    longest, pad = max(map(len, ids)), tokenizer.pad_token_id
    prompt = tokenizer.encode("Write add.", add_special_tokens=False)[:PROMPT]
    left = [pad] * (PROMPT - len(prompt))
    responses = torch.tensor([each + [pad] * (longest - len(each)) for each in ids])
    prompts = torch.tensor([left + prompt] * len(ids))
    before = [0] * len(left) + [1] * len(prompt)
    mask = torch.tensor([before + [1] * len(each) + [0] * (longest - len(each)) for each in ids])
    rows = [{"env": ADD.name}] * len(ids) if rows is None else rows
    return DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "attention_mask": mask,
            "input_ids": torch.cat([prompts, responses], dim=1),
        },
        non_tensors={
            "data_source": np.array(["deepgym/laws"] * len(ids), dtype=object),
            "reward_model": np.array(
                [{"style": "rule", "ground_truth": row.get("env")} for row in rows], dtype=object
            ),
            "extra_info": np.array([dict(row) for row in rows], dtype=object),
            "uid": np.array([f"uid-{number // 4}" for number in range(len(ids))], dtype=object),
        },
    )


def test_a_batch_of_verl_s_has_its_rewards(tokenizer: Any, dg: DeepGym) -> None:
    reward_fn = make_verl_reward_fn(ADD, tokenizer=tokenizer, dg=dg)
    batch = batch_of(tokenizer, list(ANSWERS))
    assert reward_fn(batch) == list(ANSWERS.values())
    assert asyncio.run(reward_fn.rewards(batch)) == list(ANSWERS.values())
    assert reward_fn(batch[2:5]) == list(ANSWERS.values())[2:5]
    assert reward_fn(batch.repeat(2, interleave=True)) == [
        each for each in ANSWERS.values() for _ in range(2)
    ]
    halves = [reward for half in batch.chunk(2) for reward in reward_fn(half)]
    assert halves == list(ANSWERS.values())


def test_rows_name_their_environments(tokenizer: Any, dg: DeepGym) -> None:
    envs = [ADD, load_environment("two_sum")]
    reward_fn = make_verl_reward_fn(envs, tokenizer=tokenizer, dg=dg)
    batch = batch_of(tokenizer, [GOOD, GOOD], [{"env": "two_sum"}, {"env": ADD.name}])
    assert [result.env_name for result in reward_fn.results(batch)] == ["two_sum", ADD.name]
    del batch.non_tensor_batch["extra_info"]
    assert [result.env_name for result in reward_fn.results(batch)] == ["two_sum", ADD.name]


def test_an_outage_is_none_and_never_a_number(tokenizer: Any) -> None:
    provider = FaultyProvider(FakeProvider(SCRIPT), Fault("network"), rate=0.5, seed=1)
    with DeepGym(provider=provider) as dg:
        reward_fn = make_verl_reward_fn(ADD, tokenizer=tokenizer, dg=dg)
        rewards = reward_fn(batch_of(tokenizer, [GOOD, HALF, WRONG] * 8))
    assert len(rewards) == 24
    assert 0 < rewards.count(None) < 24
    for reward, expected in zip(rewards, [1.0, 0.5, 0.0] * 8, strict=True):
        assert reward in (expected, None)


def test_verl_s_own_batch_manager_calls_it(tokenizer: Any, dg: DeepGym) -> None:
    reward_fn = make_verl_reward_fn(ADD, dg=dg)
    manager = BatchRewardManager(tokenizer, 0, reward_fn)
    batch = batch_of(tokenizer, list(ANSWERS))
    scores = manager(batch)
    last = batch.batch["attention_mask"][:, PROMPT:].sum(-1) - 1
    assert scores[torch.arange(len(last)), last].tolist() == list(ANSWERS.values())
    assert scores.sum().item() == sum(ANSWERS.values())


def test_both_ways_decode_the_same(tokenizer: Any, dg: DeepGym) -> None:
    seen: list[list[str]] = []

    def note(**columns: Any) -> list[float]:
        seen.append(columns["solution_strs"])
        return [0.0] * len(columns["solution_strs"])

    batch = batch_of(tokenizer, [GOOD, "", "def add(a, b):\n    return '\u00e9\U0001f600 <|im_end|>'", HALF])
    BatchRewardManager(tokenizer, 0, note).verify(batch)
    from deepgym_verl.batches import rows_of

    assert [text for _, text in rows_of(batch, tokenizer)] == seen[0]


@pytest.mark.parametrize("missing", ["responses", "attention_mask"])
def test_a_batch_before_generation_is_said_not_to_have_any(missing: str, tokenizer: Any, dg: DeepGym) -> None:
    batch = batch_of(tokenizer, [GOOD])
    batch.pop(batch_keys=[missing])
    with pytest.raises(ValueError, match=f"the batch has no {missing}: .*this has .*input_ids, prompts"):
        make_verl_reward_fn(ADD, tokenizer=tokenizer, dg=dg)(batch)
    with pytest.raises(ValueError, match=r"no responses and no attention_mask.*no tensors"):
        make_verl_reward_fn(ADD, tokenizer=tokenizer, dg=dg)(DataProto(batch=None, non_tensor_batch={}))


def test_what_is_no_batch_is_said(tokenizer: Any, dg: DeepGym) -> None:
    reward_fn = make_verl_reward_fn(ADD, tokenizer=tokenizer, dg=dg)
    batch = batch_of(tokenizer, [GOOD, HALF])
    for wrong in (batch.batch, batch.batch["responses"], batch.non_tensor_batch, batch.to_tensordict()):
        with pytest.raises(TypeError):
            reward_fn(wrong)
    with pytest.raises(ValueError, match=r"responses must be \[rows, tokens\]"):
        reward_fn(batch[0])
    nested = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged)
    whole = DataProto(TensorDict({"responses": nested, "attention_mask": nested}, batch_size=[2]))
    with pytest.raises(ValueError, match="responses must be a dense tensor"):
        reward_fn(whole)


def test_it_pickles_with_a_tokenizer_of_transformers(tokenizer: Any, dg: DeepGym) -> None:
    again = pickle.loads(pickle.dumps(make_verl_reward_fn(ADD, tokenizer=tokenizer, dg=dg)))
    try:
        assert again(batch_of(tokenizer, [GOOD, HALF])) == [1.0, 0.5]
    finally:
        again.dg.close()


def test_threads_may_decode_at_once(tokenizer: Any, dg: DeepGym) -> None:
    reward_fn = make_verl_reward_fn(ADD, tokenizer=tokenizer, dg=dg)
    batch = batch_of(tokenizer, [GOOD, HALF, WRONG] * 4)

    async def main() -> list[Any]:
        return list(await asyncio.gather(*(asyncio.to_thread(reward_fn, batch) for _ in range(8))))

    assert asyncio.run(main()) == [[1.0, 0.5, 0.0] * 4] * 8


def test_in_the_local_sandbox(tokenizer: Any, local_sandbox: None) -> None:
    env = load_environment("two_sum")
    reward_fn = make_verl_reward_fn(tokenizer=tokenizer)
    batch = batch_of(
        tokenizer, [str(env.reference), "def two_sum(*a): return None"], [{"env": "two_sum"}] * 2
    )
    assert reward_fn(batch) == [1.0, 0.0]
    assert issubclass(NoVerdictError, Exception)


@pytest.fixture(autouse=True)
def own_judges() -> Iterator[None]:
    """The clients of this process are closed after each test."""
    from deepgym_verl import judge

    yield
    for each in judge._judges.values():
        each.close()
    judge._judges.clear()
