"""The cheats once more on a host that refuses namespaces, by the tier that is left there.

    python tests/cheats/without_namespaces.py [PYTEST OPTION ...]

As root, it becomes an ordinary user, and takes an interpreter that every user can run: the system's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
USER = 23456


def main() -> int:
    """Pytest's exit status."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    options: dict[str, object] = {}
    python = sys.executable
    if os.getuid() == 0:
        options = {"user": USER, "group": USER, "extra_groups": []}
        python = f"/usr/bin/python{version}"
    site = Path(__import__("anyio").__file__).parent.parent
    with tempfile.TemporaryDirectory(prefix="deepgym-proof-") as folder:
        os.chmod(folder, 0o777)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "TMPDIR": folder,
            "PYTHONPATH": f"{ROOT / 'packages' / 'deepgym' / 'src'}{os.pathsep}{site}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "DEEPGYM_TEST_ISOLATION": "landlock",
        }
        denied = [python, "-s", str(ROOT / "tests" / "deepgym" / "client" / "denied.py"), python, "-s"]
        command = [
            *denied,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(HERE / "test_law.py"),
            *sys.argv[1:],
        ]
        return subprocess.run(command, cwd=ROOT, env=environ, check=False, **options).returncode  # type: ignore[call-overload, no-any-return]


if __name__ == "__main__":
    raise SystemExit(main())
