from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def read_toml(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


@dataclass(frozen=True)
class Package:
    folder: Path
    project: dict[str, Any]


@dataclass(frozen=True)
class Workspace:
    root: Path
    config: dict[str, Any]
    packages: dict[str, Package]

    @property
    def core(self) -> Package:
        return self.packages["deepgym"]

    @property
    def plugins(self) -> list[Package]:
        return [package for name, package in self.packages.items() if name != "deepgym"]


@pytest.fixture(scope="session")
def workspace() -> Workspace:
    packages = {}
    for file in sorted(ROOT.glob("packages/*/pyproject.toml")):
        project = read_toml(file)["project"]
        packages[project["name"]] = Package(file.parent, project)
    return Workspace(ROOT, read_toml(ROOT / "pyproject.toml"), packages)


@pytest.fixture(scope="session")
def wheelhouse(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of every package, built from this tree."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    for package in workspace.packages.values():
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
            cwd=package.folder,
            check=True,
            capture_output=True,
        )
    return folder
