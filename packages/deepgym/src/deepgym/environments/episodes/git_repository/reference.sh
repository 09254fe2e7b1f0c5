set -e
cd textkit

# The issue's example, as a test for every commit, wherever the module is there.
claim=$(grep ' == ' ../ISSUE.md)
cat > /tmp/holds.py <<END
import sys
sys.path[:0] = ["src", "."]
from duration import *
sys.exit(not ($claim))
END
git bisect start main v1.0
git bisect run python3 -B /tmp/holds.py
culprit=$(git rev-parse refs/bisect/bad)
git bisect reset
echo "$culprit" > ../culprit.txt
git show "$culprit"

# Later commits touch the same lines, so a revert may conflict: take the function's body from v1.0 instead.
python3 - $claim <<'END'
import ast
import subprocess
import sys

name = sys.argv[1].split("(")[0]


def body(source):
    node = next(node for node in ast.parse(source).body if getattr(node, "name", None) == name)
    return slice(node.body[1].lineno - 1, node.end_lineno)


old = subprocess.run(["git", "show", "v1.0:duration.py"], stdout=subprocess.PIPE, check=True).stdout.decode()
with open("src/duration.py") as source:
    new = source.read()
lines = new.splitlines()
lines[body(new)] = old.splitlines()[body(old)]
with open("src/duration.py", "w") as target:
    target.write("\n".join(lines) + "\n")
END
python3 -B /tmp/holds.py
python3 -B -m unittest discover tests
git diff
git commit -q -a -m "Make it right again"
git log --oneline -3
