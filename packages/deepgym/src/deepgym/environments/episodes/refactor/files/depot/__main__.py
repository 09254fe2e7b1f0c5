"""``python3 -m depot``: commands on standard input, one JSON list a line; what they give, as JSON too."""

import json
import sys

from depot.api import run

for result in run([json.loads(line) for line in sys.stdin if line.strip()]):
    print(json.dumps(result))
