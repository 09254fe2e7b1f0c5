from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import deepgym
from deepgym import plugins
from deepgym.exceptions import DeepGymError, UnknownNameError


def add_distribution(site: Path, name: str, *lines: str) -> None:
    info = site / f"{name.replace('-', '_')}-2.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path in which a test installs distributions of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_plugin_is_loaded_by_the_name_of_its_entry_point(site: Path) -> None:
    add_distribution(site, "x-plugin", "[deepgym.providers]", "x = decimal:Decimal")
    from decimal import Decimal

    assert "x" in plugins.names("deepgym.providers")
    assert plugins.load("deepgym.providers", "x") is Decimal


def test_a_provider_comes_back_ready_to_be_called(site: Path) -> None:
    add_distribution(site, "x-plugin", "[deepgym.providers]", "x = types:SimpleNamespace")
    assert plugins.load_provider("x")(host="there").host == "there"


def test_a_provider_that_can_not_be_called_is_an_error(site: Path) -> None:
    add_distribution(site, "x-plugin", "[deepgym.providers]", "x = math:pi")
    with pytest.raises(plugins.PluginError, match=r"'x' is no Provider class but 3\.14"):
        plugins.load_provider("x")


def test_listing_names_imports_no_plugin(site: Path) -> None:
    add_distribution(site, "x-plugin", "[deepgym.cli]", "x = there_is_no_such_module")
    assert "x" in plugins.names("deepgym.cli")


def test_a_name_of_another_group_is_not_found(site: Path) -> None:
    add_distribution(site, "x-plugin", "[deepgym.cli]", "x = decimal:Decimal")
    with pytest.raises(plugins.UnknownPluginError):
        plugins.load("deepgym.checks", "x")


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        ("there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        ("decimal:NoSuchName", "AttributeError: .*NoSuchName"),
        ("broken_on_import", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_plugin_names_its_distribution_and_the_cause(site: Path, target: str, cause: str) -> None:
    (site / "broken_on_import.py").write_text("1 / 0", encoding="utf-8")
    add_distribution(site, "x-plugin", "[deepgym.checks]", f"x = {target}")
    with pytest.raises(plugins.PluginError, match=f"'x' of x-plugin 2.5 can't be loaded: {cause}") as caught:
        plugins.load("deepgym.checks", "x")
    assert caught.value.__cause__ is not None


def test_a_name_that_two_distributions_claim_is_an_error_that_names_both(site: Path) -> None:
    add_distribution(site, "x-plugin", "[deepgym.providers]", "x = decimal:Decimal")
    add_distribution(site, "y-plugin", "[deepgym.providers]", "x = fractions:Fraction")
    with pytest.raises(plugins.PluginError, match=r"claimed by x-plugin 2\.5 and y-plugin 2\.5"):
        plugins.load("deepgym.providers", "x")


def test_a_known_provider_that_is_not_installed_answers_with_its_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "PROVIDERS", ("elsewhere",))
    with pytest.raises(plugins.UnknownPluginError) as caught:
        plugins.load("deepgym.providers", "elsewhere")
    assert f'pip install "deepgym[elsewhere]=={deepgym.__version__}"' in str(caught.value)


def test_an_unknown_name_says_what_there_is(site: Path) -> None:
    add_distribution(site, "x-plugin", "[deepgym.providers]", "mine = decimal:Decimal")
    with pytest.raises(plugins.UnknownPluginError, match="unknown provider 'kubernetes'") as caught:
        plugins.load("deepgym.providers", "kubernetes")
    for name in ("local", "docker", "mine"):
        assert name in str(caught.value)


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one() -> None:
    with pytest.raises(plugins.UnknownPluginError, match="unknown provider 'dokcer'; did you mean 'docker'"):
        plugins.load("deepgym.providers", "dokcer")


def test_a_trainer_is_no_provider() -> None:
    with pytest.raises(plugins.UnknownPluginError, match="unknown provider 'trl'"):
        plugins.load("deepgym.providers", "trl")


def test_every_extra_may_bring_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "EXTRAS", ("elsewhere",))
    with pytest.raises(plugins.UnknownPluginError, match="check 'elsewhere' isn't installed; to install it"):
        plugins.load("deepgym.checks", "elsewhere")


def test_plugin_errors_are_errors_of_deepgym() -> None:
    assert issubclass(plugins.PluginError, DeepGymError)
    assert issubclass(plugins.UnknownPluginError, plugins.PluginError)
    assert issubclass(plugins.UnknownPluginError, UnknownNameError)


def test_an_unknown_plugin_crosses_a_process_boundary_whole() -> None:
    with pytest.raises(plugins.UnknownPluginError) as caught:
        plugins.load("deepgym.providers", "dokcer")
    back = pickle.loads(pickle.dumps(caught.value))
    assert type(back) is plugins.UnknownPluginError
    assert (str(back), back.name, back.matches) == (str(caught.value), "dokcer", ("docker",))
