from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from deepgym import plugins

if TYPE_CHECKING:
    from conftest import Workspace


def loose_siblings(project: dict[str, Any], version: str) -> list[str]:
    """Requirements on packages of this workspace that aren't pinned to the one version."""
    requirements = list(project.get("dependencies", []))
    for extra in project.get("optional-dependencies", {}).values():
        requirements += extra
    siblings = [r for r in map(Requirement, requirements) if re.match(r"deepgym(-|$)", r.name)]
    return [str(sibling) for sibling in siblings if str(sibling.specifier) != f"=={version}"]


def lines_of_requirements(workspace: Workspace) -> list[str]:
    text = (workspace.root / "requirements-dev.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def group(config: dict[str, Any], name: str) -> set[str]:
    tools: set[str] = set()
    for entry in config["dependency-groups"][name]:
        tools |= {entry} if isinstance(entry, str) else group(config, entry["include-group"])
    return tools


def test_every_package_pins_its_siblings_to_the_one_version(workspace: Workspace) -> None:
    version = workspace.core.project["version"]
    for package in workspace.packages.values():
        assert loose_siblings(package.project, version) == []


def test_every_plugin_depends_on_the_core(workspace: Workspace) -> None:
    for plugin in workspace.plugins:
        needed = {r.name: str(r.specifier) for r in map(Requirement, plugin.project["dependencies"])}
        assert needed["deepgym"] == f"=={workspace.core.project['version']}"


def test_every_plugin_has_its_extra_its_check_and_its_page(workspace: Workspace) -> None:
    extras = workspace.core.project["optional-dependencies"]
    pages = {page.stem for page in workspace.root.glob("docs/**/*.md")}
    for plugin in workspace.plugins:
        name = plugin.project["name"].removeprefix("deepgym-")
        assert extras[name] == [f"{plugin.project['name']}=={plugin.project['version']}"]
        name = plugins.ALIASES.get(name, name)
        assert extras[name] == [f"{plugin.project['name']}=={plugin.project['version']}"]
        assert name in plugin.project["entry-points"]["deepgym.checks"]
        assert name in pages


def test_a_trainer_is_never_a_hard_dependency_of_its_adapter(workspace: Workspace) -> None:
    for plugin in workspace.plugins:
        hard = {Requirement(line).name for line in plugin.project["dependencies"]}
        trainer = {Requirement(line).name for line in plugin.project["optional-dependencies"]["trainer"]}
        assert trainer
        assert not hard & trainer


@pytest.mark.parametrize("requirement", ["deepgym", "deepgym>=1.0.0", "deepgym-verl~=1.0.0", "deepgym==0.9"])
def test_a_loose_pin_on_a_sibling_is_seen(requirement: str) -> None:
    assert loose_siblings({"dependencies": ["pydantic>=2", requirement]}, "1.0.0") == [requirement]
    assert loose_siblings({"optional-dependencies": {"x": [requirement]}}, "1.0.0") == [requirement]


def test_all_packages_share_one_version_and_the_changelog_names_it(workspace: Workspace) -> None:
    versions = {package.project["version"] for package in workspace.packages.values()}
    newest = re.search(r"^## (\S+)", (workspace.root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest is not None
    assert versions == {newest[1]}


def test_the_version_is_above_the_unrelated_package_of_this_name(workspace: Workspace) -> None:
    version = Version(workspace.core.project["version"])
    assert version >= Version("1.0.0")
    assert not version.is_prerelease, "pip prefers a final release on an index to a pre-release of ours"


def test_the_requirements_file_lists_exactly_the_members(workspace: Workspace) -> None:
    editable = [line for line in lines_of_requirements(workspace) if line.startswith("-e ")]
    folders = [re.sub(r"\[.*\]$", "", line.removeprefix("-e ./")) for line in editable]
    members = [f"packages/{package.folder.name}" for package in workspace.packages.values()]
    assert sorted(folders) == sorted(members)


def test_the_requirements_file_lists_the_tools_of_the_dev_group(workspace: Workspace) -> None:
    lines = [line for line in lines_of_requirements(workspace) if not line.startswith("-e ")]
    in_group = {Requirement(entry) for entry in group(workspace.config, "dev")}
    assert set(map(Requirement, lines)) == {r for r in in_group if r.name not in workspace.packages}


def test_the_dev_group_names_every_member_so_that_uv_sync_installs_them(workspace: Workspace) -> None:
    named = {Requirement(entry).name for entry in group(workspace.config, "dev")}
    assert set(workspace.packages) <= named
    assert set(workspace.config["tool"]["uv"]["sources"]) == set(workspace.packages)


def test_every_package_carries_its_license_readme_and_type_marker(workspace: Workspace) -> None:
    text = (workspace.root / "LICENSE").read_text(encoding="utf-8")
    for name, package in workspace.packages.items():
        assert (package.folder / "LICENSE").read_text(encoding="utf-8") == text
        assert (package.folder / "README.md").is_file()
        assert (package.folder / "src" / name.replace("-", "_") / "py.typed").is_file()


def test_continuous_integration_runs_the_line_that_the_readme_gives(workspace: Workspace) -> None:
    line = "python3 -m venv .venv && .venv/bin/pip install nox && .venv/bin/nox -s tests"
    for file in ("README.md", ".ci/run"):
        lines = (workspace.root / file).read_text(encoding="utf-8").splitlines()
        assert line in map(str.strip, lines), file


def test_every_documented_install_pins_the_version(workspace: Workspace) -> None:
    version = workspace.core.project["version"]
    pages = [*workspace.root.glob("*.md"), *workspace.root.glob("docs/**/*.md")]
    pages += workspace.root.glob("packages/*/README.md")
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    installs = [line for line in lines if re.search(r"(pip|uv|uvx|pipx) .*\bdeepgym\b", line)]
    installs = [line for line in installs if "packages/deepgym" not in line]
    assert installs
    assert [line for line in installs if f"=={version}" not in line] == []


def test_no_module_is_longer_than_350_lines(workspace: Workspace) -> None:
    modules = [*workspace.root.glob("packages/*/src/**/*.py")]
    lengths = {module.name: len(module.read_text(encoding="utf-8").splitlines()) for module in modules}
    assert lengths
    assert {name: length for name, length in lengths.items() if length > 350} == {}
