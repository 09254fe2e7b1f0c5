"""An environment from a folder: ``environment.toml`` and the files that it names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deepgym.environments.environment import Environment
from deepgym.environments.explain import explained
from deepgym.exceptions import InvalidEnvironmentError

__all__ = ["MANIFEST", "read_folder"]

MANIFEST = "environment.toml"
MAX_BYTES = 1 << 20
_NAMED = {"reference": "reference", "prefix": "prefix"}
_VERIFY_NAMED = {"program": "source", "draw": "draw"}


def read_folder(folder: Path) -> Environment:
    """The environment of ``folder``.

    Raises:
        InvalidEnvironmentError: no manifest, one that isn't TOML, a field that isn't valid, or a named
            file that is missing, not text, over 1 MiB or outside the folder. The message names the
            manifest, the field, the value and the fix.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise InvalidEnvironmentError(
            f"{folder} holds no {MANIFEST}; create one, or pass the folder that has it"
        )
    data = _parse(manifest)
    data.setdefault("name", folder.resolve().name)
    if "task" not in data and (folder / "task.md").is_file():
        data["task"] = _text(folder, "task.md", manifest, "task")
    for key, field in _NAMED.items():
        if key in data:
            data[field] = _text(folder, data[key], manifest, key)
    verify = data.get("verify")
    if isinstance(verify, dict):
        data["verify"] = _verify(folder, manifest, dict(verify))
    for owner, name in ((data, "files"), (data.get("verify"), "verify_files")):
        if (folder / name).is_dir() and isinstance(owner, dict):
            if "files" in owner:
                raise InvalidEnvironmentError(f"{manifest}: files is given and {name}/ exists; keep one")
            owner["files"] = _tree(folder, name, manifest)
    try:
        return Environment.model_validate(data, context={"tagged": True})
    except ValidationError as error:
        raise InvalidEnvironmentError(explained(error, str(manifest), Environment)) from None


def _parse(manifest: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(_read(manifest, str(manifest)))
    except tomllib.TOMLDecodeError as error:
        raise InvalidEnvironmentError(f"{manifest} isn't valid TOML: {error}") from None


def _verify(folder: Path, manifest: Path, verify: dict[str, Any]) -> dict[str, Any]:
    if "source" in verify:
        raise InvalidEnvironmentError(
            f'{manifest}: verify.source: write program = "verify.py", a file of the folder'
        )
    for key, field in _VERIFY_NAMED.items():
        if key in verify:
            verify[field] = _text(folder, verify.pop(key), manifest, f"verify.{key}")
    return verify


def _text(folder: Path, name: object, manifest: Path, field: str) -> str:
    where = f"{manifest}: {field} = {name!r:.80}"
    if not isinstance(name, str) or not name:
        raise InvalidEnvironmentError(f"{where} must name a file of the folder")
    return _read(_within(folder, folder / name, where), where)


def _within(folder: Path, path: Path, where: str) -> Path:
    real = path.resolve()
    if not real.is_relative_to(folder.resolve()):
        raise InvalidEnvironmentError(f"{where} is outside the folder; copy the file into {folder}")
    return real


def _tree(folder: Path, name: str, manifest: Path) -> dict[str, str]:
    out: dict[str, str] = {}
    for path in sorted((folder / name).rglob("*")):
        where = f"{manifest}: {path.relative_to(folder).as_posix()}"
        if path.is_dir() and not path.is_symlink():
            continue
        if "__pycache__" in path.parts:
            continue
        out[path.relative_to(folder / name).as_posix()] = _read(_within(folder, path, where), where)
    return out


def _read(path: Path, where: str) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidEnvironmentError(f"{where} is larger than {MAX_BYTES} bytes; make it smaller")
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InvalidEnvironmentError(f"{where} can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InvalidEnvironmentError(
            f"{where} isn't UTF-8 text: {error}; binary files aren't supported"
        ) from None
