"""Sums and dates of invoices; see README.md."""

from datetime import date, timedelta


def parse_amount(text):
    """Cents of an amount such as "1,234.50"."""
    whole, point, cents = text.strip().replace(",", "").partition(".")
    if point and len(cents) != 2:
        raise ValueError("not an amount: %r" % text)
    value = int(whole) * 100
    if cents:
        value += int(cents) if value >= 0 else -int(cents)
    return value


def line_total(quantity, unit_price, discount):
    """Cents of one line of an invoice, after the discount."""
    return round(quantity * unit_price * (1 - discount / 100))


def split(total, weights):
    """Share an amount in proportion to the weights."""
    if not weights:
        raise ValueError("nothing to share by")
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    shares[-1] += total - sum(shares)
    return shares


def due_date(issued, terms):
    """The day on which an invoice must be paid."""
    day = date.fromisoformat(issued)
    kind, _, days = terms.replace("+", " ").partition(" ")
    if kind == "eom":
        day = date(day.year, day.month + 1, 1) - timedelta(days=1)
    elif kind != "net":
        raise ValueError("unknown terms: %r" % terms)
    day += timedelta(days=int(days or 0))
    if day.weekday() == 6:
        day += timedelta(days=1)
    return day.isoformat()
