import collections
import datetime
import gzip
import json
import re

LINE = re.compile(
    r"(\S+) - \S+ \[([^\]]+)\] "
    r'"(\S+) (\S+) [^" ]+" (\d+) (\d+|-) "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*" (\d+)\.(\d{3}) id=([0-9a-f]{8})'
)
requests = {}
for name in ("access.log.2.gz", "access.log.1", "access.log"):
    opened = gzip.open if name.endswith(".gz") else open
    with opened("logs/" + name, "rt", encoding="latin-1", newline="\n") as lines:
        for line in lines:
            found = LINE.fullmatch(line.rstrip("\n"))
            if found:
                client, time, method, target, status, size, seconds, thousandths, number = found.groups()
                moment = datetime.datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z")
                requests[number] = {
                    "client": client,
                    "time": moment.astimezone(datetime.timezone.utc),
                    "method": method,
                    "path": target.split("?")[0],
                    "status": int(status),
                    "size": 0 if size == "-" else int(size),
                    "ms": int(seconds) * 1000 + int(thousandths),
                }
rows = sorted(requests.values(), key=lambda row: row["time"])

paths, hours, sent = collections.Counter(), collections.Counter(), collections.Counter()
alive, times, misses, intruder = set(), [], collections.Counter(), None
for row in rows:
    paths[row["path"]] += 1
    sent[row["client"]] += row["size"]
    if row["status"] < 400:
        alive.add(row["path"])
    if 500 <= row["status"] < 600:
        hours[row["time"].strftime("%Y-%m-%dT%H")] += 1
    if row["method"] == "GET" and row["path"].startswith("/api/") and 200 <= row["status"] < 300:
        times.append(row["ms"])
    if row["method"] == "POST" and row["path"] == "/login":
        if row["status"] == 302 and misses[row["client"]] >= 10:
            intruder = row["client"]
        misses[row["client"]] = misses[row["client"]] + 1 if row["status"] == 401 else 0
times.sort()
answers = {
    "requests": len(rows),
    "clients": len(sent),
    "top_paths": sorted(paths, key=lambda path: (-paths[path], path))[:5],
    "worst_hour": min(hours, key=lambda hour: (-hours[hour], hour)),
    "p95_ms": next(ms for index, ms in enumerate(times, 1) if index * 100 >= 95 * len(times)),
    "heaviest_client": max(sent, key=lambda client: sent[client]),
    "intruder": intruder,
    "dead_paths": sorted(path for path in paths if paths[path] >= 3 and path not in alive),
}
with open("answers.json", "w") as target:
    json.dump(answers, target, indent=2)
print(json.dumps(answers))
