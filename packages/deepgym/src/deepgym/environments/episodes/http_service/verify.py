"""Starts the service from the frozen copy and asks it.

Each part of the description counts whole or not at all.
"""

import hashlib
import json
import random

from deepgym_verify import SolutionError, rng

SECONDS = 3.0

# Many clients at once, each with a connection of its own and all in step, so that their requests do meet.
# What they did is then asked of the service.
CLIENTS = """
import socket, sys, threading
port, count, rounds = map(int, sys.argv[1:])
request = b"POST /keys/together/add HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 1\\r\\n\\r\\n"
together = threading.Barrier(count, timeout=5)
def run():
    connection = socket.create_connection(("127.0.0.1", port), 5)
    for _ in range(rounds):
        connection.sendall(request)
        together.wait()
        connection.sendall(b"3")
        data = b""
        while b"\\r\\n\\r\\n" not in data:
            data += connection.recv(4096) or sys.exit()
threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(15)
"""

# Connects, sends nothing, stays.
SILENT = """
import socket, sys, time
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(5)]
time.sleep(60)
"""


class Service:
    """The service on a port, and what each of its answers must be."""

    def __init__(self, work, port):
        self.work, self.port = work, port
        self.started = work.start(["python3", "service.py", str(port)], port=port, timeout=5.0)
        assert self.started is not None, "it doesn't listen"

    def ask(self, method, path, status, body=b"", wanted=None, **headers):
        """One request; ``AssertionError`` if the answer isn't ``status`` with the body ``wanted``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        found = self.work.http(self.port, method, path, body, named, timeout=SECONDS)
        asked = "%s %s" % (method, path[:60])
        assert found.status == status, "%s: %r, not %d" % (asked, found.status, status)
        assert wanted is None or found.body == wanted, "%s: another body" % asked
        return found

    def kill(self):
        self.started.stop()


def name(length=8):
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789._-") for _ in range(length))


def blob(size):
    return random.Random(rng.random()).getrandbits(8 * size + 1).to_bytes(size + 1, "big")[1:]


def tag(value):
    return '"%s"' % hashlib.sha256(value).hexdigest()


def values(service):
    for value in (b"", b"text\r\n\r\n", blob(300), blob(100_000), bytes(range(256))):
        key = "/keys/v" + name()
        service.ask("GET", key, 404)
        service.ask("DELETE", key, 404)
        service.ask("PUT", key, 201, value)
        found = service.ask("GET", key, 200, wanted=value)
        assert found.headers.get("etag") == tag(value), "ETag"
        service.ask("PUT", key, 204, value + b"!")
        service.ask("GET", key, 200, wanted=value + b"!")
        service.ask("DELETE", key, 204)
        service.ask("GET", key, 404)
        service.ask("PUT", key, 201, b"again")


def listed(service, query=""):
    found = json.loads(service.ask("GET", "/keys" + query, 200).body)
    assert type(found) is list, "not a list"
    return found


def keys(service):
    prefix = "k" + name(5)
    made = sorted({prefix + name(rng.randint(0, 20)) for _ in range(12)} | {prefix.swapcase() + "-"})
    for key in rng.sample(made, len(made)):
        service.ask("PUT", "/keys/" + key, 201, key.encode())
    for key in (".", "..", "...", "-", "_", "keys", "add", "x" * 64):
        service.ask("PUT", "/keys/" + key, 201, key.encode())
        service.ask("GET", "/keys/" + key, 200, wanted=key.encode())
    begun = [key for key in made if key.startswith(prefix)]
    assert listed(service, "?prefix=" + prefix) == begun, "keys with a prefix"
    gone = begun.pop(rng.randrange(len(begun)))
    service.ask("DELETE", "/keys/" + gone, 204)
    assert listed(service, "?prefix=" + prefix) == begun, "keys after one was deleted"
    assert listed(service, "?prefix=" + "q" * 65) == [], "keys with a prefix that none has"
    everything = listed(service)
    assert everything == sorted(set(everything)), "all keys, in order"
    assert set(begun) | {".", "..", "x" * 64} <= set(everything), "all keys"
    assert gone not in everything, "a deleted key"
    for key in ("x" * 65, "a%20b", "a%2Fb", "", "a+b", "~", "k%65y"):
        service.ask("PUT", "/keys/" + key, 400, b"x")
    for path in ("/", "/other", "/key/a", "/keys/a/b", "/keys/a/add/c"):
        service.ask("GET", path, 404)


def conditions(service):
    key, first, second = "/keys/c" + name(), blob(50), blob(60)
    service.ask("PUT", key, 412, first, If_Match=tag(first))
    service.ask("GET", key, 404)
    service.ask("PUT", key, 201, first)
    service.ask("PUT", key, 412, second, If_Match=tag(second))
    service.ask("GET", key, 200, wanted=first)
    service.ask("PUT", key, 204, second, If_Match=tag(first))
    service.ask("PUT", key, 412, first, If_Match=tag(first))
    service.ask("GET", key, 200, wanted=second)


def counters(service):
    key, total = "/keys/n" + name(), 0
    for number in (0, rng.randint(1, 999), -rng.randint(1000, 9999), 10**30, -(10**30)):
        total += number
        service.ask("POST", key + "/add", 200, b"%d" % number, wanted=b"%d" % total)
    service.ask("GET", key, 200, wanted=b"%d" % total)
    for body in (b"", b"x", b"1.5", b"1_0", b"-", b"1 2", b"\xff"):
        service.ask("POST", key + "/add", 400, body)
    service.ask("PUT", key, 204, b"-17")
    service.ask("POST", key + "/add", 200, b"20", wanted=b"3")
    service.ask("PUT", key, 204, b"three")
    service.ask("POST", key + "/add", 409, b"1")
    service.ask("GET", key, 200, wanted=b"three")


def clients(service):
    silent = service.work.start(["python3", "-I", "-S", "-c", SILENT, str(service.port)])
    command = ["python3", "-I", "-S", "-c", CLIENTS, str(service.port), "10", "40"]
    try:
        service.work.run(command, timeout=20.0)
        service.ask("GET", "/keys/together", 200, wanted=b"%d" % (10 * 40 * 3))
    finally:
        silent.stop(alone=True)


def durability(service, port):
    kept = {name(): blob(rng.randint(1, 2000)) for _ in range(20)}
    counter, gone = "d" + name(), "g" + name()
    service.ask("PUT", "/keys/" + gone, 201, b"x")
    for key, value in kept.items():
        service.ask("PUT", "/keys/d" + key, 201, b"old" + value)
        service.ask("PUT", "/keys/d" + key, 204, value)
    service.ask("DELETE", "/keys/" + gone, 204)
    for total in range(7, 50, 7):
        service.ask("POST", "/keys/%s/add" % counter, 200, b"7", wanted=b"%d" % total)
    before = listed(service)
    service.kill()
    # Another port: whatever the killed service may have left behind at the first isn't asked.
    service = Service(service.work, port)
    for key, value in kept.items():
        service.ask("GET", "/keys/d" + key, 200, wanted=value)
    service.ask("GET", "/keys/" + gone, 404)
    service.ask("GET", "/keys/" + counter, 200, wanted=b"49")
    assert listed(service) == before, "other keys than before"
    service.ask("PUT", "/keys/" + gone, 201, b"y")
    service.kill()


PARTS = {
    "values": (0.25, values),
    "keys and lists": (0.15, keys),
    "If-Match": (0.15, conditions),
    "add": (0.15, counters),
    "several clients": (0.15, clients),
    "durability": (0.15, durability),
}


def problem(part, *arguments):
    """What is wrong, or ``None``. Whatever the service does is its own part's failure."""
    try:
        part(*arguments)
    except (AssertionError, SolutionError, ValueError, RecursionError) as error:
        return str(error)[:200] or "wrong"
    except Exception as error:
        if not getattr(error, "from_solution", False):
            raise
        return "%s: %s" % (type(error).__name__, str(error)[:200])
    return None


def verify(work):
    ports = rng.sample(range(20000, 32000), 2)
    service = Service(work, ports[0])
    cases = []
    for title, (weight, part) in PARTS.items():
        message = problem(part, service, *([ports[1]] if part is durability else []))
        cases.append({"name": title, "passed": message is None, "score": weight, "message": message or ""})
    passed = all(case["passed"] for case in cases)
    score = sum(case["score"] for case in cases if case["passed"])
    for case in cases:
        case["score"] = float(case["passed"])
    return {"score": 1.0 if passed else round(score, 6), "passed": passed, "cases": cases}
