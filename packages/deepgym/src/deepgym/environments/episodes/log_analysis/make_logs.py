"""Makes the logs of a seed. The verifier imports the same file to know what stands in them."""

import datetime
import gzip
import os
import random

START = datetime.datetime(2024, 3, 4, 6, 0, 0)
PATHS = [
    "/",
    "/about",
    "/pricing",
    "/login",
    "/search",
    "/cart",
    "/checkout",
    "/static/app.js",
    "/static/site.css",
    "/static/logo.svg",
    "/api/items",
    "/api/items/17",
    "/api/items/23",
    "/api/orders",
    "/api/users/me",
    "/api/stock",
    "/feed.xml",
    "/help",
    "/contact",
]
DEAD = [
    "/old/index.php",
    "/api/v0/items",
    "/wp-login.php",
    "/static/app.min.js",
    "/backup.zip",
    "/api/v0/orders",
]
QUERIES = ("", "", "", "?page=2", "?q=blue+shoes", "?q=%3F&sort=price", "?ref=mail?x=1", "?id=500")
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:123.0) Gecko/20100101 Firefox/123.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_3) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.3",
    "curl/8.5.0",
    'evil\\"agent\\" 200 17 id=00000000',
    "Caf\u00e9-Leser/2.1",
    "-",
)
REFERERS = (
    "-",
    "-",
    "https://shop.example/",
    'https://example.org/?q=\\"GET / HTTP/1.1\\" 503 9',
    "https://news.example/a",
)
COLUMNS = ("client", "user", "time", "method", "target", "status", "size", "referer", "agent", "ms", "id")


def address(rng):
    if rng.random() < 0.15:
        return "2001:db8::%x:%x" % (rng.randint(1, 0xFFFF), rng.randint(1, 0xFFFF))
    return "%s.%d" % (rng.choice(("198.51.100", "203.0.113", "192.0.2")), rng.randint(1, 254))


def requests(seed):
    """All requests as dicts, in the order of their times (UTC, whole seconds)."""
    rng = random.Random(seed)
    clients = sorted({address(rng) for _ in range(rng.randint(120, 170))})
    rng.shuffle(clients)
    worst, slow = rng.randint(3, 44), rng.randint(250, 900)
    dead = rng.sample(DEAD, rng.randint(3, 5))
    paths = PATHS + dead
    weights = [rng.randint(1, 12) for _ in PATHS] + [rng.randint(1, 3) for _ in dead]
    urn = [path for path, weight in zip(paths, weights) for _ in range(weight)]
    found, used = [], set()

    def add(client, second, method, target, status, size=None):
        while (client, second) in used:
            second += 1
        used.add((client, second))
        row = dict.fromkeys(COLUMNS, "-")
        row.update(client=client, time=second, method=method, target=target, status=status)
        row["size"] = rng.randint(200, 40000) if size is None else size
        row["ms"] = min(rng.randint(2, slow), rng.randint(2, 2 * slow)) * (6 if rng.random() < 0.06 else 1)
        row["user"] = rng.choice(("-", "-", "-", "alice", "bob", "mallory"))
        row["agent"], row["referer"] = rng.choice(AGENTS), rng.choice(REFERERS)
        found.append(row)
        return second

    for _ in range(rng.randint(3300, 3700)):
        second = rng.randint(0, 48 * 3600 - 1)
        path = rng.choice(urn)
        status = rng.choice((200,) * 14 + (204, 206, 301, 304, 403, 500, 502, 503))
        if path in dead:
            status = rng.choice((404, 404, 404, 410, 500))
        elif second // 3600 == worst and rng.random() < 0.4:
            status = rng.choice((500, 502, 503, 504))
        method = rng.choice(("GET",) * 9 + ("POST", "HEAD"))
        if path == "/login":
            method, status = "GET", 200
        size = 0 if method == "HEAD" or status in (204, 304) else None
        add(rng.choice(clients), second, method, path + rng.choice(QUERIES), status, size)
    # As heavy as others by number of requests, but not by bytes.
    for _ in range(6):
        add(
            clients[0],
            rng.randint(0, 48 * 3600 - 1),
            "GET",
            "/static/logo.svg",
            200,
            rng.randint(400000, 700000),
        )
    intruder, persistent, forgetful, lucky = clients[1:5]
    for client, misses, end in (
        (intruder, rng.randint(10, 16), 302),
        (persistent, rng.randint(25, 40), 401),
        (forgetful, rng.randint(6, 9), 302),
        (lucky, rng.randint(6, 9), 302),
    ):
        second = rng.randint(3600, 40 * 3600)
        for status in [401] * misses + [end]:
            second = add(client, second, "POST", "/login" + rng.choice(("", "?next=/cart")), status, 512)
            second += rng.randint(2, 50)
            if client == intruder and rng.random() < 0.5:
                second = add(client, second, "GET", "/static/site.css", 200) + 1
        if client == lucky:
            for status in [401] * rng.randint(4, 9):
                second = add(client, second, "POST", "/login", status, 512) + rng.randint(2, 50)
    for client in rng.sample(clients[5:], 40):
        second = rng.randint(0, 47 * 3600)
        for status in [401] * rng.randint(0, 3) + [302]:
            second = add(client, second, "POST", "/login", status, 512) + rng.randint(3, 20)
    found.sort(key=lambda row: (row["time"], row["client"]))
    numbers = rng.sample(range(1 << 31), len(found))
    for row, number in zip(found, numbers):
        row["id"] = "%08x" % number
    return found


def line(row, offset):
    """A request as the server wrote it, its clock ``offset`` hours from UTC."""
    moment = START + datetime.timedelta(seconds=row["time"], hours=offset)
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    day = "%02d/%s/%d" % (moment.day, months[moment.month - 1], moment.year)
    return '%s - %s [%s:%s %+03d00] "%s %s HTTP/1.1" %d %s "%s" "%s" %d.%03d id=%s' % (
        row["client"],
        row["user"],
        day,
        moment.strftime("%H:%M:%S"),
        offset,
        row["method"],
        row["target"],
        row["status"],
        row["size"] or "-",
        row["referer"],
        row["agent"],
        row["ms"] // 1000,
        row["ms"] % 1000,
        row["id"],
    )


def files(seed):
    """The three logs as lists of lines, the oldest first."""
    rows = requests(seed)
    rng = random.Random(seed + 1)
    first, second = len(rows) // 3 + rng.randint(-200, 200), 2 * len(rows) // 3 + rng.randint(-200, 200)
    offset = rng.choice((-5, 1, 2))
    lines = [line(row, 0 if index < second + 300 else offset) for index, row in enumerate(rows)]
    for index in range(0, len(lines) - 3, 3):
        if rng.random() < 0.2:
            lines[index], lines[index + 2] = lines[index + 2], lines[index]
    parts = [lines[:first], lines[first - rng.randint(8, 20) : second], lines[second - rng.randint(8, 20) :]]
    for part in parts:
        for _ in range(rng.randint(12, 25)):
            noise = rng.choice(("", "# rotated by logrotate", "cut", "cut"))
            if noise == "cut":
                noise = rng.choice(lines)
                noise = noise[: rng.randint(12, noise.rindex('"') - 1)]
            part.insert(rng.randint(0, len(part)), noise)
    return parts


def main():
    os.makedirs("logs", exist_ok=True)
    parts = ["\n".join(part).encode("latin-1") + b"\n" for part in files(int(os.environ["DEEPGYM_SEED"]))]
    with open("logs/access.log.2.gz", "wb") as target:
        target.write(gzip.compress(parts[0], mtime=0))
    for name, data in (("access.log.1", parts[1]), ("access.log", parts[2])):
        with open("logs/" + name, "wb") as target:
            target.write(data)


if __name__ == "__main__":
    main()
