"""An environment from a folder: ``environment.toml`` and the files that it names.

::

    kind = "multi_turn"           left out where the task is answered at once
    setup = "setup.sh"            or a .py file, for ``python3``; the verifiers can then import it
    reference = "reference.sh"    or a .py file: one call with all of it, then ``submit``; or, step by step,
                                  tables: [[reference]] with name = "bash" and arguments.command = '''...'''
    [verify]                      program = "verify.py"; files of its own in verify_files/
    [step_verify]                 the same for a verifier of each step, with step_verify_files/

``files/`` holds what the agent finds, and ``task.md`` the task if the manifest has none.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deepgym.environments.environment import Environment
from deepgym.environments.explain import explained
from deepgym.environments.multi_turn import MultiTurnEnvironment
from deepgym.environments.scripts import as_bash, as_calls
from deepgym.exceptions import InvalidEnvironmentError

__all__ = ["MANIFEST", "read_folder"]

MANIFEST = "environment.toml"
MAX_BYTES = 1 << 20
_NAMED = {"reference": "reference", "prefix": "prefix"}
_VERIFY_NAMED = {"program": "source", "draw": "draw"}
_VERIFIERS = ("verify", "step_verify")
#: Fields that only an environment with steps has.
_STEPS_ONLY = ("setup", "step_verify", "requires", "tools")


def read_folder(folder: Path) -> Environment | MultiTurnEnvironment:
    """The environment of ``folder``; a ``MultiTurnEnvironment`` if its manifest says ``kind = "multi_turn"``.

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
    if "kind" not in data:
        return _single_turn(folder, manifest, data)
    if data["kind"] != "multi_turn":
        raise InvalidEnvironmentError(
            f"{manifest}: kind: must be 'multi_turn', or left out where the task is answered at once "
            f"(got {data['kind']!r:.80})"
        )
    return _multi_turn(folder, manifest, data)


def _single_turn(folder: Path, manifest: Path, data: dict[str, Any]) -> Environment:
    for key, field in _NAMED.items():
        if key in data:
            data[field] = _text(folder, data[key], manifest, key)
    _verifier(folder, manifest, data, "verify")
    _folder_of_files(folder, manifest, data, "files")
    try:
        return Environment.model_validate(data, context={"tagged": True})
    except ValidationError as error:
        hint = ""
        if any(field in data for field in _STEPS_ONLY):
            hint = "; an environment that is worked on in steps needs kind = 'multi_turn'"
        raise InvalidEnvironmentError(explained(error, str(manifest), Environment) + hint) from None


def _multi_turn(folder: Path, manifest: Path, data: dict[str, Any]) -> MultiTurnEnvironment:
    shared: dict[str, str] = {}
    if "setup" in data:
        name = data["setup"]
        text = _text(folder, name, manifest, "setup")
        data["setup"] = as_bash(name, text, f"{manifest}: setup = {name!r:.80}")
        if name.endswith(".py"):
            shared = {Path(name).name: text}
    if isinstance(data.get("reference"), str):
        name = data["reference"]
        text = _text(folder, name, manifest, "reference")
        data["reference"] = as_calls(name, text, f"{manifest}: reference = {name!r:.80}")
    for key in _VERIFIERS:
        if isinstance(data.get(key), dict):
            data[key].setdefault("kind", "program")
            _verifier(folder, manifest, data, key)
            _share(manifest, data[key], key, shared)
    _folder_of_files(folder, manifest, data, "files")
    try:
        return MultiTurnEnvironment.model_validate(data)
    except ValidationError as error:
        raise InvalidEnvironmentError(explained(error, str(manifest), MultiTurnEnvironment)) from None


def _parse(manifest: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(_read(manifest, str(manifest)))
    except tomllib.TOMLDecodeError as error:
        raise InvalidEnvironmentError(f"{manifest} isn't valid TOML: {error}") from None


def _verifier(folder: Path, manifest: Path, data: dict[str, Any], key: str) -> None:
    """Put the files that the table ``key`` names in their place."""
    verify = data.get(key)
    if not isinstance(verify, dict):
        return
    if "source" in verify or (verify.get("kind") == "program" and "program" not in verify):
        field = "source" if "source" in verify else "program"
        raise InvalidEnvironmentError(
            f'{manifest}: {key}.{field}: write program = "verify.py", a file of the folder'
        )
    for name, field in _VERIFY_NAMED.items():
        if name in verify:
            verify[field] = _text(folder, verify.pop(name), manifest, f"{key}.{name}")
    _folder_of_files(folder, manifest, verify, f"{key}_files")


def _folder_of_files(folder: Path, manifest: Path, owner: dict[str, Any], name: str) -> None:
    if (folder / name).is_dir():
        if "files" in owner:
            raise InvalidEnvironmentError(f"{manifest}: files is given and {name}/ exists; keep one")
        owner["files"] = _tree(folder, name, manifest)


def _share(manifest: Path, verify: dict[str, Any], key: str, shared: dict[str, str]) -> None:
    """Give a verifier the set-up's Python file, so that it can make again what the set-up made."""
    files = verify.setdefault("files", {})
    if not isinstance(files, dict):
        return
    for name, text in shared.items():
        if name in files:
            raise InvalidEnvironmentError(
                f"{manifest}: setup and a file of {key} are both named {name!r}; rename one"
            )
        files[name] = text


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
