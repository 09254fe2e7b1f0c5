"""The response is told from its prompt however the trainer's tokenizer left the two."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgym_openrlhf.responses import response_of

#: A machine that does much else is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TASK = (
    "Write `add(a, b)`. It returns the sum.\n\nFor example:\n\n    add(1, 2) == 3\n    add(-1, 1) == 0\n" * 3
)
CODE = "```python\ndef add(a, b):\n    return a + b\n```"
BARE = "    total = a + b\n    return total\n"

#: What a chat template puts around a task, and what a policy ends its turn with.
TEMPLATES = {
    "qwen": (
        "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
        "<|im_end|>",
    ),
    "llama3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>",
    ),
    "gemma": ("<bos><start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>"),
    "mistral": ("<s>[INST]", "[/INST]", "</s>"),
    "deepseek": (
        "<\uff5cbegin▁of▁sentence\uff5c><\uff5cUser\uff5c>",
        "<\uff5cAssistant\uff5c>",
        "<\uff5cend▁of▁sentence\uff5c>",
    ),
    "deepseek_r1": (
        "<\uff5cbegin▁of▁sentence\uff5c><\uff5cUser\uff5c>",
        "<\uff5cAssistant\uff5c><think>\n",
        "<\uff5cend▁of▁sentence\uff5c>",
    ),
    "glm": ("[gMASK]<sop><|user|>\n", "<|assistant|>\n", "<|user|>"),
    "phi4": ("<|im_start|>user<|im_sep|>", "<|im_end|><|im_start|>assistant<|im_sep|>", "<|im_end|>"),
    "llama4": (
        "<|begin_of_text|><|header_start|>user<|header_end|>\n\n",
        "<|eot|><|header_start|>assistant<|header_end|>\n\n",
        "<|eot|>",
    ),
}
both = pytest.mark.parametrize("response", [CODE, BARE], ids=["fenced", "indented"])
each = pytest.mark.parametrize("name", TEMPLATES)


def prompt_of(name: str, task: str = TASK) -> str:
    before, after, _ = TEMPLATES[name]
    return before + task + after


@each
@both
def test_a_whole_prompt_goes_and_the_response_stays_to_the_character(name: str, response: str) -> None:
    prompt = prompt_of(name)
    assert response_of(prompt + response + TEMPLATES[name][2], prompt) == response


@each
@both
def test_every_cut_that_leaves_the_template_s_end_leaves_the_response(name: str, response: str) -> None:
    prompt, after = prompt_of(name), TEMPLATES[name][1]
    for cut in range(1, len(prompt) - len(after)):
        query = prompt[cut:] + response + TEMPLATES[name][2]
        assert response_of(query, prompt) == response, query[:40]


@each
def test_a_token_before_the_prompt_goes_with_it(name: str) -> None:
    prompt = prompt_of(name)
    for begin in ("<s>", "<|begin_of_text|>", "<bos>", "<\uff5cbegin▁of▁sentence\uff5c>", "<s> "):
        assert response_of(begin + prompt + BARE, prompt) == BARE
        assert response_of(begin + prompt[30:] + BARE, prompt) == BARE


@each
def test_a_prompt_whose_own_first_token_was_lost_is_told(name: str) -> None:
    prompt = prompt_of(name)
    for begin in ("<s>", "<bos>", "<|begin_of_text|>", "<\uff5cbegin▁of▁sentence\uff5c>"):
        if prompt.startswith(begin):
            assert response_of(prompt.removeprefix(begin) + BARE, prompt) == BARE


def test_blanks_that_a_tokenizer_adds_or_drops_do_not_matter() -> None:
    prompt = "<s>[INST] Sort these words , please . [/INST]"
    for query in (
        "<s> [INST] Sort these words , please . [/INST]",
        "<s>[INST]  Sort these words, please. [/INST]",
        "[INST] Sort these words, please.[/INST]",
    ):
        assert response_of(query + BARE + "</s>", prompt) == BARE


def test_characters_that_a_tokenizer_composes_do_not_matter() -> None:
    prompt = "<|im_start|>user\n" + unicodedata.normalize("NFD", "Zähle Wörter für Müller") + "<|im_end|>\n"
    assert unicodedata.normalize("NFC", prompt) != prompt
    assert response_of(unicodedata.normalize("NFC", prompt) + BARE, prompt) == BARE
    assert response_of("ﬁx it: ".replace("ﬁ", "fi") + BARE, "ﬁx it: ") == BARE


def test_a_cut_in_the_middle_of_a_character_does_not_matter() -> None:
    prompt = prompt_of("qwen", "Sort 🙂 by mood. " * 5)
    at = prompt.index("🙂")
    assert response_of("\ufffd\ufffd" + prompt[at + 1 :] + CODE, prompt) == CODE


def test_a_prompt_without_a_template_is_told_if_enough_of_it_is_left() -> None:
    prompt = TASK + "def add(a, b):\n"
    assert response_of(prompt[60:] + BARE, prompt) == BARE


def test_an_answer_that_repeats_its_prompt_s_last_line_keeps_it() -> None:
    prompt = TASK + "def add(first_number: int, second_number: int) -> int:\n"
    answer = (
        "def add(first_number: int, second_number: int) -> int:\n    return first_number + second_number\n"
    )
    # Sent without its prompt.
    assert response_of(answer, prompt) == answer
    # Sent with it.
    assert response_of(prompt + answer, prompt) == answer
    # And with a cut one.
    assert response_of(prompt[100:] + answer, prompt) == answer


def test_an_answer_that_holds_a_template_s_tokens_keeps_them() -> None:
    prompt = prompt_of("qwen")
    answer = 'TURN = "<|im_start|>assistant\\n"\nprint("[/INST]", "<|assistant|>")\n'
    assert response_of(prompt + answer, prompt) == answer
    assert response_of(prompt[50:] + answer, prompt) == answer
    other = "x" * 40 + prompt_of("qwen", "another task, which nobody was asked")
    assert response_of(other + answer, prompt) == answer


def test_where_no_prompt_can_be_told_the_response_stands_behind_the_last_turn() -> None:
    for name in TEMPLATES:
        assert response_of(prompt_of(name) + CODE + TEMPLATES[name][2], "").endswith(CODE)
        assert "Write" not in response_of(prompt_of(name) + CODE, "")
    shots = "<|assistant|>one<|user|>more<|assistant|>"
    assert response_of("?" + shots + BARE, "quite another prompt" + shots) == BARE


def test_a_query_without_prompt_and_template_is_the_response() -> None:
    assert response_of(CODE, "") == CODE
    assert response_of(CODE, "Something else entirely") == CODE
    assert response_of("", "") == response_of("", "a prompt") == response_of("a prompt", "a prompt") == ""


texts = st.text(max_size=60)
pieces = st.lists(
    st.sampled_from(
        [
            "<s>",
            "<|im_start|>",
            "assistant\n",
            "[/INST]",
            "<bos>",
            " ",
            "\n",
            "aab",
            "a",
            "\ufffd",
            "é",
            "<|",
            "|>",
        ]
    ),
    max_size=25,
).map("".join)


@given(st.one_of(texts, pieces), st.one_of(texts, pieces))
@unhurried
def test_no_text_raises_and_the_response_is_a_part_of_the_query(query: str, prompt: str) -> None:
    assert response_of(query, prompt) in query


@given(st.one_of(texts, pieces), st.one_of(texts, pieces))
@unhurried
def test_a_response_behind_its_whole_prompt_is_never_cut_at_its_beginning(prompt: str, response: str) -> None:
    found = response_of(prompt + response, prompt)
    if prompt:
        assert response.startswith(found)


@given(st.data())
@unhurried
def test_a_response_behind_a_cut_prompt_is_never_cut_at_its_beginning(data: st.DataObject) -> None:
    prompt = prompt_of("qwen", data.draw(pieces) + TASK)
    cut = data.draw(st.integers(1, len(prompt) - len("<|im_start|>assistant\n")))
    response = "x" + data.draw(pieces)
    assert response_of(prompt[cut:] + response, prompt).startswith("x")


@pytest.mark.parametrize(
    ("query", "prompt"),
    [
        ("a" * 400_000, "a" * 399_999 + "b"),
        ("a" * 400_000, "b" + "a" * 399_999),
        ("ab" * 200_000, "ba" * 199_999 + "c"),
        ("<s>" * 130_000, "<s>" * 130_000 + "x"),
        ("<|" * 200_000, "|>" * 200_000),
        ("<|im_start|>assistant" + " " * 400_000, " " * 400_000 + "x"),
        ("<|im_start|>assistant " * 20_000, "<|im_start|>assistant " * 20_000 + "x"),
        ("\ufffd" * 400_000, "\ufffd" * 399_999 + "a"),
        ("[/INST]" * 60_000, "x"),
    ],
)
def test_the_work_grows_with_the_length_and_not_with_its_square(query: str, prompt: str) -> None:
    # Squared, any of these is hours of a processor's time.
    assert response_of(query, prompt) in query
