"""Sample logs: what is taken for one, what is believed of it, and how it is written again. Without lm-eval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgym.environments import load_environment, load_suite
from deepgym.exceptions import DeepGymError, InvalidEnvironmentError, UnknownNameError
from deepgym_lmeval import documents, logs
from deepgym_lmeval.graded import Graded
from deepgym_lmeval.known import Known
from deepgym_lmeval.samples import Sample, SamplesError, sample

TWO_SUM = documents.row(load_environment("two_sum"))
PASSED = Graded(score=1.0, passed=True, answer_sha256="ab", isolation="namespaces")
MISSING = Graded(score=None, passed=False, error_type="provider_error", error="503")
#: The question as ChatML, as the hf backend logs it.
TEMPLATED = f"<|im_start|>user\n{TWO_SUM['question']}<|im_end|>\n<|im_start|>assistant\n"


def messages(*said: tuple[str, str]) -> list[str]:
    """As lm-eval logs what it sends to a chat server: JSON text in a tuple."""
    return [json.dumps([{"role": role, "content": text, "type": "text"} for role, text in said])]


def line(
    *texts: str, sent: Any = TEMPLATED, grades: list[Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """A line as lm-eval 0.4.10 to 0.4.13 write it; without ``grades`` as with ``--predict_only``."""
    filtered = list(texts) if grades is None else [str(grade) for grade in grades]
    judged = [grade.score for grade in grades or [] if isinstance(grade, Graded) and grade.has_verdict]
    metrics: dict[str, Any] = {"bypass": None}
    if grades is not None:
        metrics = {"deepgym_verdict": len(judged) / len(grades)}
        metrics |= {"deepgym_score": sum(judged) / len(judged)} if judged else {}
    return {
        "doc_id": 0,
        "doc": TWO_SUM,
        "target": "",
        "arguments": {"gen_args_0": {"arg_0": sent, "arg_1": {"until": [], "max_gen_toks": 1536}}},
        "resps": [list(texts)],
        "filtered_resps": [filtered],
        "filter": "deepgym",
        "metrics": list(metrics),
        "doc_hash": "d",
        "prompt_hash": "p",
        "target_hash": "t",
        **metrics,
        **fields,
    }


def put(
    folder: Path, *lines: Any, name: str = "samples_deepgym_easy_2026-11-30T14-25-50.123456.jsonl"
) -> Path:
    """A log; text and bytes stand in it as they are."""
    path = folder / name
    rows = [one if isinstance(one, (str, bytes)) else json.dumps(one) + "\n" for one in lines]
    path.write_bytes(b"".join(row.encode() if isinstance(row, str) else row for row in rows))
    return path


def strict(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


# --- what a line says ---


def test_a_graded_line_gives_its_texts_and_their_grades() -> None:
    found = sample(line("a", "b", grades=[PASSED, MISSING]), "log line 1")
    assert (found.task_id, found.texts, found.grades) == ("two_sum", ("a", "b"), (PASSED, MISSING))
    assert found.env_digest == TWO_SUM["env_digest"]
    assert not found.every_key


def test_a_line_of_predict_only_has_no_grades() -> None:
    assert sample(line("a", "b"), "log line 1").grades == (None, None)


def test_an_answer_that_reads_like_a_grade_is_not_believed() -> None:
    found = sample(line(str(PASSED)), "log line 1")
    assert (found.texts, found.grades) == ((str(PASSED),), (None,))


def test_what_is_no_grade_in_a_graded_line_counts_as_none() -> None:
    found = sample(line("a", "b", grades=[PASSED, '{"score": 7, "passed": true}']), "log line 1")
    assert found.grades == (PASSED, None)


def test_the_second_copy_of_a_padded_ranks_answers_is_left_out() -> None:
    found = sample(line("a", "b", "a", "b", grades=[PASSED, MISSING]), "log line 1")
    assert (found.texts, found.grades) == (("a", "b"), (PASSED, MISSING))


@pytest.mark.parametrize("grades", [[PASSED, PASSED, PASSED], ["a"], []])
def test_grades_that_fit_no_run_are_left_aside(grades: list[Any]) -> None:
    fields = {**line("a", "b"), "deepgym_verdict": 1.0, "filtered_resps": [[str(one) for one in grades]]}
    found = sample(fields, "log line 1")
    assert (found.texts, found.grades) == (("a", "b"), (None, None))


@pytest.mark.parametrize(
    ("sent", "continues"),
    [
        pytest.param(TWO_SUM["prompt"], True, id="the prompt"),
        pytest.param("An example.\n\n" + TWO_SUM["prompt"], True, id="examples before it"),
        pytest.param(TWO_SUM["prompt"].rstrip(), True, id="its blank end cut off"),
        pytest.param(TWO_SUM["prompt"] + "\n", True, id="a line's end added"),
        pytest.param(TEMPLATED, False, id="a chat template's text"),
        pytest.param(TWO_SUM["question"], False, id="a template that adds nothing"),
        pytest.param(messages(("user", TWO_SUM["question"])), False, id="messages"),
        pytest.param(
            messages(("system", "Be brief."), ("user", TWO_SUM["question"])), False, id="a system prompt"
        ),
        pytest.param(messages(("user", TWO_SUM["prompt"])), False, id="the prompt asked in a chat"),
        pytest.param(messages(("user", "Go"), ("assistant", TWO_SUM["prompt"])), True, id="a turn begun"),
        pytest.param(messages(("user", "Go"), ("assistant", "Yes")), False, id="another turn begun"),
        pytest.param(json.dumps([{"role": "user", "content": "Go"}]), False, id="messages as text"),
        pytest.param("[1, 2]\n" + TWO_SUM["prompt"], True, id="text that begins with a bracket"),
    ],
)
def test_whether_a_model_continued_the_prompt_or_was_asked_is_seen_from_what_was_sent(
    sent: Any, continues: bool
) -> None:
    assert sample(line("a", sent=sent), "log line 1").continues is continues


def test_arguments_as_the_harness_has_them_in_memory_are_read_too() -> None:
    fields = line("a", arguments=[[TWO_SUM["prompt"], {"until": []}]])
    assert sample(fields, "log line 1").continues


def test_a_documents_blank_prompt_is_continued_by_nothing() -> None:
    assert not sample(line("a", doc={**TWO_SUM, "prompt": "\n"}), "log line 1").continues


def test_the_k_of_pass_at_k_is_that_of_the_log() -> None:
    assert sample(line("a", "b", **{"deepgym_pass@2": 1.0}), "log line 1").k == 2
    assert sample(line("a", "b"), "log line 1").k is None


def test_a_metric_that_stands_there_as_null_shows_a_run_on_several_ranks() -> None:
    assert sample(line("a", grades=[MISSING], deepgym_score=None), "log line 1").every_key


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([1], "log line 7 is a list, not a sample; pass files samples_<task>_<date>.jsonl"),
        (None, "log line 7 is a NoneType, not a sample"),
        ({"doc": {}}, "log line 7 isn't a sample: it has no arguments, resps"),
        (line("a", doc=[]), "log line 7: its doc has no task_id and prompt"),
        (line("a", doc={"question": "2 + 2?"}), "log line 7: its doc has no task_id and prompt"),
        (line("a", doc={"task_id": 11, "prompt": "x"}), "log line 7: its doc has no task_id and prompt"),
        (line("a", resps="a"), "log line 7: its resps aren't"),
        (line("a", resps=[]), "log line 7: its resps aren't"),
        (line("a", resps=[[]]), "log line 7: its resps aren't"),
        (line("a", resps=[["a"], ["b"]]), "log line 7: its resps aren't"),
        (line("a", resps=[["a", None]]), "log line 7: its resps aren't"),
        (line("a", resps=[[["-1.5", "False"]]]), "log line 7: its resps aren't"),
        (line("a", arguments={}), "log line 7: its arguments don't hold the prompt"),
        (line("a", arguments=None), "log line 7: its arguments don't hold the prompt"),
        (line("a", arguments=3), "log line 7: its arguments don't hold the prompt"),
        (line("a", arguments=[[3]]), "log line 7: its arguments don't hold the prompt"),
        (line("a", sent=["a", "b"]), "log line 7: its arguments don't hold the prompt"),
    ],
)
def test_what_is_no_sample_is_refused_with_its_line(fields: Any, message: str) -> None:
    with pytest.raises(SamplesError) as raised:
        sample(fields, "log line 7")
    assert str(raised.value).startswith(message)
    assert isinstance(raised.value, DeepGymError)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = st.sampled_from(
    ["doc", "arguments", "resps", "filtered_resps", "metrics", "filter", "deepgym_score", "doc_id"]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(PLACES, JSON, max_size=8), st.booleans())
def test_whatever_stands_in_a_line_it_is_a_sample_or_refused(fields: dict[str, Any], graded: bool) -> None:
    whole = {**line("a", grades=[PASSED] if graded else None), **fields}
    try:
        found = sample(whole, "log line 1")
    except SamplesError:
        return
    assert isinstance(found, Sample)
    assert len(found.texts) == len(found.grades) >= 1
    assert strict(json.dumps(found.again([MISSING], {"deepgym_verdict": 0.0})))["deepgym_verdict"] == 0.0


# --- a file of them ---


def test_blank_lines_and_foreign_line_ends_are_no_samples(tmp_path: Path) -> None:
    path = put(
        tmp_path, line("a"), "\n", json.dumps(line("b")) + "\r\n", "  \n", json.dumps(line("c", doc_id=2))
    )
    assert [found.texts for found in logs.read(path)] == [("a",), ("b",), ("c",)]


def test_the_line_that_is_broken_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, line("a"), "\n", '{"doc": \n', line("b"))
    with pytest.raises(SamplesError, match=r"T14-25-50.123456.jsonl line 3 isn't JSON \(Expecting value"):
        logs.read(path)


def test_a_results_file_is_answered_with_what_to_pass(tmp_path: Path) -> None:
    path = put(tmp_path, json.dumps({"results": {}}, indent=2), name="results.json")
    with pytest.raises(SamplesError, match=r"line 1 isn't JSON .* which lm_eval writes with --log_samples"):
        logs.read(path)


@pytest.mark.parametrize("cut", [1, 40, 400, -1, -2])
def test_a_last_line_that_was_cut_off_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    whole = json.dumps(line("b", doc_id=1))
    path = put(tmp_path, line("a"), whole[:cut])
    assert [found.texts for found in logs.read(path)] == [("a",)]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} line 2 was cut off, as by a run that was killed; it is left out"
    ]


def test_a_line_that_was_cut_within_a_character_is_left_out_too(tmp_path: Path) -> None:
    whole = json.dumps(line("ä", doc_id=1), ensure_ascii=False).encode()
    path = put(tmp_path, line("a"), whole[: whole.index("ä".encode()) + 1])
    assert [found.texts for found in logs.read(path)] == [("a",)]


@pytest.mark.parametrize("content", ["", "\n\n", '{"doc_id": 0, "do'])
def test_a_file_without_a_sample_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(SamplesError, match=r"holds no sample; pass files samples_"):
        logs.read(put(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\n", "line 1 isn't JSON \\('utf-8' codec"),
        (b"[" * 100_000 + b"\n", "line 1 isn't JSON"),
        (b"9" * 5000 + b"\n", "line 1 isn't JSON \\(Exceeds the limit"),
        (b"\xef\xbb\xbf{}\n", "line 1 isn't JSON"),
        (b"17\n", "line 1 is a int, not a sample"),
    ],
)
def test_bytes_that_are_no_log_are_an_error_with_the_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(SamplesError, match=message):
        logs.read(put(tmp_path, content))


def test_a_line_beyond_all_measure_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_BYTES", 5000)
    path = put(tmp_path, line("a"), line("b" * 5000))
    with pytest.raises(SamplesError, match=r"line 2 is longer than 5000 bytes"):
        logs.read(path)


def test_a_folder_or_no_file_is_an_error_that_says_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match=r"can't be read: Is a directory; pass files samples_"):
        logs.read(tmp_path)
    with pytest.raises(SamplesError, match=r"can't be read: No such file or directory"):
        logs.read(tmp_path / "samples_x.jsonl")


def test_documents_that_stand_in_a_log_twice_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(tmp_path, line("a"), line("b"), line("c", doc_id=1))
    assert len(logs.read(path)) == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: lines of documents that it has already: 1; each counts"
    ]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("samples_deepgym_humaneval_2026-11-30T14-25-50.123456.jsonl", "deepgym_humaneval"),
        ("samples_deepgym_humaneval_k10_2026-11-30T14-25-50.jsonl", "deepgym_humaneval_k10"),
        ("samples_a_2026-11-30T14-25-50_2026-11-30T14-25-50.1.jsonl", "a_2026-11-30T14-25-50"),
        ("samples_x.jsonl", "samples_x"),
        ("mine.jsonl", "mine"),
    ],
)
def test_the_task_is_named_by_the_file(name: str, task: str) -> None:
    assert logs.task_of(Path("folder", name)) == task


# --- which environment ---


def known(task_id: str, prompt: str = "x", suite: Any = None) -> Any:
    fields = line("a", doc={"task_id": task_id, "prompt": prompt})
    return Known(suite).environment(sample(fields, "log line 4"))


def test_built_in_environments_and_humanevals_are_known_by_name() -> None:
    assert known("two_sum") == load_environment("two_sum")
    assert known("humaneval/163") == load_environment("humaneval/163")


def test_lm_evals_own_humaneval_is_known_if_its_prompt_is_the_same() -> None:
    environment = load_environment("humaneval/7")
    assert known("HumanEval/7", environment.prefix) == environment
    with pytest.raises(
        SamplesError, match=r"log line 4: no environment is named 'HumanEval/7' and has this prompt; --suite"
    ):
        known("HumanEval/7", environment.prefix + "    # in French\n")


@pytest.mark.parametrize(
    "task_id", ["humaneval/164", "humaneval/", "mbpp/11", "nobody", "two_sum/", "", "Two_Sum"]
)
def test_an_unknown_name_is_an_error_with_the_line_and_what_to_give(task_id: str) -> None:
    with pytest.raises(SamplesError) as raised:
        known(task_id)
    assert str(raised.value) == (
        f"log line 4: no environment is named {task_id!r}; --suite takes the suite that it is of, a JSONL file for one"
    )


def test_a_name_in_a_log_is_never_taken_for_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made_folder(tmp_path, "mine")
    monkeypatch.chdir(tmp_path)
    assert load_environment("./mine").name == "mine"
    for task_id in (str(folder), "./mine", "mine", "mine/"):
        with pytest.raises(SamplesError, match="no environment is named"):
            known(task_id)


def test_a_long_name_with_control_characters_is_shown_short_and_printable() -> None:
    with pytest.raises(SamplesError) as raised:
        known("\x1b[2J\n" + "x" * 5000)
    assert len(str(raised.value)) < 250
    assert str(raised.value).isprintable()


def made_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "environment.toml").write_text(
        f'name = "{name}"\ntask = "Add a and b."\n\n[verify]\nkind = "cases"\nfunction = "add"\n'
        "cases = [{args = [1, 2], expected = 3}]\n"
    )
    return folder


MBPP = {
    "task_id": 2,
    "text": "Write a function add to add two numbers.",
    "code": "def add(a, b):\n    return a + b",
    "test_list": ["assert add(1, 2) == 3"],
}


def test_a_suite_is_given_by_name_as_a_file_as_a_folder_or_as_environments(tmp_path: Path) -> None:
    path = tmp_path / "mbpp.jsonl"
    path.write_text(json.dumps(MBPP) + "\n")
    assert known("mbpp/2", suite=path).name == known("mbpp/2", suite=str(path)).name == "mbpp/2"
    assert known("humaneval/0", suite="humaneval") == load_environment("humaneval/0")
    assert known("mine", suite=made_folder(tmp_path, "mine")).task == "Add a and b."
    mine = load_suite(path).environments[0]
    assert known("mbpp/2", suite=load_suite(path)) == known("mbpp/2", suite=[mine]) == mine


def test_what_is_given_wins_over_what_is_built_in() -> None:
    mine = load_environment("two_sum").model_copy(update={"task": "Mine."})
    assert known("two_sum", suite=[mine]) is mine
    assert known("calculator", suite=[mine]) == load_environment("calculator")


def test_a_suite_that_has_not_the_name_shows_which_it_has(tmp_path: Path) -> None:
    path = tmp_path / "sanitized.jsonl"
    path.write_text(json.dumps(MBPP) + "\n")
    with pytest.raises(
        SamplesError, match=r"named 'mbpp/2', among those of --suite neither: they are sanitized/2 \.\.\."
    ):
        known("mbpp/2", suite=path)


def test_a_suite_that_cannot_be_had_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no file"):
        Known(tmp_path / "none.jsonl")
    with pytest.raises(UnknownNameError):
        Known("humanevil")
    mine = load_environment("two_sum")
    with pytest.raises(InvalidEnvironmentError, match="two environments are named 'two_sum'"):
        Known([mine, mine])


# --- writing ---


def test_a_line_that_is_written_again_keeps_all_but_the_grades_and_our_metrics() -> None:
    before = line("a", grades=[PASSED], custom={"x": [1, 2.5, None]}, acc=0.5)
    before["metrics"].append("acc")
    after = sample(before, "log line 1").again([MISSING], {"deepgym_verdict": 0.0, "deepgym_judged": 0})
    expected = {
        **before,
        "filtered_resps": [[str(MISSING)]],
        "metrics": ["acc", "deepgym_verdict", "deepgym_judged"],
    }
    del expected["deepgym_score"]
    assert after == {**expected, "deepgym_verdict": 0.0, "deepgym_judged": 0}
    assert list(after)[:11] == list(before)[:11]


def test_a_line_of_predict_only_is_no_bypass_any_more() -> None:
    after = sample(line("a"), "log line 1").again([PASSED], {"deepgym_verdict": 1.0})
    assert "bypass" not in after
    assert after["metrics"] == ["deepgym_verdict"]


def test_what_python_reads_and_json_has_not_is_written_as_json(tmp_path: Path) -> None:
    text = (
        json.dumps(line("a", grades=[PASSED]))[:-1]
        + ', "x": NaN, "y": [-Infinity, 1e999, 1.5], "z": "\\ud800"}\n'
    )
    (found,) = logs.read(put(tmp_path, text))
    target = tmp_path / "out.jsonl"
    logs.write(target, [found.fields])
    (written,) = target.read_bytes().splitlines()
    fields = strict(written.decode("utf-8"))
    assert (fields["x"], fields["y"], fields["z"]) == (None, [None, None, 1.5], "\ud800")


def test_a_log_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("before")

    def rows() -> Any:
        yield {"a": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        logs.write(target, rows())
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]
    logs.write(target, [{"a": "ä"}, {}])
    assert target.read_bytes() == '{"a": "ä"}\n{}\n'.encode()


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(SamplesError, match=r"folder can't be written: Is a directory"):
        logs.write(tmp_path / "folder", [{}])
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    with pytest.raises(SamplesError, match=r"can't be written: No such file"):
        logs.write(tmp_path / "none" / "x.jsonl", [{}])


def test_one_log_goes_into_a_file_or_a_folder_and_several_into_a_folder(tmp_path: Path) -> None:
    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    new = tmp_path / "new" / "deep"
    assert logs.targets([one, other], None) == [None, None]
    assert logs.targets([one], new / "x.jsonl") == [new / "x.jsonl"]
    assert new.is_dir()
    assert logs.targets([one], new) == [new / "a.jsonl"]
    assert logs.targets([one, other], tmp_path / "more") == [
        tmp_path / "more" / "a.jsonl",
        tmp_path / "more" / "b.jsonl",
    ]


def test_no_log_is_ever_overwritten(tmp_path: Path) -> None:
    path = put(tmp_path, line("a"), name="a.jsonl")
    (tmp_path / "hard.jsonl").hardlink_to(path)
    (tmp_path / "soft.jsonl").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    for out in (
        path,
        tmp_path,
        tmp_path / "hard.jsonl",
        tmp_path / "soft.jsonl",
        tmp_path / "folder" / "a.jsonl",
    ):
        with pytest.raises(SamplesError, match=r"is one of the files to regrade, and is never overwritten"):
            logs.targets([path], out)
    (tmp_path / "apart").mkdir()
    other = put(tmp_path / "apart", line("a"), name="b.jsonl")
    with pytest.raises(SamplesError, match=r"apart/b\.jsonl is one of the files"):
        logs.targets([path, other], tmp_path / "apart")


def test_two_logs_of_one_name_would_overwrite_each_other(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match=r"two of the files are named a\.jsonl"):
        logs.targets([tmp_path / "x" / "a.jsonl", tmp_path / "y" / "a.jsonl"], tmp_path / "out")


def test_a_folder_that_cannot_be_made_is_an_error_before_anything_is_judged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SamplesError, match=r"can't be made: "):
        logs.targets([tmp_path / "a.jsonl"], tmp_path / "file" / "x" / "out.jsonl")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_nothing_can_be_written_into_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(SamplesError, match="nothing can be written into"):
        logs.targets([tmp_path / "a.jsonl"], tmp_path / "closed" / "x.jsonl")


def test_regrading_loads_no_lm_eval() -> None:
    code = "import sys, deepgym_lmeval.regrading; print(sorted({'lm_eval', 'datasets', 'torch'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
