"""Compares the agent's table with the clean form of what the seed makes. The raw copies play no part."""

import csv
import io

import make_data
from deepgym_verify import seed

HEADER = ["order", "date", "customer", "grams", "cents", "currency"]
LIMIT = 1 << 18


def table(work):
    """The rows of ``clean.csv``, and what is wrong with the file, if anything."""
    try:
        text = work.read("clean.csv", limit=LIMIT).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except OSError:
        return [], "there is no clean.csv that can be read"
    except UnicodeDecodeError:
        return [], "clean.csv isn't UTF-8"
    except csv.Error as error:
        return [], "clean.csv isn't CSV: %s" % error
    if not rows or rows[0] != HEADER:
        return [], "clean.csv has another header"
    return [tuple(row) for row in rows[1:] if row], None


def rejected(work):
    try:
        lines = work.text("rejected.txt", limit=LIMIT).split("\n")
    except OSError:
        return None
    return sorted(line.strip() for line in lines if line.strip())


def verify(work):
    shops = make_data.shops(seed)
    wanted = {row for shop in shops for row in shop.clean.values()}
    rows, problem = table(work)
    right = len(wanted.intersection(rows))
    share = right / max(len(wanted), len(rows))
    listed = rejected(work) == sorted(order for shop in shops for order in shop.rejected)
    cases = [
        {
            "name": "clean.csv",
            "passed": share == 1.0,
            "score": share,
            "message": problem or "%d of %d lines are right" % (right, len(rows)),
        },
        {"name": "rejected.txt", "passed": listed},
    ]
    passed = share == 1.0 and listed
    return {"score": 1.0 if passed else 0.8 * share + 0.2 * listed, "passed": passed, "cases": cases}
