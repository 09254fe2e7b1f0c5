"""lm-eval's own options with our tasks, its own command line, and its Python interface."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Environment, load_environment, load_suite
from deepgym.exceptions import UnknownNameError
from deepgym.providers.local import LocalProvider
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym_lmeval import make_lm_eval_task, task_manager, tasks_folder
from deepgym_lmeval.names import listing

from .answers import Answers, canonical, wrong
from .harness import VERSION, arguments, command, evaluate, manager, names, written
from .server import Asked, loopback

pytestmark = pytest.mark.local_sandbox


def test_predict_only_judges_nothing_and_opens_no_sandbox(known: Any) -> None:
    provider = FaultyProvider(FakeProvider(), Fault("provider", Phase.QUEUED))
    task = make_lm_eval_task("easy", dg=DeepGym(provider=provider))
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, task, predict_only=True)
    assert not provider.struck
    assert set(run.values("deepgym_easy")) == {"bypass", "bypass_stderr"}
    for sample in run.samples("deepgym_easy"):
        reference = load_environment(sample["doc"]["task_id"]).reference
        assert sample["resps"] == sample["filtered_resps"] == [[reference]]
        assert not [name for name in sample if name.startswith("deepgym_")]


def test_predict_only_needs_no_confirmation_of_unsafe_code(known: Any) -> None:
    dg = DeepGym(provider=LocalProvider(isolation="unsafe"))
    task = make_lm_eval_task("two_sum", dg=dg)
    with dg, loopback(Answers(canonical, known)) as server:
        evaluate(server, task, predict_only=True)
    assert len(server.asked) == 1


def test_a_limit_takes_the_first_documents(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_humaneval", limit=3)
    assert names(run, "deepgym_humaneval") == ["humaneval/0", "humaneval/1", "humaneval/2"]
    values = run.values("deepgym_humaneval")
    assert (values["deepgym_judged"], values["deepgym_score"]) == (3, 1.0)
    assert run.judged("deepgym_humaneval")["runs"] == 3
    assert run.everything["n-samples"]["deepgym_humaneval"] == {"original": 164, "effective": 3}


def test_a_limit_of_one_document_has_no_standard_error(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        values = evaluate(server, "deepgym_humaneval", limit=1).values("deepgym_humaneval")
    assert (values["deepgym_score"], values["deepgym_score_stderr"]) == (1.0, "N/A")


def test_chosen_samples_are_those_documents(known: Any) -> None:
    with loopback(
        Answers(lambda env, chat: (canonical if env.name.endswith("/7") else wrong)(env, chat), known)
    ) as server:
        run = evaluate(server, "deepgym_humaneval", samples={"deepgym_humaneval": [7, 100]})
    assert names(run, "deepgym_humaneval") == ["humaneval/7", "humaneval/100"]
    assert [sample["deepgym_pass"] for sample in run.samples("deepgym_humaneval")] == [1.0, 0.0]
    assert [sample["doc_id"] for sample in run.samples("deepgym_humaneval")] == [7, 100]


def test_examples_asked_for_on_the_command_line_are_not_put_into_prompts(
    known: Any, humaneval: tuple[Environment, ...]
) -> None:
    """lm-eval lets a task that says `num_fewshot: 0` keep it, and says so."""
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_humaneval", num_fewshot=2, limit=2)
    assert [one.prompt for one in server.asked] == [
        env.prefix for env in sorted(humaneval[:2], key=lambda env: -len(env.prefix))
    ]
    assert run.values("deepgym_humaneval")["deepgym_score"] == 1.0
    assert run.everything["n-shot"]["deepgym_humaneval"] == 0


def test_generation_options_of_the_user_win(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        evaluate(
            server,
            "deepgym_humaneval",
            limit=1,
            gen_kwargs={"max_gen_toks": 64, "temperature": 0.5, "until": ["\n\n\n\n"]},
        )
    (asked,) = server.asked
    assert (asked.body["max_tokens"], asked.body["temperature"], asked.stops) == (64, 0.5, ["\n\n\n\n"])


def test_generation_options_leave_the_others_as_they_are(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        evaluate(server, "deepgym_humaneval", limit=1, gen_kwargs={"temperature": 0.5})
    (asked,) = server.asked
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (1536, 0.5)
    assert "\nif __name__" in asked.stops


def test_generation_options_of_a_task_are_merged_with_the_defaults(known: Any) -> None:
    task = make_lm_eval_task("two_sum", generation_kwargs={"max_gen_toks": 64})
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, task)
    (asked,) = server.asked
    assert (asked.body["max_tokens"], asked.body["temperature"], asked.stops) == (64, 0, ["\n```"])
    assert run.values("deepgym_two_sum")["deepgym_score"] == 1.0


def test_examples_are_refused_because_a_document_holds_no_answer_to_show() -> None:
    with pytest.raises(ValueError, match="num_fewshot=2"):
        make_lm_eval_task("humaneval", num_fewshot=2)


def test_a_task_that_is_used_again_says_nothing_of_the_time_before(known: Any) -> None:
    task = make_lm_eval_task("easy")
    says = {"says": canonical}
    with loopback(Answers(lambda env, chat: says["says"](env, chat), known)) as server:
        first = evaluate(server, task)
        says["says"] = wrong
        second = evaluate(server, task, limit=2)
        third = evaluate(server, task, predict_only=True)
    assert first.values("deepgym_easy")["deepgym_score"] == 1.0
    assert second.values("deepgym_easy")["deepgym_score"] == 0.0
    assert second.judged("deepgym_easy") == {"runs": 2, "judged": 2, "no_verdict": {}}
    assert "deepgym" not in third.everything["configs"]["deepgym_easy"].get("metadata", {})


def test_a_client_that_is_closed_while_a_model_generates_is_opened_again(known: Any) -> None:
    answers = Answers(canonical, known)
    dg = DeepGym()

    def answer(asked: Asked) -> str:
        dg.close()
        return answers(asked)

    with loopback(answer) as server:
        values = evaluate(server, make_lm_eval_task("easy", dg=dg)).values("deepgym_easy")
    dg.close()
    assert (values["deepgym_verdict"], values["deepgym_score"]) == (1.0, 1.0)


def test_a_users_own_file_may_build_on_ours(known: Any, tmp_path: Path) -> None:
    lines = [f"include: {tasks_folder()}/deepgym_two_sum.yaml", "task: own", "repeats: 2"]
    (tmp_path / "own.yaml").write_text("\n".join(lines))
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "own", task_manager=manager(str(tmp_path)))
    assert run.values("own")["deepgym_pass@2"] == 1.0
    assert len(server.asked) == 2


def test_cached_answers_are_judged_again_without_a_request(known: Any, tmp_path: Path) -> None:
    cache = str(tmp_path / "answers")
    with loopback(Answers(canonical, known)) as server:
        first = evaluate(server, "deepgym_easy", use_cache=cache)
        asked = len(server.asked)
        second = evaluate(server, "deepgym_easy", use_cache=cache)
        assert len(server.asked) == asked > 0
    assert second.values("deepgym_easy") == first.values("deepgym_easy")
    assert second.values("deepgym_easy")["deepgym_score"] == 1.0


@pytest.fixture
def requests_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from lm_eval.caching import cache

    monkeypatch.setattr(cache, "PATH", str(tmp_path / "requests"))
    return tmp_path / "requests"


def test_cached_requests_give_the_same_numbers(known: Any, requests_cache: Path) -> None:
    with loopback(Answers(canonical, known)) as server:
        runs = [evaluate(server, "deepgym_easy", cache_requests=True) for _ in range(2)]
        chat = evaluate(server, "deepgym_easy", cache_requests=True, chat=True)
    assert any(requests_cache.iterdir())
    assert runs[0].values("deepgym_easy") == runs[1].values("deepgym_easy") == chat.values("deepgym_easy")
    assert runs[1].values("deepgym_easy")["deepgym_score"] == 1.0
    (count,) = {len(run.samples("deepgym_easy")) for run in runs}
    assert [one.prompt for one in server.asked[:count]] == [
        one.prompt for one in server.asked[count : 2 * count]
    ]


def test_cached_requests_of_another_environment_are_refused_before_any_request(
    known: Any, requests_cache: Path
) -> None:
    env = load_environment("two_sum")
    changed = env.model_copy(update={"task": env.task + " Return a list."})
    with loopback(Answers(canonical, [env, changed])) as server:
        evaluate(server, make_lm_eval_task(env), cache_requests=True)
        with pytest.raises(ValueError, match="--cache_requests refresh"):
            evaluate(server, make_lm_eval_task(changed), cache_requests=True)
        assert len(server.asked) == 1
        evaluate(server, make_lm_eval_task(changed), cache_requests=True, rewrite_requests_cache=True)
        assert server.asked[-1].prompt.count("Return a list.") == 1


def test_what_is_written_out_is_a_prompt(known: Any, caplog: pytest.LogCaptureFixture) -> None:
    with loopback(Answers(canonical, known)) as server, caplog.at_level(logging.INFO):
        run = evaluate(server, "deepgym_humaneval", limit=1, write_out=True)
    assert "def has_close_elements" in caplog.text
    assert run.values("deepgym_humaneval")["deepgym_score"] == 1.0


def test_log_samples_may_be_off(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_easy", log_samples=False)
    assert run.values("deepgym_easy")["deepgym_score"] == 1.0
    assert "samples" not in run.everything


def test_no_bootstrap_leaves_no_standard_error(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        values = evaluate(server, "deepgym_easy", bootstrap_iters=0).values("deepgym_easy")
    assert (values["deepgym_score"], values["deepgym_score_stderr"]) == (1.0, "N/A")


def test_a_system_message_is_sent_before_the_question(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_two_sum", chat=True, system_instruction="Be brief.")
    (asked,) = server.asked
    assert [message["role"] for message in asked.body["messages"]] == ["system", "user"]
    assert run.values("deepgym_two_sum")["deepgym_score"] == 1.0


def test_null_content_is_an_empty_answer(known: Any) -> None:
    with loopback(lambda asked: None) as server:
        values = evaluate(server, "deepgym_two_sum", chat=True).values("deepgym_two_sum")
    assert (values["deepgym_verdict"], values["deepgym_score"]) == (1.0, 0.0)


@pytest.mark.parametrize("chat", [False, True])
def test_no_text_of_a_model_stops_an_evaluation(
    known: Any, humaneval: tuple[Environment, ...], chat: bool
) -> None:
    texts = [
        "\x00",
        "```" * 2000,
        "(" * 20_000,
        "\ud83d",
        "é" * 10_000,
        "'''",
        "\\",
        "\r",
        "def \n",
        "<think>",
    ]
    said = {env.name: texts[at % len(texts)] for at, env in enumerate(humaneval)}
    with loopback(Answers(lambda env, chat: said[env.name], known)) as server:
        values = evaluate(server, "deepgym_humaneval", chat=chat, limit=len(texts)).values(
            "deepgym_humaneval"
        )
    assert (values["deepgym_verdict"], values["deepgym_score"]) == (1.0, 0.0)


#: lm-eval's own command, which else reads its own ten thousand tasks each time.
ALONE = """
import json, sys
from lm_eval.tasks import TaskManager
make = TaskManager.__init__
def init(self, *args, **options):
    make(self, *args, **{**options, "include_defaults": False})
TaskManager.__init__ = init
from lm_eval.__main__ import cli_evaluate
for words in json.loads(sys.argv[1]):
    sys.argv = ["lm_eval", *words]
    cli_evaluate()
"""


def test_lm_evals_own_command_finds_validates_and_lists_the_tasks_by_their_folder(
    known: Any, tmp_path: Path
) -> None:
    include = ["--include_path", str(tasks_folder())]
    with loopback(Answers(canonical, known)) as server:
        options = ["--log_samples", "--output_path", str(tmp_path)]
        lines = [
            ["validate", "--tasks", "deepgym_humaneval,deepgym"],
            ["ls", "tasks"],
            ["ls", "groups"],
            arguments(server, "deepgym_two_sum", *options),
        ]
        run = command(json.dumps([[*words, *include] for words in lines]), program=["-c", ALONE])
    assert run.returncode == 0, run.stderr
    assert "All tasks found and valid" in run.stdout
    assert [name for name, _ in listing() if name not in run.stdout] == []
    assert written(tmp_path).values("deepgym_two_sum")["deepgym_score"] == 1.0


def test_python_takes_a_task_for_an_environment_a_suite_or_several(known: Any) -> None:
    tasks = {
        "two_sum": ("deepgym_two_sum", 1),
        "easy": ("deepgym_easy", len(load_suite("easy"))),
        "humaneval/0": ("deepgym_humaneval_0", 1),
    }
    with loopback(Answers(canonical, known)) as server:
        for env, (name, count) in tasks.items():
            run = evaluate(server, make_lm_eval_task(env))
            assert len(run.samples(name)) == count
            assert run.values(name)["deepgym_score"] == 1.0
        several = make_lm_eval_task([load_environment("two_sum"), "coin_change"], name="mine")
        run = evaluate(server, several, make_lm_eval_task(load_suite("easy")))
    assert names(run, "mine") == ["two_sum", "coin_change"]
    assert run.values("mine")["deepgym_judged"] == 2
    assert run.values("deepgym_easy")["deepgym_score"] == 1.0


def test_a_task_of_nothing_known_is_refused_at_once() -> None:
    with pytest.raises(UnknownNameError, match="two_sum"):
        make_lm_eval_task("two_sums")
    with pytest.raises(ValueError, match="no environment"):
        make_lm_eval_task([])


def test_a_task_manager_knows_lm_evals_tasks_or_only_ours(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("include: " + str(tasks_folder() / "deepgym_two_sum.yaml") + "\ntask: own\n")
    ours = task_manager(include_defaults=False)
    assert {name for name, _ in listing()} == set(ours.all_tasks)
    more = task_manager(str(tmp_path), include_defaults=False)
    assert set(more.all_tasks) - set(ours.all_tasks) == {"own"}


MBPP = {
    "task_id": 1,
    "text": "Write a function to add two numbers.",
    "code": "def add(a, b):\n    return a + b",
    "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(-1, 1) == 0"],
}


def test_mbpp_is_read_from_the_file_that_metadata_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mbpp.jsonl"
    path.write_text(json.dumps(MBPP) + "\n")
    envs = load_suite(path).environments
    if VERSION < (0, 4, 12):  # which keep metadata from tasks that are classes
        monkeypatch.setenv("DEEPGYM_MBPP", str(path))
    ours = task_manager(include_defaults=False, metadata={"mbpp": str(path)})
    with loopback(Answers(canonical, envs)) as server:
        for chat in (False, True):
            run = evaluate(server, "deepgym_mbpp", chat=chat, task_manager=ours)
            assert run.values("deepgym_mbpp")["deepgym_score"] == 1.0
            assert len(run.samples("deepgym_mbpp")) == 1


def test_mbpp_without_its_file_says_how_to_name_it(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        with pytest.raises(ValueError, match="--metadata"):
            evaluate(server, "deepgym_mbpp")
        assert server.asked == []
