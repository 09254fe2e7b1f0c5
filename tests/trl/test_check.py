"""``deepgym doctor trl``: what it finds in a TRL that holds, in one that doesn't, and in none."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from deepgym.integrations import checking, probing
from deepgym.integrations.probing import answers_of
from deepgym.models import BatchResult, RunResult
from deepgym.plugins import Finding
from deepgym_trl import TRLReward, check
from deepgym_trl.probed import left_out

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/training/trl.md"
PROJECT = ROOT / "packages/deepgym-trl/pyproject.toml"

#: What the probe answers where all is well.
HOLDS = {"with": [1.0, -1.0, 0.0, 0.5], "without": [1.0, -1.0, 0.5]}
WELL: dict[str, Any] = {
    "grpo": HOLDS,
    "rloo": HOLDS,
    "loss": [2, 2, 0, 2],
    "async": [0.0, 0.0],
    "trainer": True,
    "tools": ["bash"],
    "missing": [],
}


def by_name(found: Sequence[Finding]) -> dict[str, Finding]:
    assert len({finding.name for finding in found}) == len(found)
    return {finding.name: finding for finding in found}


class Installation:
    """What ``check`` believes to be installed."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {"deepgym": "1.0.0", "trl": "1.16.0", "transformers": "5.24.0"}
        self.absent: set[str] = {"triton"}
        self.answers: dict[str, Any] | str = WELL
        self.asked: list[str] = []

    def ask(self, module: str) -> dict[str, Any] | str:
        self.asked.append(module)
        return self.answers

    def findings(self) -> dict[str, Finding]:
        return by_name(check.findings())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installation:
    made = Installation()
    graded = (RunResult(score=1.0, passed=True), RunResult(score=0.0))
    for module in (check, checking):
        monkeypatch.setattr(module, "version_of", made.versions.get)
    monkeypatch.setattr(check, "_is_there", lambda name: name not in made.absent)
    monkeypatch.setattr(check, "answers_of", made.ask)
    monkeypatch.setattr(TRLReward, "results", lambda *_, **__: BatchResult(results=graded))
    return made


# The installed TRL itself


@pytest.fixture(scope="module")
def real() -> dict[str, Finding]:
    pytest.importorskip("trl")
    return by_name(check.findings())


def tools_work() -> bool:
    """Not with TRL before 1.7 and transformers from 5.13 on."""
    trl, transformers = (tuple(map(int, version(name).split(".")[:2])) for name in ("trl", "transformers"))
    return trl >= (1, 7) or transformers < (5, 13)


@pytest.mark.local_sandbox
def test_the_installed_trl_leaves_a_row_without_a_verdict_out(real: dict[str, Finding]) -> None:
    not_ok = {name for name, finding in real.items() if finding.status != "ok"}
    assert not_ok == (set() if tools_work() else {"an agent's tool calls"})
    for kind, expected in (("GRPO", [1.121, -0.8, -0.32]), ("RLOO", [0.875, -0.625, -0.25])):
        detail = real[f"{kind}: a row without a verdict"].detail
        first, second = (json.loads(numbers) for numbers in re.findall(r"\[.*?\]", detail))
        assert second == expected
        assert first == [*expected[:2], 0.0, expected[2]]


@pytest.mark.local_sandbox
def test_the_page_shows_what_the_doctor_says(real: dict[str, Finding]) -> None:
    sample = PAGE.read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    said = {
        f"ok    trl: {name}: {finding.detail}" for name, finding in real.items() if finding.status == "ok"
    }
    depending = ("ok    trl: trl: ", "ok    trl: an agent's tool calls: ")
    assert {line for line in sample.splitlines() if not line.startswith(depending)} == {
        line for line in said if not line.startswith(depending)
    }


@pytest.mark.local_sandbox
def test_without_trl_there_is_a_warning_with_the_line_that_installs_it_and_the_sandbox_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version_of = check.version_of
    monkeypatch.setattr(check, "version_of", lambda name: None if name == "trl" else version_of(name))
    found = by_name(check.findings())
    assert found["trl"].status == "warn"
    assert found["trl"].remedy == 'pip install "deepgym-trl[trainer]==1.0.0"'
    assert found["a reward"] == Finding("a reward", "ok", "two_sum: reference 1.0, empty answer 0.0")
    assert set(found) == {"trl", "a reward"}


def test_the_check_loads_no_trainer() -> None:
    code = (
        "import sys; import deepgym_trl.check; "
        "print(sorted({'torch', 'transformers', 'trl', 'datasets'} & set(sys.modules)))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_entry_point_and_the_range_are_those_of_the_distribution() -> None:
    project = PROJECT.read_text(encoding="utf-8")
    assert 'trl = "deepgym_trl.check:findings"' in project
    assert f'"trl{check.SUPPORTED}"' in project


# Versions and packages


def test_where_all_is_well_everything_is_ok(installed: Installation) -> None:
    found = installed.findings()
    assert {finding.status for finding in found.values()} == {"ok"}
    assert installed.asked == ["deepgym_trl.probe"]
    assert found["trl"].detail == "1.16.0 (>=1.6,!=1.15.0)"


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("1.5.1", "fail"),
        ("0.29.0", "fail"),
        ("1.6.0", "ok"),
        ("1.14.2", "ok"),
        ("1.15.0", "fail"),
        ("1.15.1", "ok"),
        ("1.17.0.dev0", "ok"),
        ("2.0", "ok"),
    ],
)
def test_a_version_out_of_the_range_fails_with_what_installs_another(
    version: str, status: str, installed: Installation
) -> None:
    installed.versions["trl"] = version
    found = installed.findings()["trl"]
    assert found.status == status
    assert version in found.detail
    if status != "ok":
        assert found.remedy == 'pip install "deepgym-trl[trainer]==1.0.0"'


def test_the_version_that_needs_triton_is_a_warning_where_triton_is(installed: Installation) -> None:
    installed.versions["trl"] = "1.15.0"
    installed.absent.clear()
    found = installed.findings()["trl"]
    assert found.status == "warn"
    assert "triton" in found.detail


@pytest.mark.parametrize("name", ["torch", "transformers", "datasets"])
def test_without_what_trl_needs_the_trainers_are_not_tried(name: str, installed: Installation) -> None:
    installed.absent.add(name)
    found = installed.findings()
    assert found[name].status == "fail"
    assert found[name].remedy == 'pip install "deepgym-trl[trainer]==1.0.0"'
    assert installed.asked == []


def test_older_versions_need_requests_and_later_ones_do_not(installed: Installation) -> None:
    installed.absent.add("requests")
    assert "requests" not in installed.findings()
    installed.versions["trl"] = "1.13.0"
    found = installed.findings()["requests"]
    assert found.status == "fail"
    assert "TRL 1.13.0 needs requests" in found.detail


@pytest.mark.parametrize(
    ("transformers", "absent", "named"),
    [
        ("5.1.0", set(), "transformers"),
        ("5.10.4", {"jmespath"}, "jmespath"),
        ("5.10.4", set(), None),
        ("5.13.0", {"jmespath"}, None),
    ],
)
def test_what_only_tools_need_is_a_warning(
    transformers: str, absent: set[str], named: str | None, installed: Installation
) -> None:
    installed.versions["transformers"] = transformers
    installed.absent |= absent
    warned = {name: finding for name, finding in installed.findings().items() if finding.status == "warn"}
    assert list(warned) == ([named] if named else [])
    assert all("environment_factory" in finding.detail and finding.remedy for finding in warned.values())


def test_an_adapter_beside_another_core_is_told_the_line_that_pins_both(installed: Installation) -> None:
    installed.versions["deepgym-trl"] = "1.0.1"
    found = installed.findings()["deepgym's own versions"]
    assert (found.status, found.remedy) == ("fail", 'pip install "deepgym[trl]==1.0.0"')


# What the trainers answered


def numbers(had: Sequence[float], hadnt: Sequence[float]) -> dict[str, Any]:
    return {"with": list(had), "without": list(hadnt)}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        # As TRL 1.5.1 answered.
        (numbers([1.452, -0.66, -0.66, -0.132], [1.121, -0.8, -0.32]), "it moves its siblings"),
        (numbers([1.0, -1.0, -0.7, 0.5], [1.0, -1.0, 0.5]), "it has an advantage of its own"),
        (numbers([0.0] * 4, [0.0] * 3), "the trainer's numbers say nothing"),
        (numbers([math.nan, -1.0, 0.0, 0.5], [1.0, -1.0, 0.5]), "the trainer's numbers say nothing"),
        ({"error": "AttributeError: no loss"}, "the trainer failed: AttributeError: no loss"),
        (None, "the trainer failed: no answer"),
    ],
    ids=["siblings", "own", "nothing", "nan", "error", "none"],
)
@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_a_row_that_is_not_left_out_fails(
    kind: str, answer: object, said: str, installed: Installation
) -> None:
    installed.answers = {**WELL, kind: answer}
    found = installed.findings()
    bad = found.pop(f"{kind.upper()}: a row without a verdict")
    assert bad.status == "fail"
    assert said in bad.detail
    assert bad.remedy
    assert {finding.status for finding in found.values()} == {"ok"}


@pytest.mark.parametrize(
    ("question", "answer", "name", "status", "said"),
    [
        ("loss", [2, 2, 2, 2], "DeepGymGRPOTrainer: a row without a verdict", "fail", "[2, 2, 2, 2]"),
        ("loss", [0, 0, 0, 0], "DeepGymGRPOTrainer: a row without a verdict", "fail", "[0, 0, 0, 0]"),
        (
            "loss",
            {"error": "ValueError: x"},
            "DeepGymGRPOTrainer: a row without a verdict",
            "fail",
            "ValueError",
        ),
        (
            "async",
            {"error": "TypeError: coroutine"},
            "the async reward function",
            "fail",
            "TypeError: coroutine",
        ),
        ("trainer", False, "the trainer that calls", "warn", "can't find it"),
        ("trainer", {"error": "KeyError: 1"}, "the trainer that calls", "warn", "KeyError: 1"),
        ("tools", [], "an agent's tool calls", "warn", "it read []"),
        ("tools", {"error": "AttributeError: t"}, "an agent's tool calls", "warn", "AttributeError: t"),
        ("missing", ["trl.X._y"], "parts of TRL that aren't its public interface", "warn", "trl.X._y"),
        (
            "missing",
            {"error": "ImportError: z"},
            "parts of TRL that aren't its public interface",
            "fail",
            "z",
        ),
    ],
)
def test_what_does_not_work_with_this_trl_is_named_with_what_to_do_instead(
    question: str, answer: object, name: str, status: str, said: str, installed: Installation
) -> None:
    installed.answers = {**WELL, question: answer}
    found = installed.findings()[name]
    assert found.status == status
    assert said in found.detail
    assert found.remedy


def test_trainers_that_give_no_answer_fail_with_the_reason(installed: Installation) -> None:
    installed.answers = "their process ended with -9: Killed"
    found = installed.findings()["TRL's trainers"]
    assert (found.status, found.detail) == ("fail", "their process ended with -9: Killed")


def test_a_part_of_the_check_that_raises_is_a_finding_and_the_others_go_on(
    installed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*_: object, **__: object) -> object:
        raise OSError("no room")

    monkeypatch.setattr(TRLReward, "results", raising)
    installed.answers = {**WELL, "grpo": {"neither": []}}
    found = installed.findings()
    assert found["grading"].detail == "the check itself failed: OSError: no room"
    assert found["trainers"].detail == "the check itself failed: KeyError: 'with'"
    assert found["trl"].status == "ok"


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (
            [RunResult(score=0.0, error_type="sandbox_error", error="no namespaces"), RunResult(score=0.0)],
            "reference None, empty answer 0.0: sandbox_error: no namespaces",
        ),
        ([RunResult(score=0.5), RunResult(score=0.0)], "reference 0.5, empty answer 0.0"),
        ([RunResult(score=1.0, passed=True)] * 2, "reference 1.0, empty answer 1.0"),
    ],
    ids=["no verdict", "a bad reference", "a free reward"],
)
def test_a_reward_that_is_not_right_sends_to_the_sandboxs_own_check(
    results: list[RunResult], said: str, installed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TRLReward, "results", lambda *_, **__: BatchResult(results=tuple(results)))
    found = installed.findings()["a reward"]
    assert (found.status, found.remedy) == ("fail", "deepgym doctor local")
    assert said in found.detail


# The process that asks


def module(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "asked_module.py").write_text(f"import json, os, sys, time\n{code}\n")
    monkeypatch.syspath_prepend(str(folder))
    return "asked_module"


WRITE = "json.dump(answer, open(sys.argv[1], 'w'))"


def test_answers_come_from_a_process_of_its_own_with_these_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "ACCELERATE_USE_FSDP"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MINE", "kept")
    code = f"answer = {{'pid': os.getpid(), 'environ': dict(os.environ), 'cwd': os.getcwd()}}; {WRITE}"
    found = answers_of(module(tmp_path, code, monkeypatch))
    assert isinstance(found, dict)
    assert found["pid"] != os.getpid()
    assert found["cwd"] != os.getcwd()
    assert not Path(found["cwd"]).exists()
    environ = found["environ"]
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "ACCELERATE_USE_FSDP"} & set(environ)
    assert (environ["MINE"], environ["CUDA_VISIBLE_DEVICES"], environ["HF_HUB_OFFLINE"]) == ("kept", "", "1")


def test_a_process_that_hangs_is_given_up_and_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    code = f"open({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    started: list[Any] = []
    popen = subprocess.Popen

    class Begun(popen):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(probing.subprocess, "Popen", Begun)
    assert (
        answers_of(module(tmp_path, code, monkeypatch), seconds=0.5)
        == "their process wasn't done after 0.5 s"
    )
    assert started[0].returncode == -9


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('out of luck', file=sys.stderr, flush=True); os._exit(3)", "ended with 3: out of luck"),
        ("os._exit(3)", "ended with 3: it said nothing"),
        ("raise OSError('no room')", "ended with 1: OSError: no room"),
        ("pass", "ended with 0: it said nothing"),
    ],
    ids=["dies", "dies silently", "raises", "writes nothing"],
)
def test_a_process_without_an_answer_says_how_it_ended(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers_of(module(tmp_path, code, monkeypatch)) == f"their process {said}"


# The trainers themselves, here


def test_a_trainer_that_counts_none_as_zero_is_caught() -> None:
    trl = pytest.importorskip("trl")
    from deepgym_trl import probe

    class Older(trl.GRPOTrainer):  # type: ignore[misc]
        """As TRL before 1.6."""

        def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
            return super()._calculate_rewards(*args, **kwargs).nan_to_num(0.0)

    def answer(trainer: Any) -> dict[str, list[float]]:
        judged = [reward for reward in probe.GROUP if reward is not None]
        groups: dict[str, list[float | None]] = {"with": [*probe.GROUP], "without": [*judged]}
        return {
            name: probe.step(trainer, trl.GRPOConfig, probe._judge(group), len(group))
            for name, group in groups.items()
        }

    found = left_out("GRPO", answer(Older), "report", "instead")
    assert found.status == "fail"
    assert "it moves its siblings: advantages [1.452, -0.660, -0.660, -0.132]" in found.detail
    assert left_out("GRPO", answer(trl.GRPOTrainer), "report", "instead").status == "ok"


def test_a_private_part_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl")
    from deepgym_trl import masking, probe

    gone = ("trl.GRPOTrainer._nonesuch", "trl.RLOOTrainer(): nonesuch")
    monkeypatch.setattr(masking, "TOUCHES", (*masking.TOUCHES, *gone))
    assert probe.missing_parts() == list(gone)


def test_every_module_that_touches_trl_says_what() -> None:
    """Underscored names of a trainer stand in the lists of the modules that use them."""
    from importlib import import_module

    from deepgym_trl import probe

    for user in probe.USERS:
        assert import_module(f"deepgym_trl.{user}").TOUCHES


def test_a_question_that_raises_is_answered_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl")
    from deepgym_trl import probe

    def broken(*_: object) -> Callable[..., object]:
        raise RuntimeError("no step")

    monkeypatch.setattr(probe, "made", broken)
    monkeypatch.setattr(probe, "_noise", broken)
    probe.main(str(tmp_path / "answers.json"))
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert answers == {name: {"error": "RuntimeError: no step"} for name in WELL}
