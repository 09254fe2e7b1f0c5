"""What a loop of one's own has of a batch: tensors, columns, texts, conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .judge import label_of

__all__ = ["Row", "rows_of"]

#: What says which environment a sample is for, and the sample's text or conversation.
Row = tuple[object, Any]
_EXPECTED = "a DataProto, a list of completions, or solution_strs="


def rows_of(
    batch: Any,
    tokenizer: Any,
    *,
    data_sources: Any = None,
    solution_strs: Any = None,
    ground_truths: Any = None,
    extra_infos: Any = None,
) -> list[Row]:
    """The rows of a batch in any form that ``VerlRewardFn`` takes.

    Raises:
        TypeError, ValueError: it has none of them; says what was expected, and what is there.
    """
    given = {"data_sources": data_sources, "ground_truths": ground_truths, "extra_infos": extra_infos}
    if (batch is None) == (solution_strs is None):
        found = "got none of these" if batch is None else "not two of them"
        raise TypeError(f"expected {_EXPECTED}; {found}")
    if hasattr(batch, "non_tensor_batch") and hasattr(batch, "batch"):
        if own := [name for name, value in given.items() if value is not None]:
            raise TypeError(f"a DataProto has its own columns: leave out {', '.join(own)}")
        return _of_proto(batch, tokenizer)
    if solution_strs is not None:
        completions = _listed("solution_strs", solution_strs)
    else:
        completions = _listed(f"expected {_EXPECTED}; completions", batch)
    columns = [
        [None] * len(completions) if value is None else _listed(name, value) for name, value in given.items()
    ]
    lengths = {"completions": len(completions)}
    lengths.update({name: len(column) for name, column in zip(given, columns, strict=True)})
    if len(set(lengths.values())) > 1:
        raise ValueError(f"one item for each sample was expected, not {_counts(lengths)}")
    sources, truths, infos = columns
    return [
        (label_of(info, truth, source), _completion(index, completion))
        for index, (completion, source, truth, info) in enumerate(
            zip(completions, sources, truths, infos, strict=True)
        )
    ]


def _of_proto(batch: Any, tokenizer: Any) -> list[Row]:
    """The rows of a ``DataProto``."""
    tensors = {} if batch.batch is None else batch.batch
    there = sorted(map(str, tensors.keys()))
    if missing := [name for name in ("responses", "attention_mask") if name not in there]:
        raise ValueError(
            f"the batch has no {' and no '.join(missing)}: a DataProto after generation was "
            f"expected, this has {', '.join(there) or 'no tensors'}"
        )
    if tokenizer is None:
        raise ValueError("a DataProto has token ids: make_verl_reward_fn needs the tokenizer to decode them")
    responses, masks = (_matrix(name, tensors[name]) for name in ("responses", "attention_mask"))
    count = len(responses)
    if len(masks) != count or any(len(m) < len(r) for m, r in zip(masks, responses, strict=True)):
        raise ValueError(
            "attention_mask must cover the prompt and the response of each row: responses is "
            f"{_shape(tensors['responses'])}, attention_mask {_shape(tensors['attention_mask'])}"
        )
    texts = [_decoded(tokenizer, *each) for each in enumerate(zip(responses, masks, strict=True))]
    others = batch.non_tensor_batch or {}
    columns = {
        name: [None] * count if name not in others else _listed(name, others[name])
        for name in ("data_source", "reward_model", "extra_info")
    }
    lengths = {"responses": count, **{name: len(column) for name, column in columns.items()}}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"one item for each sample was expected, not {_counts(lengths)}")
    return [
        (label_of(info, model.get("ground_truth") if isinstance(model, Mapping) else None, source), text)
        for source, model, info, text in zip(*columns.values(), texts, strict=True)
    ]


def _matrix(name: str, tensor: Any) -> list[list[Any]]:
    try:
        rows = tensor.tolist()
    except (AttributeError, RuntimeError) as error:  # no tensor; a jagged one
        raise ValueError(f"{name} must be a dense tensor: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{name} must be [rows, tokens], not {_shape(tensor)}")
    return rows


def _decoded(tokenizer: Any, index: int, row: tuple[list[Any], list[Any]]) -> str:
    """The text of a response, without what only fills it up."""
    ids, mask = row
    kept = [number for number, keep in zip(ids, mask[len(mask) - len(ids) :], strict=True) if keep]
    try:
        text = tokenizer.decode(kept, skip_special_tokens=True)
    except Exception as error:
        raise ValueError(f"sample {index}: the tokenizer can't decode its response: {error}") from error
    if not isinstance(text, str):
        raise TypeError(f"tokenizer.decode must return text, not {type(text).__name__}")
    return text


def _listed(name: str, value: Any) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list with one item for each sample, not {type(value).__name__}")
    return list(value)


def _completion(index: int, completion: Any) -> Any:
    if hasattr(completion, "tolist"):  # a conversation out of a Parquet file
        completion = completion.tolist()
    if isinstance(completion, Mapping):
        if completion.get("role", "assistant") != "assistant":
            raise TypeError(
                f"sample {index}: a completion is a text or a list of messages, not one message of "
                f"{completion['role']!r:.40}; a batch of one conversation is [conversation]"
            )
        _message(index, completion)
    elif isinstance(completion, Sequence) and not isinstance(completion, (str, bytes)):
        for message in completion:
            _message(index, message)
    return completion


def _message(index: int, message: object) -> None:
    """Make sure that it is one: of anything else nothing would be read, and an empty answer be judged."""
    if isinstance(message, Mapping) and "content" not in message and "role" not in message:
        there = ", ".join(map(repr, list(message)[:5])) or "nothing"
        raise TypeError(f"sample {index}: a message has 'role' and 'content', this has {there:.100}")


def _shape(tensor: Any) -> str:
    return str(list(getattr(tensor, "shape", ())))


def _counts(lengths: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in lengths.items())
