from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from pkgutil import walk_packages

import pytest

import deepgym

ROOT = Path(__file__).parents[2]
SANDBOXED = Path(deepgym.__file__).parent / "sandboxed"
SHARED = {"deepgym.sandboxed", "deepgym.sandboxed.values", "deepgym.sandboxed.wire"}
HEAVY = {"fastapi", "markdown_it", "matplotlib", "numpy", "ray", "rich", "tenacity", "torch", "typer"}

#: What an adapter works beside and never brings.
TRAINERS = {
    "accelerate",
    "axolotl",
    "datasets",
    "hydra",
    "lm_eval",
    "omegaconf",
    "openrlhf",
    "ray",
    "tokenizers",
    "torch",
    "transformers",
    "trl",
    "transfer_queue",
    "verl",
    "vllm",
}
SUBCLASSING = {
    "deepgym_axolotl/plugin.py": {"axolotl"},
    "deepgym_axolotl/trainers.py": {"axolotl"},
    "deepgym_lmeval/task.py": {"lm_eval"},
    "deepgym_openrlhf/agent.py": {"openrlhf"},
    "deepgym_trl/callbacks.py": {"transformers"},
    "deepgym_trl/trainers.py": {"trl"},
    "deepgym_verl/advantages.py": {"torch"},
    "deepgym_verl/agent.py": {"verl"},
    "deepgym_verl/loops.py": {"verl"},
}

LOADED_BY = """
import json, sys
before = set(sys.modules)
exec(sys.argv[1])
print(json.dumps(sorted({name for name in sys.modules if name not in before})))
"""

WITHOUT = """
import importlib, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "pwd", "grp", "termios"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocker())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def loaded_by(statement: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED_BY, statement], check=True, capture_output=True, text=True
    )
    return set(json.loads(ran.stdout))


def roots(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def modules_of_the_core() -> list[str]:
    found = [module.name for module in walk_packages(deepgym.__path__, "deepgym.")]
    return [name for name in found if not name.endswith("__main__")]


def imported_names(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def test_importing_deepgym_loads_nothing_but_itself() -> None:
    loaded = loaded_by("import deepgym")
    assert {name for name in loaded if name.startswith("deepgym")} == {"deepgym"}
    assert roots(loaded) & (HEAVY | {"anyio", "pydantic"}) == set()


def test_the_names_that_training_code_imports_load_nothing_heavy() -> None:
    loaded = loaded_by("from deepgym import DeepGym, RewardFunction")
    assert "deepgym.client" in loaded
    assert roots(loaded) & HEAVY == set()


def test_the_pytest_plugin_loads_nothing_heavy() -> None:
    loaded = loaded_by("import deepgym.testing.plugin")
    assert roots(loaded) & HEAVY == set()


@pytest.mark.parametrize("name", deepgym.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(deepgym, name) is not None
    assert name in dir(deepgym)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Deepgym'"):
        _ = deepgym.Deepgym


def test_the_core_imports_without_the_modules_that_only_unix_has() -> None:
    shipped = {name for name in modules_of_the_core() if name.startswith("deepgym.sandboxed.")} - SHARED
    names = [name for name in modules_of_the_core() if name not in shipped]
    assert {"deepgym.client", "deepgym.models", "deepgym.rewards", "deepgym.providers.local"} <= set(names)
    ran = subprocess.run([sys.executable, "-c", WITHOUT, *names], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "name",
    [
        "deepgym_axolotl",
        "deepgym_lmeval",
        "deepgym_openrlhf",
        "deepgym_openrlhf.reward_file",
        "deepgym_trl",
        "deepgym_trl.rewards",
        "deepgym_trl.envs",
        "deepgym_verl",
        "deepgym_verl.check",
        "deepgym_verl.plugin",
        "deepgym_verl.reward",
        "deepgym_verl.reward_fn",
        "deepgym_verl.rows",
        "deepgym_verl.recipe",
    ],
)
def test_an_adapter_imports_without_its_trainer_and_without_the_modules_that_only_unix_has(name: str) -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT, name], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert roots(loaded_by(f"import {name}")) & (HEAVY | TRAINERS) == set()


def imported_at_once(source: str) -> set[str]:
    """Roots of what a module imports when it is imported itself."""
    nodes = [ast.parse(source).body]
    found: set[str] = set()
    for node in (node for body in nodes for node in body):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            nodes.append([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            nodes.append([*node.body, *node.orelse, *node.finalbody])
    return found


def test_only_files_that_subclass_a_trainers_classes_import_it_at_once() -> None:
    modules = sorted(ROOT.glob("packages/deepgym-*/src/**/*.py"))
    assert modules
    found = {
        str(path.relative_to(path.parents[1])): imported_at_once(path.read_text(encoding="utf-8")) & TRAINERS
        for path in modules
    }
    assert {name: names for name, names in found.items() if names} == SUBCLASSING


def test_an_import_in_a_function_is_not_at_once_and_one_under_if_is() -> None:
    source = "import os\nif x:\n    import torch.nn\ntry:\n    from trl import Y\nexcept E:\n    pass\n"
    source += "if TYPE_CHECKING:\n    import axolotl\ndef f():\n    import datasets\n"
    assert imported_at_once(source) & TRAINERS == {"torch", "trl"}


def test_the_blocker_of_unix_modules_blocks() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT, "fcntl"], capture_output=True, text=True)
    assert "No module named 'fcntl'" in ran.stderr


@pytest.mark.parametrize("path", sorted(SANDBOXED.glob("*.py")), ids=lambda path: path.stem)
def test_code_that_ships_into_a_sandbox_is_standard_library_only(path: Path) -> None:
    siblings = {file.stem for file in SANDBOXED.glob("*.py")}
    source = path.read_text(encoding="utf-8")
    for name in imported_names(source):
        root = name.lstrip(".").partition(".")[0]
        assert (
            root in sys.stdlib_module_names
            or root in siblings | {"", "deepgym_verify"}
            or name.startswith("deepgym.sandboxed")
        ), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", sorted(SANDBOXED.glob("*.py")), ids=lambda path: path.stem)
def test_code_that_ships_into_a_sandbox_parses_on_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
