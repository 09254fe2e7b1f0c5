"""Compares the answers with those that follow from the seed. The agent's copy of the logs plays no part."""

import collections
import datetime
import json

import make_logs
from deepgym_verify import seed


def path(row):
    return row["target"].split("?")[0]


def hour(row):
    return (make_logs.START + datetime.timedelta(seconds=row["time"])).strftime("%Y-%m-%dT%H")


def most(counter):
    return min(counter, key=lambda key: (-counter[key], key))


def intruder(rows):
    misses = collections.Counter()
    for row in rows:
        if row["method"] == "POST" and path(row) == "/login":
            if row["status"] == 302 and misses[row["client"]] >= 10:
                return row["client"]
            misses[row["client"]] = misses[row["client"]] + 1 if row["status"] == 401 else 0
    raise LookupError("no intruder")


def expected():
    rows = make_logs.requests(seed)
    paths = collections.Counter(map(path, rows))
    alive = {path(row) for row in rows if row["status"] < 400}
    sent = collections.Counter()
    for row in rows:
        sent[row["client"]] += row["size"]
    times = sorted(
        row["ms"]
        for row in rows
        if row["method"] == "GET" and path(row).startswith("/api/") and 200 <= row["status"] < 300
    )
    return {
        "requests": len(rows),
        "clients": len(sent),
        "top_paths": sorted(paths, key=lambda name: (-paths[name], name))[:5],
        "worst_hour": most(collections.Counter(hour(row) for row in rows if 500 <= row["status"] < 600)),
        "p95_ms": times[-(-95 * len(times) // 100) - 1],
        "heaviest_client": most(sent),
        "intruder": intruder(rows),
        "dead_paths": sorted(name for name in paths if paths[name] >= 3 and name not in alive),
    }


def same(found, wanted):
    if isinstance(wanted, int):
        return type(found) in (int, float) and found == wanted
    return type(found) is type(wanted) and found == wanted


def answers(work):
    """The agent's answers and what is wrong with the file, if anything."""
    try:
        found = json.loads(work.read("answers.json", limit=65536))
    except OSError:
        return {}, "there is no answers.json that can be read"
    except (ValueError, RecursionError):
        return {}, "answers.json isn't JSON"
    if not isinstance(found, dict):
        return {}, "answers.json isn't an object"
    return found, None


def verify(work):
    wanted = expected()
    found, problem = answers(work)
    cases = [
        {"name": name, "passed": name in found and same(found[name], value), "message": problem or ""}
        for name, value in wanted.items()
    ]
    score = sum(case["passed"] for case in cases) / len(cases)
    return {"score": score, "passed": score == 1.0, "cases": cases}
