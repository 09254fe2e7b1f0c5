"""The built-in multi-turn environments without a sandbox: what they are made of, and what their seeds make."""

from __future__ import annotations

import ast
import hashlib
import types
from collections import Counter
from typing import Any

import pytest

from deepgym.environments import list_multi_turn_environments, load_multi_turn_environment

ALL = list_multi_turn_environments()
SEEDS = (*range(12), 2**40, 2**63 - 1)


def made_by(environment: str, file: str) -> Any:
    """The module that makes an environment's task from a seed, as its verifier imports it."""
    module = types.ModuleType(file)
    source = load_multi_turn_environment(environment).verify.files[f"{file}.py"]
    exec(compile(source, file, "exec"), module.__dict__)
    return module


logs = made_by("log_analysis", "make_logs")
data = made_by("data_cleanup", "make_data")
repositories = made_by("git_repository", "make_repository")


@pytest.mark.parametrize("name", ALL)
def test_an_environment_is_complete(name: str) -> None:
    environment = load_multi_turn_environment(name)
    assert environment.name == name
    assert environment.difficulty
    assert environment.tags
    assert environment.verify.seeded
    assert environment.reference is not None
    assert environment.reference[-1].name == "submit"
    assert "Submit when" in environment.task
    assert environment.limits.steps >= 30


def test_they_are_varied() -> None:
    environments = [load_multi_turn_environment(name) for name in ALL]
    assert {environment.difficulty for environment in environments} == {"easy", "medium", "hard"}
    tags = {tag for environment in environments for tag in environment.tags}
    assert {"shell", "git", "python", "data", "http", "debugging", "refactoring"} <= tags
    assert any(environment.requires for environment in environments)


@pytest.mark.parametrize("name", ALL)
def test_nothing_that_the_verifier_alone_may_know_is_shown(name: str) -> None:
    environment = load_multi_turn_environment(name)
    shown = repr((environment.task, environment.files))
    assert "deepgym_verify" not in shown
    assert "DEEPGYM_SEED" not in shown
    assert environment.reference is not None
    for call in environment.reference:
        for text in call.arguments.values():
            assert "deepgym" not in text.lower()


@pytest.mark.parametrize("name", ALL)
def test_scripts_run_on_the_oldest_python_that_a_sandbox_may_have(name: str) -> None:
    environment = load_multi_turn_environment(name)
    sources = [text for path, text in environment.files.items() if path.endswith(".py")]
    sources += [text for path, text in environment.verify.files.items() if path.endswith(".py")]
    sources += [call.arguments["code"] for call in environment.reference or () if call.name == "python"]
    for source in sources:
        ast.parse(source, feature_version=(3, 8))


def test_every_python_version_makes_the_same_tasks() -> None:
    # Rewards of different hosts are comparable only if this holds; a changed task changes the digest.
    digest = hashlib.sha256()
    for seed in (0, 1, 2**63 - 1):
        digest.update(repr(logs.files(seed)).encode())
        for shop in data.shops(seed):
            digest.update(shop.data() + repr(sorted(shop.clean.items())).encode())
        repository = repositories.Repository(seed)
        digest.update(repr((sorted(repository.objects), sorted(repository.refs.items()))).encode())
    assert digest.hexdigest()[:16] == "4bbab7f5ba1587e0"


def test_another_seed_makes_another_task() -> None:
    assert len({repr(logs.files(seed)) for seed in SEEDS}) == len(SEEDS)
    assert len({data.shops(seed)[1].data() for seed in SEEDS}) == len(SEEDS)
    assert len({repositories.Repository(seed).culprit for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_questions_about_a_log_have_one_answer_each(seed: int) -> None:
    rows = logs.requests(seed)
    assert len({(row["client"], row["time"]) for row in rows}) == len(rows)
    assert len({row["id"] for row in rows}) == len(rows)
    sent: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    intruders = set()
    for row in rows:
        sent[row["client"]] += row["size"]
        if row["method"] == "POST" and row["target"].split("?")[0] == "/login":
            if row["status"] == 302 and misses[row["client"]] >= 10:
                intruders.add(row["client"])
            misses[row["client"]] = misses[row["client"]] + 1 if row["status"] == 401 else 0
    (_, most), (_, second) = sent.most_common(2)
    assert most > second
    assert len(intruders) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_logs_hold_every_request_and_something_else_besides(seed: int) -> None:
    rows = logs.requests(seed)
    parts = logs.files(seed)
    numbers = {row["id"] for row in rows}
    whole = [line for part in parts for line in part if line[-12:-8] == " id=" and line[-8:] in numbers]
    assert {line[-8:] for line in whole} == numbers
    assert len(whole) > len(rows), "some stand in two files"
    assert sum(map(len, parts)) > len(whole), "some lines are no requests"
    assert all(len(part) > 800 for part in parts)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_raw_row_is_clean_already_and_every_order_is_either_clean_or_rejected(seed: int) -> None:
    for shop in data.shops(seed):
        text = shop.data().decode({"A": "utf-8-sig", "B": "latin-1", "C": "utf-16"}[shop.letter])
        assert not any(",".join(row) in text for row in shop.clean.values())
        assert not shop.rejected & set(shop.clean)
        assert len(shop.rejected) + len(shop.clean) == 110
        assert len(shop.rows) > 130
        assert 10 <= len(shop.rejected) <= 40
        for order, day, customer, grams, cents, currency in shop.clean.values():
            assert order[0] == shop.letter
            assert day[:2] == "20"
            assert customer == " ".join(customer.split())
            assert int(grams) > 0
            assert int(cents) >= 0
            assert currency in ("USD", "EUR", "GBP")


def source_at(repository: Any, commit: str) -> str:
    """The module as it stood at a commit."""

    def content(number: str) -> bytes:
        return bytes(repository.objects[number].partition(b"\0")[2])

    def entry(tree: str, name: bytes) -> str | None:
        _, found, rest = content(tree).partition(b" " + name + b"\0")
        return rest[:20].hex() if found else None

    tree = content(commit).split(b"\n")[0][5:].decode()
    folder = entry(tree, b"src")
    blob = entry(tree, b"duration.py") if folder is None else entry(folder, b"duration.py")
    assert blob is not None
    return content(blob).decode()


def history(repository: Any) -> list[str]:
    """The commits of main, the newest first."""
    found = [repository.refs["refs/heads/main"]]
    while True:
        lines = repository.objects[found[-1]].partition(b"\0")[2].split(b"\n")
        parents = [line[7:].decode() for line in lines if line.startswith(b"parent ")]
        if not parents:
            return found
        found += parents


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bug_is_there_from_its_commit_on_and_never_before(seed: int) -> None:
    repository = repositories.Repository(seed)
    commits = history(repository)
    culprit = commits.index(repository.culprit)
    assert 0 <= culprit < commits.index(repository.refs["refs/tags/v1.0"])
    for index, commit in enumerate(commits):
        names: dict[str, Any] = {}
        exec(source_at(repository, commit), names)
        holds = eval(repositories.EXAMPLES[repository.broken], names)
        assert holds == (index > culprit)
        for name, claim in repositories.EXAMPLES.items():
            assert name == repository.broken or eval(claim, names), (commit, claim)


def test_every_function_is_broken_by_some_seed_and_at_many_places() -> None:
    found = [repositories.Repository(seed) for seed in range(60)]
    assert {repository.broken for repository in found} == set(repositories.EXAMPLES)
    places = Counter(history(repository).index(repository.culprit) for repository in found)
    assert max(places.values()) <= 15
    assert len(places) >= 8
