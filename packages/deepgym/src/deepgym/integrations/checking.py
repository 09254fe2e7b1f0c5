"""What the checks of ``deepgym doctor`` share that look at a trainer's installation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from deepgym.plugins import Finding, install_line

__all__ = ["gathered", "numbers", "own_versions", "version_of"]


def gathered(parts: Mapping[str, Callable[[], Iterable[Finding]]], remedy: str) -> list[Finding]:
    """The findings of each part. One that raises is itself a failed finding, with ``remedy``."""
    found: list[Finding] = []
    for name, part in parts.items():
        try:
            found += part()
        except Exception as error:  # noqa: BLE001 - a doctor reports whatever it meets
            detail = f"the check itself failed: {type(error).__name__}: {error}"
            found.append(Finding(name, "fail", detail, remedy))
    return found


def own_versions(distribution: str, extra: str) -> Iterator[Finding]:
    """A failed finding if ``distribution``, an adapter, isn't of the core's version."""
    ours, core = version_of(distribution), version_of("deepgym")
    if ours is not None and ours != core:
        detail = f"{distribution} {ours} beside deepgym {core}"
        yield Finding("deepgym's own versions", "fail", detail, install_line(extra))


def version_of(distribution: str) -> str | None:
    """The version that is installed, or ``None``."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def numbers(text: str) -> tuple[int, ...]:
    """``0.10.1.post2`` as ``(0, 10, 1)``; empty if it begins otherwise."""
    parts = []
    for part in text.split("+")[0].split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)
