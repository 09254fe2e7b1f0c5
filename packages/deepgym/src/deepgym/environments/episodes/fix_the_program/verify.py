"""Calls the four functions and compares with what the description says.

A function counts whole or not at all, so that what an untouched one gets right earns nothing.
"""

import calendar
import datetime
import re

from deepgym_verify import SolutionError, rng

NAMES = ("parse_amount", "line_total", "split", "due_date")


def parse_amount(text):
    found = re.fullmatch(r" *(-?)([0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.([0-9]{2}))? *", text)
    if found is None:
        return ValueError
    value = int(found.group(2).replace(",", "") + (found.group(3) or "00"))
    return -value if found.group(1) else value


def line_total(quantity, unit_price, discount):
    return (quantity * unit_price * (100 - discount) + 50) // 100


def split(total, weights):
    whole, size = sum(weights), abs(total)
    if not whole:
        return ValueError
    shares = [size * weight // whole for weight in weights]
    losses = sorted((-(size * weight % whole), index) for index, weight in enumerate(weights))
    for _, index in losses[: size - sum(shares)]:
        shares[index] += 1
    return shares if total >= 0 else [-share for share in shares]


def due_date(issued, terms):
    found = re.fullmatch(r"net ([0-9]{1,3})|eom|eom\+([0-9]{1,3})", terms)
    if found is None:
        return ValueError
    day = datetime.date.fromisoformat(issued)
    if terms.startswith("eom"):
        day = day.replace(day=calendar.monthrange(day.year, day.month)[1])
    day += datetime.timedelta(days=int(found.group(1) or found.group(2) or 0))
    return (day + datetime.timedelta(days=(0, 0, 0, 0, 0, 2, 1)[day.weekday()])).isoformat()


def amounts():
    yield from (
        "-0.07",
        "0",
        "-1,000.01",
        "1,000,000",
        "12,345.67",
        "1234567",
        "  -5.00  ",
        "007.10",
        "0,123",
    )
    yield from ("", "-", "1.5", "1.", ".50", "1,23", "1,2345", "12,34.00", ",123", "1234,567", "1.234")
    yield from ("--1", "+1", "1_000", "1 000", "- 1", "1.-5", "1e3", "\u0661\u0662", "1.00x", "1,,000", "abc")
    for _ in range(8):
        value = rng.randint(-99, 10 ** rng.randint(1, 9))
        yield "%s%s.%02d" % ("-" if value < 0 else "", format(abs(value) // 100, ","), abs(value) % 100)


def lines():
    yield from ((1, 50, 1), (1, 150, 1), (5, 10, 1), (3, 10, 95), (7, 0, 10), (9, 99, 100), (0, 5, 5))
    yield from ((1, 250, 1), (10**6, 10**13 + 7, 33), (3, 10**16 + 1, 0))
    for _ in range(15):
        yield rng.randint(1, 999), rng.randint(1, 10 ** rng.randint(2, 8)), rng.randint(0, 100)


def totals():
    yield from (
        (100, [1, 1, 1]),
        (100, [1, 2, 1]),
        (-100, [1, 1, 1]),
        (-7, [3, 1]),
        (1, [0, 1, 1]),
        (5, [0, 3]),
    )
    yield from ((0, [1, 2]), (10, []), (10, [0, 0]), (3, [1] * 7), (10**20 + 1, [1, 1]), (99, [1]))
    for _ in range(12):
        weights = [rng.randint(0, 9) for _ in range(rng.randint(2, 7))]
        yield rng.randint(-999, 99999), [*weights, rng.randint(1, 9)]


def issues():
    yield from (
        ("2023-12-05", "eom"),
        ("2023-12-31", "eom+1"),
        ("2024-02-01", "eom"),
        ("2023-02-28", "eom+30"),
    )
    yield from (
        ("2024-06-01", "eom"),
        ("2024-08-01", "eom"),
        ("2024-05-03", "net 1"),
        ("2024-05-03", "net 2"),
    )
    yield from (("2024-05-03", "net 0"), ("2024-12-31", "net 60"), ("2024-05-04", "net 007"))
    yield from (
        ("2024-05-03", terms) for terms in ("net", "net -1", "net 1000", "eom 5", "eom+", "cash", "net+3", "")
    )
    for _ in range(12):
        year, month, day = rng.randint(2000, 2099), rng.randint(1, 12), rng.randint(1, 28)
        terms = rng.choice(["net %d" % rng.randint(0, 120), "eom", "eom+%d" % rng.randint(1, 60)])
        yield "%04d-%02d-%02d" % (year, month, day), terms


CALLS = {
    "parse_amount": lambda: [(text,) for text in amounts()],
    "line_total": lambda: list(lines()),
    "split": lambda: list(totals()),
    "due_date": lambda: list(issues()),
}


def same(found, expected):
    if isinstance(expected, list):
        return type(found) is list and len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and found == expected


def outcome(function, arguments):
    """What a call gives: its value, or the class that it raises."""
    try:
        return function(*arguments)
    except SolutionError as error:
        return error.name
    except Exception as error:
        if not getattr(error, "from_solution", False):
            raise
        return type(error)


def problem(work, name):
    """The first call that gives something else than the description says, or ``None``."""
    function = work.function("invoice", name)
    for arguments in CALLS[name]():
        expected = globals()[name](*arguments)
        found = outcome(function, arguments)
        right = found is expected if expected is ValueError else same(found, expected)
        if not right:
            return "%s%r gave %.80r, not %.80r" % (name, arguments, found, expected)
    return None


def verify(work):
    cases = []
    for name in NAMES:
        message = problem(work, name)
        cases.append({"name": name, "passed": message is None, "message": message or ""})
    score = sum(case["passed"] for case in cases) / len(cases)
    return {"score": score, "passed": score == 1.0, "cases": cases}
