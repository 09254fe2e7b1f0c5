"""What ``deepgym doctor`` says of the local sandbox: it is tried, not assumed."""

from __future__ import annotations

from deepgym.client import DeepGym
from deepgym.environments.environment import Environment, EnvironmentLimits
from deepgym.environments.verify import Case, Cases
from deepgym.models import RunResult
from deepgym.plugins import Finding
from deepgym.providers.base import Capabilities
from deepgym.providers.local.check import namespaces_missing
from deepgym.providers.local.provider import LocalProvider

__all__ = ["local_sandbox"]

#: What an answer tries, each in a run of its own; it must come back ``False``.
_ATTACKS = {
    "reads files of the host": "any(os.path.exists(p) for p in ('/etc/passwd', '/var', '/sys', '/boot'))",
    "writes outside its directory": "works(lambda: open('/usr/probe', 'w'))",
    "opens a socket": "works(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))",
    "sees processes of the host": "sum(name.isdigit() for name in os.listdir('/proc')) > 3",
    "uses more disk than allowed": "works(lambda: open('/box/full', 'wb').write(bytes(32 << 20)))",
    "takes more memory than allowed": "works(lambda: bytearray(1 << 30))",
    "starts more processes than allowed": "works(lambda: [os.fork() or time.sleep(20) for _ in range(64)])",
    "runs as root or with capabilities": "os.getuid() == 0 or 'CapEff:\\t0000000000000000' not in status()",
}
_ANSWER = """
import os, socket, time

def works(action):
    try:
        action()
    except (OSError, MemoryError):
        return False
    return True

def status():
    with open("/proc/self/status") as lines:
        return lines.read()

def attempt():
    return {expression}
"""
_ENVIRONMENT = Environment(
    name="doctor",
    task="Define attempt().",
    verify=Cases(function="attempt", cases=(Case(expected=False),)),
    limits=EnvironmentLimits(wall=20.0, memory=256 << 20, disk=16 << 20, processes=16),
)


def local_sandbox() -> list[Finding]:
    """One finding for the sandbox as a whole, one for each wall that an answer was set against.

    Never raises for what this host lacks: that is a finding with status ``fail`` and its remedy.
    """
    missing = namespaces_missing()
    if missing is not None:
        return [Finding("local sandbox", "fail", missing, _remedy(missing))]
    with DeepGym(provider=LocalProvider()) as client:
        capabilities = client.provider.capabilities
        attempts = client.run_batch(
            _ENVIRONMENT, [_ANSWER.format(expression=code) for code in _ATTACKS.values()]
        )
    findings = [Finding("local sandbox", "ok", f"isolation {capabilities.isolation}"), _memory(capabilities)]
    return findings + [
        _attempt(attack, result) for attack, result in zip(_ATTACKS, attempts.results, strict=True)
    ]


def _attempt(attack: str, result: RunResult) -> Finding:
    if result.passed:
        return Finding(f"an answer {attack}", "ok", "it tried and could not")
    detail = f"{result.error_type}: {result.error}" if result.error_type else "it could"
    return Finding(
        f"an answer {attack}", "fail", detail, "Don't run untrusted answers here; report this host's kernel."
    )


def _memory(capabilities: Capabilities) -> Finding:
    if capabilities.memory == "enforced":
        return Finding("memory of a run together", "ok", "bounded by a control group")
    return Finding(
        "memory of a run together",
        "warn",
        "bounded for each process by an rlimit, not for all together",
        "Run where this user may write a control group (as root, or with a delegated systemd slice).",
    )


def _remedy(missing: str) -> str:
    if "Linux" in missing:
        return "Use a remote provider, or a Linux machine or VM."
    if "EPERM" in missing or "not permitted" in missing or "Permission denied" in missing:
        return (
            "Allow user namespaces: on Ubuntu "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, elsewhere "
            "`sysctl user.max_user_namespaces=10000`; in a container run with "
            "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined`."
        )
    return "The message names the step that failed; a kernel of 5.11 or later with namespaces is needed."
