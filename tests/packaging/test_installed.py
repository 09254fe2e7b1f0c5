from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import Distribution, PathDistribution, distribution, entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname
from zipfile import ZipFile

import deepgym

if TYPE_CHECKING:
    from conftest import Workspace


def test_the_installed_package_comes_from_this_tree(workspace: Workspace) -> None:
    for name, package in workspace.packages.items():
        origin = distribution(name).read_text("direct_url.json")
        assert origin is not None, f"{name} was installed from an index"
        path = Path(url2pathname(urlparse(json.loads(origin)["url"]).path))
        assert path.samefile(package.folder)


def test_the_imported_package_is_the_one_of_this_tree(workspace: Workspace) -> None:
    assert Path(deepgym.__file__).is_relative_to(workspace.core.folder)
    assert deepgym.__version__ == workspace.core.project["version"]


def test_the_console_script_and_the_pytest_plugin_load() -> None:
    ours = [*entry_points(group="console_scripts"), *entry_points(group="pytest11")]
    ours = [point for point in ours if point.dist is not None and point.dist.name == "deepgym"]
    assert {point.group for point in ours} == {"console_scripts", "pytest11"}
    for point in ours:
        assert point.load() is not None


def installed_from(wheelhouse: Path, target: Path, requirement: str) -> Distribution:
    """Install as a user with a wheelhouse does: the package index stays in play."""
    options = ["--no-deps", "--retries=0", f"--find-links={wheelhouse}", f"--target={target}"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, requirement], check=True, capture_output=True
    )
    (info,) = target.glob("*.dist-info")
    return PathDistribution(info)


def test_the_pinned_install_takes_our_wheel(workspace: Workspace, wheelhouse: Path, tmp_path: Path) -> None:
    version = workspace.core.project["version"]
    taken = installed_from(wheelhouse, tmp_path / "site", f"deepgym=={version}")
    (wheel,) = wheelhouse.glob("deepgym-*.whl")
    assert taken.metadata["Name"] == "deepgym"
    assert taken.version == version
    assert taken.metadata["License-Expression"] == "Apache-2.0"
    assert taken.metadata["Author"] == "DeepGym contributors"
    with ZipFile(wheel) as archive:
        record = archive.read(f"deepgym-{version}.dist-info/METADATA").decode()
    assert taken.read_text("METADATA") == record


def test_each_wheel_holds_every_source_file_and_the_license(workspace: Workspace, wheelhouse: Path) -> None:
    for name, package in workspace.packages.items():
        source = package.folder / "src"
        (wheel,) = wheelhouse.glob(f"{name.replace('-', '_')}-*.whl")
        held = set(ZipFile(wheel).namelist())
        files = {
            path.relative_to(source).as_posix()
            for path in source.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert files
        assert files - held == set(), name
        assert any(path.endswith("licenses/LICENSE") for path in held), name
