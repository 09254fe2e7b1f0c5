"""The response in a query, which OpenRLHF sends as one text with the prompt, special tokens and all."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from deepgym.extract import strip_end_tokens

__all__ = ["response_of"]

_TOKEN = r"<[|\uff5c][^<>|\uff5c]{1,40}[|\uff5c]>"
#: What may stand before a prompt's own first character: a token that begins a text, and what is left of a
#: character in whose middle a prompt was cut.
_BEGIN = re.compile(rf"\s*(?:{_TOKEN}|<s>|<bos>|\[gMASK\]|<sop>|\ufffd)")
_MOST_BEGINS = 8
#: Where a chat template has the assistant begin.
_TURN = re.compile(
    r"<\|im_start\|>assistant *(?:\n|<\|im_sep\|>)|<\|(?:start_header_id|header_start)\|>assistant"
    r"<\|(?:end_header_id|header_end)\|>\n*|<\|assistant\|>\n*|<start_of_turn>model *\n"
    r"|<\uff5cAssistant\uff5c>|\[/INST\]|<\|start\|>assistant"
)
#: What no answer begins with, so that a text with it in it is a prompt's end, however short.
_MARK = re.compile(rf"{_TOKEN}|</?s>|<start_of_turn>|<end_of_turn>|\[/INST\]")
#: Characters, blanks aside, that a prompt's end without such a token must have in common with a query's
#: beginning. An answer may repeat the last line of its prompt, and that is code.
_LEAST = 80
_ANCHOR = 16
#: Places that are tried before the slower search, which takes linear time for any text.
_MOST_PLACES = 32


def response_of(query: str, prompt: str) -> str:
    """What the policy wrote: ``query`` without its prompt and the special tokens at its end.

    A prompt that was too long is cut from the left, and a tokenizer may put a token before it, change its
    blanks or compose its characters. Where no prompt can be told, the response is what stands behind the
    turn of an assistant that the prompt ends with, and the whole query if there is none.
    """
    return strip_end_tokens(_behind_prompt(query, prompt))


def _behind_prompt(query: str, prompt: str) -> str:
    if prompt and query.startswith(prompt):
        return query[len(prompt) :]
    if prompt:
        for body in dict.fromkeys((query, query[_begins(query) :])):
            squeezed = _squeezed(body)
            for form in _forms(prompt):
                if shared := _shared(_squeezed(form), squeezed):
                    return _behind(body, shared, form)
    return _behind_turn(query, prompt)


def _behind_turn(query: str, prompt: str) -> str:
    """What stands behind the prompt's last turn, or, if that can't be told, the query's last."""
    turns = list(_TURN.finditer(query))
    if not turns:
        return query
    own = sum(1 for _ in _TURN.finditer(prompt))
    return query[turns[min(own or len(turns), len(turns)) - 1].end() :]


def _begins(text: str) -> int:
    """Where ``text`` goes on behind the tokens that begin it."""
    at = 0
    for _ in range(_MOST_BEGINS):
        found = _BEGIN.match(text, at)
        if found is None:
            break
        at = found.end()
    return at


def _forms(prompt: str) -> Iterator[str]:
    """The prompt as tokenizers leave it: with and without what begins it, and composed."""
    seen = set()
    for form in (prompt, unicodedata.normalize("NFC", prompt), unicodedata.normalize("NFKC", prompt)):
        for begin in (0, _begins(form)):
            if form[begin:] not in seen:
                seen.add(form[begin:])
                yield form[begin:]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _shared(prompt: str, query: str) -> int:
    """Length of the longest end of ``prompt`` that ``query`` begins with; 0 if it may be there by chance."""
    if prompt and query.startswith(prompt):
        return len(prompt)
    length = _overlap(prompt, query)
    if length >= _LEAST or (length and _MARK.search(query, 0, length)):
        return length
    return 0


def _overlap(prompt: str, query: str) -> int:
    """Length of the longest end of ``prompt`` that ``query`` begins with; in linear time."""
    anchor, at = query[:_ANCHOR], -1
    for _ in range(_MOST_PLACES if len(anchor) == _ANCHOR else 0):
        at = prompt.find(anchor, at + 1)
        if at < 0:
            # Whatever they share is shorter than the anchor.
            return _searched(prompt[-_ANCHOR:], anchor)
        if query.startswith(prompt[at:]):
            return len(prompt) - at
    return _searched(prompt, query)


def _searched(prompt: str, query: str) -> int:
    head = query[: len(prompt)]
    # The failure function of Knuth, Morris and Pratt, run over the prompt's end.
    lengths = [0] * len(head)
    length = 0
    for index in range(1, len(head)):
        while length and head[index] != head[length]:
            length = lengths[length - 1]
        length += head[index] == head[length]
        lengths[index] = length
    matched = 0
    for char in prompt[-len(head) :] if head else "":
        while matched and (matched == len(head) or char != head[matched]):
            matched = lengths[matched - 1]
        matched += char == head[matched]
    return matched


def _behind(text: str, count: int, prompt: str) -> str:
    """``text`` from behind its first ``count`` characters that aren't blank and what blanks end ``prompt``.

    Further blanks stay: they indent the first line.
    """
    for word in re.finditer(r"\S+", text):
        if count <= word.end() - word.start():
            rest = text[word.start() + count :]
            break
        count -= word.end() - word.start()
    same = 0
    blanks = prompt[len(prompt.rstrip()) :]
    while same < min(len(blanks), len(rest)) and blanks[same] == rest[same]:
        same += 1
    return rest[same:]
