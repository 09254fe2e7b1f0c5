"""Data for other programs."""

import json

from depot.lines import Line


def export(depot):
    """All open orders as JSON."""
    orders = [
        {"number": number, "lines": [line.as_dict() for line in lines], "cents": depot.total(number)}
        for number, lines in depot.open_orders()
    ]
    return json.dumps(orders, sort_keys=True)


def read_line(text):
    """A line from a text such as "nut:qty=3:price=250"."""
    sku, *fields = text.split(":")
    found = dict(field.split("=", 1) for field in fields)
    return Line(sku, qty=int(found["qty"]), price=int(found.get("price", 0)))
