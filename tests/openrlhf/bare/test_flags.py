"""What the trainer's flags are called, by its version."""

from __future__ import annotations

import pytest

from deepgym_openrlhf import versions
from deepgym_openrlhf.flags import NEW, OLD, filtering_lines, flags_of, lines

URL = "http://127.0.0.1:5000/get_reward"


@pytest.mark.parametrize("version", ["0.9.1", "0.9.1.post1", "0.10.0", "0.10.1", "0.10.1.post2", "0.8.11"])
def test_up_to_0_10_1_the_flags_have_underscores(version: str) -> None:
    assert flags_of(version) == (OLD,)
    assert lines("reward", URL, version) == [f"--remote_rm_url {URL}"]
    assert lines("agent", "/a.py", version) == ["--agent_func_path /a.py"]


@pytest.mark.parametrize("version", ["0.10.2", "0.10.4", "0.11.2", "0.12.0.dev1+local", "1.0"])
def test_from_0_10_2_on_they_have_dots(version: str) -> None:
    assert flags_of(version) == (NEW,)
    assert lines("reward", URL, version) == [f"--reward.remote_url {URL}"]
    assert lines("agent", "/a.py", version) == ["--train.agent_func_path /a.py"]


@pytest.mark.parametrize("version", [None, "", "unknown"])
def test_where_the_version_is_not_known_both_are_given_and_said_which_is_for_what(
    version: str | None,
) -> None:
    assert lines("reward", URL, version) == [
        f"--reward.remote_url {URL}  # OpenRLHF from 0.10.2 on",
        f"--remote_rm_url {URL}      # OpenRLHF up to 0.10.1",
    ]


def test_a_value_is_quoted_for_a_shell() -> None:
    assert lines("agent", "/a folder/a.py", "0.11.2") == ["--train.agent_func_path '/a folder/a.py'"]


def test_dynamic_filtering_takes_its_range_with_it() -> None:
    new = "--algo.dynamic_filtering_enable --algo.dynamic_filtering_range 0 1"
    assert filtering_lines("0.11.2") == [new]
    assert filtering_lines("0.9.1") == ["--dynamic_filtering --dynamic_filtering_reward_range 0 1"]
    assert [line.split("#")[0].strip() for line in filtering_lines(None)] == [new, *filtering_lines("0.9.1")]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.10.1.post2", (0, 10, 1)), ("1.2rc1", (1, 2)), ("0.11.2+cu", (0, 11, 2)), ("main", ())],
)
def test_a_version_is_read_as_far_as_it_is_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert versions.numbers(text) == numbers
