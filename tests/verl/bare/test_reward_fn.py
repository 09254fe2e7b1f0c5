"""A reward function for loops of one's own: one reward for each sample, whatever form the batch has."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import AsyncDeepGym, DeepGym, load_environment
from deepgym.integrations.labels import UnknownLabelError
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.faults import FAULTS, Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, LOOPS, PROGRAM, SCRIPT, WRONG
from deepgym_verl import make_verl_reward_fn
from deepgym_verl.judge import judge_for
from deepgym_verl.options import Options, OptionsError
from deepgym_verl.reward_fn import VerlRewardFn

REWARDS = list(ANSWERS.values())


class Tokenizer:
    """A token for each character, and one that ends a turn."""

    END = 0

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join("" if skip_special_tokens and each == self.END else chr(each) for each in ids)


class Tensor:
    """As much of a tensor as is asked for."""

    def __init__(self, rows: Any, shape: tuple[int, ...] | None = None) -> None:
        self._rows = rows
        self.shape = (
            shape
            if shape is not None
            else (len(rows), len(rows[0]) if rows and isinstance(rows[0], list) else 0)
        )

    def tolist(self) -> Any:
        return self._rows


class Jagged:
    shape = (2, 3)

    def tolist(self) -> Any:
        raise RuntimeError("a nested tensor has no list")


def proto(answers: list[str], *, prompt: int = 3, **columns: Any) -> SimpleNamespace:
    """What a rollout leaves: prompts filled up at the left, responses at the right, with what is no token."""
    longest = max(map(len, answers), default=0) + 2
    ids = [[*map(ord, answer), Tokenizer.END] for answer in answers]
    masks = [[0, 1, 1][:prompt] + [1] * len(each) + [0] * (longest - len(each)) for each in ids]
    responses = [each + [ord("#")] * (longest - len(each)) for each in ids]
    return SimpleNamespace(
        batch={
            "responses": Tensor(responses),
            "attention_mask": Tensor(masks),
            "prompts": Tensor([[0] * prompt]),
        },
        non_tensor_batch={name: Tensor(values) for name, values in columns.items()},
        meta_info={},
    )


@pytest.fixture
def make(kit: SimpleNamespace) -> Callable[..., VerlRewardFn]:
    """``make(env, provider, **options)`` with a tokenizer."""

    def made(env: Any = ADD, provider: Any = None, **options: Any) -> VerlRewardFn:
        dg = kit.client(FakeProvider(SCRIPT) if provider is None else provider)
        return make_verl_reward_fn(env, tokenizer=options.pop("tokenizer", Tokenizer()), dg=dg, **options)

    return made


# --- every form of a batch --------------------------------------------------------------------------------------


def conversation(answer: str) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": "Write add."}, {"role": "assistant", "content": answer}]


FORMS: dict[str, Callable[[list[str]], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "texts": lambda answers: ((answers,), {}),
    "a tuple": lambda answers: ((tuple(answers),), {}),
    "fenced texts": lambda answers: (
        ([f"So:\n```python\n{each}\n```" if each else "" for each in answers],),
        {},
    ),
    "an array": lambda answers: ((Tensor(answers),), {}),
    "conversations": lambda answers: (([conversation(each) for each in answers],), {}),
    "conversations in arrays": lambda answers: (([Tensor(conversation(each)) for each in answers],), {}),
    "what the assistant said": lambda answers: (
        ([{"role": "assistant", "content": each} for each in answers],),
        {},
    ),
    "messages without a role": lambda answers: (([[{"content": each}] for each in answers],), {}),
    "a DataProto": lambda answers: ((proto(answers),), {}),
    "a DataProto with columns": lambda answers: (
        (
            proto(
                answers,
                data_source=["deepgym/laws"] * len(answers),
                reward_model=[{"style": "rule", "ground_truth": "laws/add"}] * len(answers),
                extra_info=[{"index": 0}] * len(answers),
            ),
        ),
        {},
    ),
    "as a batch reward manager calls": lambda answers: (
        (),
        {
            "data_sources": Tensor(["deepgym/laws"] * len(answers)),
            "solution_strs": answers,
            "ground_truths": ["laws/add"] * len(answers),
            "extra_infos": Tensor([{"index": 0}] * len(answers)),
        },
    ),
    "solutions alone": lambda answers: ((), {"solution_strs": answers}),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_batch_has_its_rewards(form: Any, make: Callable[..., VerlRewardFn]) -> None:
    given, named = form(list(ANSWERS))
    reward_fn = make()
    rewards = reward_fn(*given, **named)
    assert rewards == REWARDS
    assert {type(reward) for reward in rewards} == {float}
    assert asyncio.run(reward_fn.rewards(*given, **named)) == REWARDS
    results = reward_fn.results(*given, **named)
    assert [result.reward for result in results] == REWARDS
    assert asyncio.run(reward_fn.judged(*given, **named))[0].env_name == ADD.name


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_batch_without_samples_has_no_rewards(form: Any, make: Callable[..., VerlRewardFn]) -> None:
    given, named = form([])
    reward_fn = make()
    assert reward_fn(*given, **named) == []
    assert asyncio.run(reward_fn.rewards(*given, **named)) == []


@pytest.mark.parametrize("prompt", [0, 1, 3])
def test_what_fills_a_response_up_is_not_decoded(prompt: int, make: Callable[..., VerlRewardFn]) -> None:
    assert make()(proto([GOOD, "x", HALF], prompt=prompt)) == [1.0, 0.0, 0.5]


def test_an_empty_response_is_judged(make: Callable[..., VerlRewardFn]) -> None:
    batch = SimpleNamespace(
        batch={"responses": Tensor([[], []]), "attention_mask": Tensor([[1, 1], [0, 1]])},
        non_tensor_batch={},
    )
    assert make()(batch) == [0.0, 0.0]


def test_rows_name_their_environments(make: Callable[..., VerlRewardFn]) -> None:
    reward_fn = make([ADD, PROGRAM, load_environment("two_sum")])
    names = ["laws/add", "two_sum", "laws/add-program"]
    rows = [{"env": name} for name in names]
    answers = [GOOD, GOOD, GOOD]
    for batch, named in (
        (answers, {"extra_infos": rows}),
        (answers, {"data_sources": ["deepgym/x"] * 3, "ground_truths": names}),
        (answers, {"data_sources": [f"deepgym/{name}" for name in names]}),
        (proto(answers, extra_info=rows), {}),
        (
            proto(
                answers,
                data_source=["deepgym/x"] * 3,
                reward_model=[{"ground_truth": name} for name in names],
            ),
            {},
        ),
    ):
        assert [result.env_name for result in reward_fn.results(batch, **named)] == names


# --- batches that can't be read ------------------------------------------------------------------------------------

_ANY = object()
_UNREADABLE: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "nothing": (
        None,
        {},
        TypeError,
        "expected a DataProto, a list of completions, or solution_strs=; got none",
    ),
    "two of them": ([GOOD], {"solution_strs": [GOOD]}, TypeError, "not two of them"),
    "one text": (GOOD, {}, TypeError, "must be a list with one item for each sample, not str"),
    "bytes": (b"x", {}, TypeError, "not bytes"),
    "a number": (3, {}, TypeError, "not int"),
    "a mapping": ({"responses": [GOOD]}, {}, TypeError, "expected a DataProto, a list.*not dict"),
    "a generator": ((each for each in [GOOD]), {}, TypeError, "not generator"),
    "a set": ({GOOD}, {}, TypeError, "not set"),
    "numbers": ([GOOD, 3], {}, TypeError, "sample 1: .*not int"),
    "token ids": ([[1, 2], [3]], {}, TypeError, "sample 0: a message is a mapping"),
    "one conversation": (
        conversation(GOOD),
        {},
        TypeError,
        r"sample 0: .*one message of 'user'.*\[conversation\]",
    ),
    "messages of another form": (
        [[{"from": "gpt", "value": GOOD}]],
        {},
        TypeError,
        "sample 0: a message has 'role' and 'content', this has 'from', 'value'",
    ),
    "rows of tensors": (
        Tensor([{"responses": [1]}, {"responses": [2]}]),
        {},
        TypeError,
        "sample 0: a message has 'role' and 'content', this has 'responses'",
    ),
    "an empty mapping": ([{}], {}, TypeError, "sample 0: .*this has nothing"),
    "messages that are no mappings": ([["a", "b"]], {}, TypeError, "sample 0: a message is a mapping"),
    "content that is a number": (
        [[{"role": "assistant", "content": 3}]],
        {},
        TypeError,
        "sample 0: a message's",
    ),
    "solutions in one text": (None, {"solution_strs": GOOD}, TypeError, "solution_strs must be a list"),
    "fewer sources": (
        None,
        {"solution_strs": [GOOD, GOOD], "data_sources": ["a"]},
        ValueError,
        "2 completions, 1 data_sources, 2 ground_truths, 2 extra_infos",
    ),
    "more rows": ([GOOD], {"extra_infos": [{}, {}]}, ValueError, "1 completions.*2 extra_infos"),
    "no rows": ([GOOD], {"extra_infos": []}, ValueError, "1 completions.*0 extra_infos"),
    "one row": ([GOOD], {"extra_infos": {"env": "x"}}, TypeError, "extra_infos must be a list.*not dict"),
    "an unknown column": ([GOOD], {"prompts": ["x"]}, TypeError, "prompts"),
    "a DataProto and columns": (proto([GOOD]), {"extra_infos": [{}]}, TypeError, "leave out extra_infos"),
    "no tensors": (
        SimpleNamespace(batch=None, non_tensor_batch={}),
        {},
        ValueError,
        "no responses and no att.*no tensors",
    ),
    "before generation": (
        SimpleNamespace(batch={"input_ids": _ANY, "attention_mask": _ANY}, non_tensor_batch={}),
        {},
        ValueError,
        "has no responses: .*this has attention_mask, input_ids",
    ),
    "without a mask": (
        SimpleNamespace(batch={"responses": _ANY, "response_mask": _ANY}, non_tensor_batch={}),
        {},
        ValueError,
        "has no attention_mask: .*this has response_mask, responses",
    ),
    "one row of a DataProto": (
        SimpleNamespace(
            batch={"responses": Tensor([1], (1,)), "attention_mask": Tensor([1], (1,))}, non_tensor_batch={}
        ),
        {},
        ValueError,
        r"responses must be \[rows, tokens\], not \[1\]",
    ),
    "a scalar": (
        SimpleNamespace(
            batch={"responses": Tensor(3, ()), "attention_mask": Tensor([[1]])}, non_tensor_batch={}
        ),
        {},
        ValueError,
        r"responses must be \[rows, tokens\]",
    ),
    "jagged tensors": (
        SimpleNamespace(batch={"responses": Jagged(), "attention_mask": Jagged()}, non_tensor_batch={}),
        {},
        ValueError,
        "responses must be a dense tensor: a nested",
    ),
    "no tensor": (
        SimpleNamespace(batch={"responses": 3, "attention_mask": 3}, non_tensor_batch={}),
        {},
        ValueError,
        "responses must be a dense tensor",
    ),
    "a mask of the response alone is too short": (
        SimpleNamespace(
            batch={"responses": Tensor([[97, 97]]), "attention_mask": Tensor([[1]])}, non_tensor_batch={}
        ),
        {},
        ValueError,
        r"must cover the prompt and the response.*responses is \[1, 2\], attention_mask \[1, 1\]",
    ),
    "a mask of other rows": (
        SimpleNamespace(
            batch={"responses": Tensor([[97]]), "attention_mask": Tensor([[1], [1]])}, non_tensor_batch={}
        ),
        {},
        ValueError,
        r"responses is \[1, 1\], attention_mask \[2, 1\]",
    ),
    "columns of other rows": (
        proto([GOOD], extra_info=[{}, {}]),
        {},
        ValueError,
        "1 responses.*2 extra_info",
    ),
    "a column that is none": (
        SimpleNamespace(
            batch={"responses": Tensor([[97]]), "attention_mask": Tensor([[1]])},
            non_tensor_batch={"extra_info": 3},
        ),
        {},
        TypeError,
        "extra_info must be a list",
    ),
    "ids that are no tokens": (
        SimpleNamespace(
            batch={"responses": Tensor([[97], [-100]]), "attention_mask": Tensor([[1], [1]])},
            non_tensor_batch={},
        ),
        {},
        ValueError,
        "sample 1: the tokenizer can't decode its response",
    ),
}


@pytest.mark.parametrize(("batch", "named", "error", "said"), _UNREADABLE.values(), ids=_UNREADABLE)
def test_a_batch_that_cannot_be_read_says_what_was_expected_and_what_is_there(
    batch: Any, named: dict[str, Any], error: type[Exception], said: str, make: Callable[..., VerlRewardFn]
) -> None:
    provider = FakeProvider(SCRIPT)
    reward_fn = make(provider=provider)
    with pytest.raises(error, match=said):
        reward_fn(batch, **named)
    assert provider.opened == 0


def test_the_async_form_says_the_same(make: Callable[..., VerlRewardFn]) -> None:
    reward_fn = make()
    for batch, error in (
        (GOOD, TypeError),
        ([GOOD, 3], TypeError),
        (proto([GOOD], extra_info=[]), ValueError),
    ):
        with pytest.raises(error):
            asyncio.run(reward_fn.rewards(batch))


def test_token_ids_need_a_tokenizer(make: Callable[..., VerlRewardFn]) -> None:
    with pytest.raises(ValueError, match="make_verl_reward_fn needs the tokenizer"):
        make(tokenizer=None)(proto([GOOD]))
    assert make(tokenizer=None)([GOOD]) == [1.0]


def test_a_tokenizer_that_returns_no_text_is_said(make: Callable[..., VerlRewardFn]) -> None:
    odd = SimpleNamespace(decode=lambda ids, skip_special_tokens: ["a"])
    with pytest.raises(TypeError, match=r"tokenizer\.decode must return text, not list"):
        make(tokenizer=odd)(proto([GOOD]))


def test_a_row_that_names_nothing_is_named_and_nothing_of_the_batch_is_run(
    make: Callable[..., VerlRewardFn], masked: Callable[[], int]
) -> None:
    provider = FakeProvider(SCRIPT)
    reward_fn = make([ADD, PROGRAM], provider)
    with pytest.raises(UnknownLabelError, match=r"sample 1: the label names 'x'; this run has laws/add"):
        reward_fn([GOOD, GOOD], extra_infos=[{"env": "laws/add"}, {"env": "x"}])
    with pytest.raises(UnknownLabelError, match="sample 0: the label None names no environment"):
        asyncio.run(reward_fn.rewards([GOOD, GOOD]))
    with pytest.raises(OptionsError, match=r"sample 0: environment 'fix_the_program' is for an agent"):
        make(None)([GOOD], extra_infos=[{"env": "fix_the_program"}])
    assert provider.opened == 0
    assert masked() == 0


# --- making one ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"env": "no_such_thing"}, OptionsError, "env='no_such_thing'"),
        ({"env": ADD, "deadline": 1}, OptionsError, "deadline=1"),
        ({"env": ADD, "max_paralel": 1}, OptionsError, "did you mean max_parallel"),
        ({"env": ADD, "mode": "no_such_thing"}, OptionsError, "mode='no_such_thing'"),
        ({"env": ADD, "tokenizer": "gpt2"}, TypeError, "tokenizer must have decode"),
        ({"env": ADD, "dg": "local"}, TypeError, "dg must be a DeepGym.*not str"),
    ],
)
def test_what_is_wrong_is_said_at_once(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make_verl_reward_fn(**given)


def test_a_client_is_a_sync_one_and_has_its_provider(kit: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match="not AsyncDeepGym"):
        make_verl_reward_fn(ADD, dg=AsyncDeepGym())  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="give mode or dg"):
        make_verl_reward_fn(ADD, dg=kit.client(FakeProvider(SCRIPT)), mode="local")


def test_without_a_client_functions_of_equal_options_share_one(
    kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Options, "client", lambda self: kit.client(FakeProvider(SCRIPT)))
    one, other = make_verl_reward_fn(ADD), make_verl_reward_fn(ADD)
    assert one.judge() is other.judge() is judge_for(one.options)
    assert one([GOOD, WRONG]) == other([GOOD, WRONG]) == [1.0, 0.0]
    assert make_verl_reward_fn(ADD, max_parallel=3).judge() is not one.judge()


def test_it_has_a_name_and_pickles_with_its_parts(make: Callable[..., VerlRewardFn]) -> None:
    reward_fn = make(deadline=600)
    assert reward_fn([GOOD]) == [1.0]
    assert (reward_fn.__name__, repr(reward_fn)) == (
        "deepgym_verl_reward",
        "<VerlRewardFn deepgym_verl_reward>",
    )
    again = pickle.loads(pickle.dumps(reward_fn))
    assert again.__name__ == reward_fn.__name__
    assert again.options == reward_fn.options
    assert again([HALF]) == [0.5]
    assert again(proto([HALF, GOOD])) == [0.5, 1.0]
    again.dg.close()


# --- whatever happens ------------------------------------------------------------------------------------------------


def both(reward_fn: VerlRewardFn, batch: Any) -> list[float | None]:
    rewards = reward_fn(batch)
    assert asyncio.run(reward_fn.rewards(batch)) == rewards
    return rewards


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_none_for_its_sample_alone(fault: Fault, make: Callable[..., VerlRewardFn]) -> None:
    answers = None if fault.phase.value == "queued" else {HALF}
    reward_fn = make(provider=FaultyProvider(FakeProvider(SCRIPT), fault, answers=answers))
    struck = 0.0 if fault.error_type in {"solution_timeout", "policy_sandbox_failure"} else None
    others = [1.0, 0.0] if answers else [struck, struck]
    assert both(reward_fn, [GOOD, HALF, WRONG]) == [others[0], struck, others[1]]


def test_samples_without_a_verdict_are_counted_for_the_whole_process(
    make: Callable[..., VerlRewardFn], masked: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    reward_fn = make(provider=FaultyProvider(FakeProvider(SCRIPT), Fault("network")))
    assert reward_fn([GOOD] * 4) == [None] * 4
    assert masked() == 4
    assert asyncio.run(reward_fn.rewards([GOOD] * 3)) == [None] * 3
    assert masked() == 7
    assert "deepgym_verl: 6 of the first 6 samples" in caplog.text


def test_it_works_inside_a_running_event_loop_and_leaves_the_caller_s_own_alone(
    make: Callable[..., VerlRewardFn],
) -> None:
    reward_fn = make()

    async def main() -> list[float | None]:
        return reward_fn([GOOD, HALF])

    assert asyncio.run(main()) == [1.0, 0.5]
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        assert reward_fn([GOOD, HALF]) == [1.0, 0.5]
        assert asyncio.get_event_loop() is loop
        assert loop.run_until_complete(reward_fn.rewards([GOOD])) == [1.0]
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_all_samples_are_graded_in_parallel(make: Callable[..., VerlRewardFn], kit: SimpleNamespace) -> None:
    provider = kit.Waiting()
    reward_fn = make(provider=provider, max_parallel=64)

    async def main() -> list[float | None]:
        going = asyncio.ensure_future(reward_fn.rewards([GOOD, HALF] * 16))
        while provider.asked < 32:  # while this loop goes on
            await asyncio.sleep(0)
        provider.let()
        return await going

    assert asyncio.run(main()) == [1.0, 0.5] * 16


def test_threads_may_share_it(make: Callable[..., VerlRewardFn]) -> None:
    reward_fn = make()
    found: dict[int, list[float | None]] = {}
    threads = [
        threading.Thread(target=lambda number=number: found.update({number: reward_fn([GOOD] * number)}))
        for number in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [1.0] * number for number in range(1, 9)}


def test_a_client_that_is_closed_meanwhile_is_none_and_works_again(
    make: Callable[..., VerlRewardFn], kit: SimpleNamespace
) -> None:
    provider = kit.Waiting()
    reward_fn = make(provider=provider)
    found: list[Any] = []
    caller = threading.Thread(target=lambda: found.append(reward_fn([GOOD, HALF])))
    caller.start()
    provider.there.wait()
    reward_fn.dg.close()  # type: ignore[union-attr]
    caller.join()
    assert found == [[None, None]]
    provider.let()
    assert both(reward_fn, [GOOD, HALF]) == [1.0, 0.5]


def test_a_thread_or_a_loop_that_cannot_be_had_is_none(
    make: Callable[..., VerlRewardFn], monkeypatch: pytest.MonkeyPatch, masked: Callable[[], int]
) -> None:
    reward_fn = make()
    assert reward_fn([GOOD]) == [1.0]

    def no_thread(self: object) -> None:
        raise RuntimeError("can't start new thread")

    def no_loop() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        results = reward_fn.results([GOOD, HALF])
        assert [(result.reward, result.error_type) for result in results] == [(None, "sandbox_error")] * 2
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", no_loop)
        assert reward_fn([GOOD, HALF]) == [None, None]
    assert masked() == 4
    assert reward_fn([GOOD, HALF]) == [1.0, 0.5]


def test_a_batch_that_nobody_waits_for_is_stopped(
    make: Callable[..., VerlRewardFn], kit: SimpleNamespace
) -> None:
    provider = kit.Waiting()
    reward_fn = make(provider=provider)

    async def main() -> None:
        going = asyncio.ensure_future(reward_fn.rewards([GOOD]))
        await asyncio.to_thread(provider.there.wait)
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
        assert await asyncio.to_thread(provider.stopped.wait, 30)

    asyncio.run(main())


def test_ctrl_c_stops_the_runs(
    make: Callable[..., VerlRewardFn], kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import Future

    provider = kit.Waiting()
    reward_fn = make(provider=provider)
    real = Future.result

    def interrupted(self: Future[Any], timeout: float | None = None) -> Any:
        if threading.current_thread() is threading.main_thread():
            provider.there.wait()
            raise KeyboardInterrupt
        return real(self, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reward_fn([GOOD])
    assert provider.stopped.wait(30)


def test_a_policy_s_fault_is_a_zero_and_says_so(make: Callable[..., VerlRewardFn]) -> None:
    (result,) = make().results([LOOPS])
    assert (result.reward, result.error_type) == (0.0, "solution_timeout")


def test_a_client_of_the_caller_s_stays_open() -> None:
    with DeepGym(provider=FakeProvider(SCRIPT)) as dg:
        for _ in range(2):
            assert make_verl_reward_fn(ADD, dg=dg)([GOOD]) == [1.0]
        assert dg.run(ADD, GOOD).passed
