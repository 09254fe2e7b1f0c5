"""What a variable may be is known before the training run begins, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgym.integrations.labels import Labels
from deepgym_openrlhf.settings import PREFIX, Settings, SettingsError

#: A machine that does much else is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(failure: bool = False, **given: str) -> Settings:
    return Settings.read({PREFIX + name: text for name, text in given.items()}, failure=failure)


def test_an_environment_is_all_that_must_be_set_for_the_agent_file() -> None:
    found = read(ENV="coin_change")
    assert [env.name for env in found.labels.declared] == ["coin_change"]
    assert (found.failure, found.stop_after, found.seconds) == (None, 64, 3600.0)
    assert (found.mode, found.max_parallel) == ("local", None)


def test_every_setting_is_read() -> None:
    found = read(
        ENV="two_sum", FAILURE="drop_group", STOP_AFTER="0", SECONDS="90.5", MODE="local", MAX_PARALLEL="3"
    )
    assert (found.failure, found.stop_after, found.seconds, found.max_parallel) == ("drop_group", 0, 90.5, 3)
    client = found.client()
    assert (client.mode, client.max_parallel) == ("local", 3)


def test_the_process_s_own_variables_are_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PREFIX + "ENV", "two_sum")
    monkeypatch.setenv(PREFIX + "STOP_AFTER", "9")
    assert Settings.read().stop_after == 9


def test_an_environment_is_a_name_a_folder_a_suite_a_file_or_several(tmp_path: Path) -> None:
    row = '{"task_id": %d, "text": "Add.", "code": "def f(x):\\n    return x + 1", "test_list": ["assert f(1) == 2"]}\n'
    rows = tmp_path / "rows.jsonl"
    rows.write_text(row % 1 + row % 2)
    assert len(read(ENV=str(rows)).labels.declared) == 2
    assert len(read(ENV="coin_change, two_sum").labels.declared) == 2
    assert len(read(ENV=f"{rows},coin_change").labels.declared) == 3
    assert len(read(ENV="easy").labels.declared) > 3


def test_labels_may_name_any_built_in_environment_if_that_is_said() -> None:
    found = read(ENV="labels").labels
    assert found.declared == ()
    assert found.environment("coin_change").name == "coin_change"


def test_given_labels_stand_in_for_the_variable() -> None:
    assert Settings.read({}, labels=Labels("two_sum")).labels.declared[0].name == "two_sum"


@pytest.mark.parametrize(
    ("text", "score"),
    [("0", 0.0), ("-1.5", -1.5), ("1e-3", 0.001), ("group_mean", "group_mean"), ("unsafe_nan", "unsafe_nan")],
)
def test_a_failure_score_is_a_number_or_a_word(text: str, score: object) -> None:
    assert read(failure=True, ENV="two_sum", FAILURE=f" {text} ").failure == score


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("ENV", "nothing", "nothing"),
        ("ENV", "coin_change,coin_change", "name of its own"),
        ("ENV", ",", "at least one"),
        ("ENV", "/nowhere/rows.jsonl", "no file"),
        ("FAILURE", "nan", "finite number"),
        ("FAILURE", "inf", "finite number"),
        ("FAILURE", "zero", "'group_mean'"),
        ("STOP_AFTER", "-1", "at least 0"),
        ("STOP_AFTER", "1.5", "whole number"),
        ("STOP_AFTER", "٣", "whole number"),
        ("SECONDS", "0", "above 0"),
        ("SECONDS", "nan", "above 0"),
        ("SECONDS", "1h", "above 0"),
        ("MAX_PARALLEL", "0", "at least 1"),
    ],
)
def test_a_wrong_value_is_refused_with_its_variable_s_name(name: str, text: str, what: str) -> None:
    with pytest.raises(SettingsError, match=f"^{PREFIX}{name}=") as caught:
        read(**{"ENV": "two_sum", name: text})
    assert what in str(caught.value)


def test_a_provider_that_is_not_there_is_refused_with_its_variable_s_name() -> None:
    with pytest.raises(SettingsError, match=f"^{PREFIX}MODE='cloud': "):
        read(ENV="two_sum", MODE="cloud").client()


def test_a_missing_variable_is_named_and_where_ray_s_workers_have_theirs_from() -> None:
    for blank in ({}, {"ENV": " "}):
        with pytest.raises(
            SettingsError, match=rf"^{PREFIX}ENV isn't set .*ray start.*--runtime-env-json .*{PREFIX}ENV"
        ):
            read(**blank)
    with pytest.raises(
        SettingsError, match=f"^{PREFIX}FAILURE isn't set .*a number, group_mean or drop_group"
    ):
        read(failure=True, ENV="two_sum")


def test_a_name_that_is_no_setting_is_refused_and_the_endpoint_s_token_is_not() -> None:
    with pytest.raises(SettingsError, match=f"^{PREFIX}ENVS is no setting; they are {PREFIX}ENV, "):
        read(ENV="two_sum", ENVS="coin_change")
    assert read(ENV="two_sum", TOKEN="secret").mode == "local"


names = st.sampled_from(["ENV", "FAILURE", "STOP_AFTER", "SECONDS", "MODE", "MAX_PARALLEL", "X"])


@given(st.dictionaries(names, st.text(max_size=12), max_size=4), st.booleans())
@unhurried
def test_no_text_raises_anything_else(given: dict[str, str], failure: bool) -> None:
    said = PREFIX
    try:
        found = read(failure, **{"ENV": "two_sum", **given})
        assert found.stop_after >= 0
        assert found.seconds > 0
    except SettingsError as error:
        said = str(error)
    assert said.startswith(PREFIX)
