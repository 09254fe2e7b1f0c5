"""The ``deepgym:`` section: few keys, strict, and with the processes that need it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from deepgym_axolotl.settings import VARIABLE, ConfigError, DeepGymSection, Setup


def section(**keys: Any) -> DeepGymSection:
    return Setup.of({"deepgym": keys}).section


def test_the_defaults_leave_a_run_without_a_verdict_out_and_warn_above_five_in_a_hundred() -> None:
    found = section()
    assert (found.no_verdict, found.warn_above, found.stop_above, found.dapo) == ("none", 0.05, None, False)
    assert not found.names_environments


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"enviroment": "two_sum"}, "deepgym.enviroment: there is no such key (there are: env, envs, suite"),
        ({"env": "two_sum", "suite": "easy"}, "deepgym: Value error, give one of env and suite, not both"),
        ({"envs": []}, "envs is empty"),
        ({"no_verdict": "zero"}, "deepgym.no_verdict: Input should be 'none' or 'group_mean'"),
        ({"max_parallel": 0}, "deepgym.max_parallel: Input should be greater than 0"),
        ({"warn_above": 1.0}, "deepgym.warn_above: Input should be less than 1"),
        ({"soft_punish_cache": 8}, "soft_punish_cache is for dapo: true"),
    ],
)
def test_a_wrong_key_or_value_is_an_error_that_names_it(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        section(**keys)
    assert said in str(caught.value)


def test_a_section_that_is_no_section_is_an_error() -> None:
    with pytest.raises(ConfigError, match="a section with keys such as env, not True"):
        Setup.of({"deepgym": True})


def test_null_is_what_none_is() -> None:
    assert section(no_verdict=None).no_verdict == "none"


def test_a_setup_comes_back_as_it_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup.of({"deepgym": {"envs": ["two_sum"], "deadline": 60.0}, "trl": {"num_generations": 8}})
    monkeypatch.setenv(VARIABLE, "")
    assert Setup.current() == Setup()
    setup.leave()
    assert Setup.current() == setup
    assert Setup.current().num_generations == 8


def test_a_process_that_is_started_has_the_setup_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    Setup.of({"deepgym": {"env": "two_sum"}}).leave()
    code = "from deepgym_axolotl.settings import Setup; print(Setup.current().section.env)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True
    )
    assert done.stdout == "two_sum\n"


@pytest.mark.parametrize(
    ("variable", "key", "version", "seconds"),
    [
        (None, None, "0.19.0", 1800.0),
        ("3600", None, "0.19.0", 3600.0),
        (None, 7200, "0.19.0", 1800.0),
        (None, 7200, "0.21.0", 7200.0),
    ],
)
def test_ranks_wait_as_long_as_this_axolotl_makes_them(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, key: int | None, version: str, seconds: float
) -> None:
    monkeypatch.setattr("deepgym_axolotl.versions.version_of", lambda package: version)
    monkeypatch.delenv("AXOLOTL_NCCL_TIMEOUT", raising=False)
    if variable is not None:
        monkeypatch.setenv("AXOLOTL_NCCL_TIMEOUT", variable)
    assert Setup.of({"deepgym": {}, "ddp_timeout": key}).ddp_timeout == seconds


@pytest.mark.parametrize(("cache", "tokens"), [(None, 100), (64, 64), (0, 0)])
def test_the_overlong_penalty_grows_over_a_fifth_of_the_length(cache: int | None, tokens: int) -> None:
    cfg = {"deepgym": {"dapo": True, "soft_punish_cache": cache}, "trl": {"max_completion_length": 500}}
    assert Setup.of(cfg).overlong == tokens
    assert Setup.of({"trl": {"max_completion_length": 500}}).overlong == 0
