"""The package imports without Axolotl, and says what is missing in words that Axolotl doesn't take for others."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("axolotl", "trl", "torch", "transformers", "datasets", "yaml", "click")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_loads_neither_axolotl_nor_torch() -> None:
    code = "import deepgym_axolotl, sys; deepgym_axolotl.reward, deepgym_axolotl.transform, deepgym_axolotl.DeepGymArgs"
    assert run(f"{code}; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("name", ["DeepGymPlugin", "MaskedGRPOTrainer"])
def test_without_axolotl_its_parts_name_the_line_that_installs_it(name: str) -> None:
    code = f"""
import sys
sys.modules["axolotl"] = None
import deepgym_axolotl
from deepgym.exceptions import MissingPackageError
try:
    deepgym_axolotl.{name}
except MissingPackageError as error:
    print(type(error) is not ModuleNotFoundError, error)
"""
    said = run(code)
    assert said.startswith(f"True deepgym_axolotl.{name} needs Axolotl, which isn't installed")
    assert 'pip install "deepgym-axolotl[trainer]==1.0.0"' in said


def test_any_other_missing_module_is_no_import_error_which_axolotl_would_shrug_off() -> None:
    code = """
import sys
sys.modules["deepgym.integrations.reward"] = None
import deepgym_axolotl
try:
    deepgym_axolotl.reward
except Exception as error:
    print(isinstance(error, ImportError), type(error).__name__, error)
"""
    said = run(code)
    assert said.startswith("False PluginError deepgym_axolotl.reward can't be loaded")
    assert "'deepgym.integrations.reward'" in said


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    import deepgym_axolotl

    with pytest.raises(AttributeError, match="has no attribute 'rewards'"):
        _ = deepgym_axolotl.rewards  # type: ignore[attr-defined]
