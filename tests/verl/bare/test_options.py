"""What a run may say about its rewards, and what is said of anything else."""

from __future__ import annotations

import pickle
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest

from deepgym import DeepGym, load_environment, load_suite
from deepgym.integrations.labels import UnknownLabelError
from deepgym_verl.options import DEADLINE, Options, OptionsError, options_of

EPISODE = "fix_the_program"


def test_without_any_option_rows_name_built_in_environments_for_the_local_sandbox() -> None:
    for given in (
        None,
        {},
        {"env": None, "mode": None, "deadline": None, "lost": None, "max_parallel": None},
    ):
        options = Options.read(given)
        assert options == Options() == Options(None, "local", None, None, DEADLINE, "auto")
        assert options.labels().environment("two_sum").name == "two_sum"


def test_all_options_are_read() -> None:
    given = {
        "env": ["two_sum", "coin_change"],
        "mode": "local",
        "max_parallel": 3,
        "max_sessions": 2,
        "deadline": 700,
        "lost": "empty",
    }
    options = Options.read(given)
    assert options == Options(("two_sum", "coin_change"), "local", 3, 2, 700.0, "empty")
    assert type(options.deadline) is float


def test_a_configuration_object_is_read_like_a_mapping() -> None:
    assert Options.read(UserDict(env="two_sum", deadline=700)) == Options(("two_sum",), deadline=700.0)


def test_what_verl_adds_to_a_call_is_no_option() -> None:
    given = {"reward_router_address": "127.0.0.1:1", "reward_model_tokenizer": object(), "env": "two_sum"}
    assert Options.read(given) == Options(("two_sum",))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"envs": "two_sum"}, r"reward_kwargs\.envs is no option.*did you mean env\?"),
        ({"max_paralel": 3}, r"did you mean max_parallel\?"),
        ({"sandbox_fusion_url": "x"}, r"sandbox_fusion_url is no option; they are env, mode, max_parallel"),
        ({3: 4}, r"reward_kwargs\.3 is no option"),
        ({"env": []}, r"env=\[\] is empty; without it each row names its environment"),
        ({"env": ()}, r"env=\(\) is empty"),
        ({"env": 3}, r"env=3: an environment"),
        ({"env": {"a": 1}}, r"env=\{'a': 1\}"),
        ({"env": b"two_sum"}, r"env=b'two_sum'"),
        ({"env": [3]}, r"env=3: an environment"),
        ({"env": [[], []]}, r"is empty"),
        ({"mode": ""}, r"mode=''"),
        ({"mode": 3}, r"mode=3: the name of a sandbox provider"),
        ({"max_parallel": 0}, r"max_parallel=0: a whole number, at least 1"),
        ({"max_parallel": True}, r"max_parallel=True"),
        ({"max_parallel": 1.5}, r"max_parallel=1\.5"),
        ({"max_parallel": "3"}, r"max_parallel='3'"),
        ({"max_sessions": -1}, r"max_sessions=-1"),
        ({"deadline": 0}, r"deadline=0: a number of seconds above 0"),
        ({"deadline": -3.0}, r"deadline=-3\.0"),
        ({"deadline": float("nan")}, r"deadline=nan"),
        ({"deadline": float("inf")}, r"deadline=inf"),
        ({"deadline": True}, r"deadline=True"),
        ({"deadline": "1h"}, r"deadline='1h'"),
        ({"lost": "zero"}, r"lost='zero': one of auto, raise, empty, mask"),
        ({"lost": ["mask"]}, r"lost=\['mask'\]"),
        ({"lost": "x" * 10_000}, r"lost='xxx"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_may_be(given: dict[Any, Any], said: str) -> None:
    with pytest.raises(OptionsError, match=said) as caught:
        Options.read(given)
    assert len(str(caught.value)) < 400
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("env", ["no_such_thing", "", "./no_such_folder", ["two_sum", "no_such_thing"]])
def test_an_environment_that_is_not_there_is_named(env: Any) -> None:
    with pytest.raises(OptionsError, match=r"reward_kwargs\.env="):
        Options.read({"env": env}).labels()


def test_two_environments_of_one_name_are_refused() -> None:
    with pytest.raises(OptionsError, match="a name of its own"):
        Options.read({"env": ["two_sum", "two_sum"]}).labels()


def test_an_environment_is_a_name_a_path_an_object_a_suite_or_several(tmp_path: Path) -> None:
    two_sum = load_environment("two_sum")
    for env in ("two_sum", two_sum, ["two_sum"], (two_sum,)):
        labels = Options.read({"env": env}).labels()
        assert [each.name for each in labels.declared] == ["two_sum"]
    easy = {each.name for each in load_suite("easy")}
    for suite in ("easy", load_suite("easy"), ["easy"]):
        assert {each.name for each in Options.read({"env": suite}).labels().declared} == easy


def test_lists_in_lists_are_read_as_one_and_can_be_looked_up() -> None:
    for env in (
        [["two_sum"], "coin_change"],
        iter(["two_sum", "coin_change"]),
        (("two_sum", ["coin_change"]),),
    ):
        options = Options.read({"env": env})
        assert options.env == ("two_sum", "coin_change")
        assert options in {Options(("two_sum", "coin_change"))}


def test_an_environment_for_agents_is_one_too() -> None:
    labels = Options.read({"env": [EPISODE, "two_sum"]}).labels()
    assert {each.name for each in labels.declared} == {EPISODE, "two_sum"}
    with pytest.raises(UnknownLabelError, match="this run has"):
        labels.environment("coin_change")


def test_a_deadline_that_cannot_hold_a_run_and_its_repetition_is_refused() -> None:
    two_sum = load_environment("two_sum")
    least = 2 * (two_sum.limits.wall + 2.0)
    Options.read({"env": "two_sum", "deadline": least}).labels()
    with pytest.raises(OptionsError, match=r"deadline=.*may take .* limits\.wall=") as caught:
        Options.read({"env": "two_sum", "deadline": least - 1}).labels()
    assert f"{least:g} s" in str(caught.value)


def test_the_limits_of_an_episode_are_its_own() -> None:
    assert Options.read({"env": EPISODE, "deadline": 1}).labels().declared[0].name == EPISODE


def test_an_unknown_provider_is_an_error_with_its_remedy() -> None:
    with pytest.raises(OptionsError, match=r"reward_kwargs\.mode='no_such'"):
        Options.read({"mode": "no_such"}).client()


def test_a_client_has_the_room_that_was_asked_for() -> None:
    client = Options.read({"max_parallel": 3, "max_sessions": 2}).client()
    assert isinstance(client, DeepGym)
    assert client.asynchronous.max_parallel == 3
    assert client.provider.max_sessions == 2  # type: ignore[attr-defined]
    client.close()


def test_equal_options_are_one_key() -> None:
    two_sum = load_environment("two_sum")
    for env in ("two_sum", two_sum, ["two_sum", "coin_change"], load_suite("easy"), EPISODE):
        one, other = (
            Options.read({"env": env, "deadline": 700}),
            Options.read({"deadline": 700.0, "env": env}),
        )
        assert one == other
        assert len({one, other}) == 1
    assert Options.read({"env": "two_sum"}) != Options.read({"env": "coin_change"})


def test_options_pickle() -> None:
    options = Options.read({"env": [load_environment("two_sum"), "coin_change"], "lost": "mask"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_environment_of_a_made_function_wins() -> None:
    assert options_of("two_sum", {"deadline": 700}) == Options(("two_sum",), deadline=700.0)
    assert options_of(None, {}) == Options()
