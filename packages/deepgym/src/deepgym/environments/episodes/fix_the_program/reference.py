CODE = '''"""Sums and dates of invoices; see README.md."""

import re
from datetime import date, timedelta


def parse_amount(text):
    """Cents of an amount such as "1,234.50"."""
    found = re.fullmatch(r" *(-?)([0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\\.([0-9]{2}))? *", text)
    if found is None:
        raise ValueError("not an amount: %r" % text)
    sign, whole, cents = found.groups()
    value = int(whole.replace(",", "")) * 100 + int(cents or 0)
    return -value if sign else value


def line_total(quantity, unit_price, discount):
    """Cents of one line of an invoice, after the discount."""
    return (quantity * unit_price * (100 - discount) + 50) // 100


def split(total, weights):
    """Share an amount in proportion to the weights."""
    if not any(weights):
        raise ValueError("nothing to share by")
    if total < 0:
        return [-share for share in split(-total, weights)]
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda index: -(total * weights[index] % whole))
    for index in order[: total - sum(shares)]:
        shares[index] += 1
    return shares


def due_date(issued, terms):
    """The day on which an invoice must be paid."""
    found = re.fullmatch(r"net ([0-9]{1,3})|eom(?:\\+([0-9]{1,3}))?", terms)
    if found is None:
        raise ValueError("unknown terms: %r" % terms)
    day = date.fromisoformat(issued)
    if terms.startswith("eom"):
        day = (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    day += timedelta(days=int(found.group(1) or found.group(2) or 0))
    if day.weekday() >= 5:
        day += timedelta(days=7 - day.weekday())
    return day.isoformat()
'''

with open("invoice.py", "w") as target:
    target.write(CODE)
