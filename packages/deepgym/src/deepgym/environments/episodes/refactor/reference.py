import os
import re


def read(path):
    with open(path) as source:
        return source.read()


def write(path, text):
    with open(path, "w") as target:
        target.write(text)


def replace(path, *pairs):
    text = read(path)
    for old, new in pairs:
        assert old in text, (path, old)
        text = text.replace(old, new)
    write(path, text)


# Pricing.
text = read("depot/util.py").replace("def calc(", "def line_total(").replace("def fmt(", "def format_cents(")
write("depot/pricing.py", text)
os.remove("depot/util.py")
for path in ("depot/__init__.py", "depot/report.py", "depot/api.py", "tests/test_depot.py"):
    text = read(path).replace("depot.util", "depot.pricing")
    write(path, re.sub(r"\bcalc\b", "line_total", re.sub(r"\bfmt\b", "format_cents", text)))

# Two classes out of one.
core = read("depot/core.py")
start = {name: core.index("    def %s(" % name) for name in ("receive", "place", "_order")}
shelf, orders = core[start["receive"] : start["place"]], core[start["place"] :]
for name in ("level", "take", "receive"):
    orders = orders.replace("self.%s(" % name, "self._stock.%s(" % name)
write(
    "depot/stock.py",
    '''"""The shelves."""

from depot.errors import DepotError


class Stock:
    """Pieces of articles."""

    def __init__(self):
        self._levels = {}

'''
    + shelf.rstrip()
    + "\n",
)
write(
    "depot/orderbook.py",
    '''"""The orders."""

from depot.errors import DepotError
from depot.pricing import line_total


class OrderBook:
    """Orders from a stock."""

    def __init__(self, stock):
        self._stock = stock
        self._orders = {}
        self._last = 0

'''
    + orders.replace("util.calc(", "line_total("),
)
write(
    "depot/core.py",
    '''"""The depot: all that it has, and all that was ordered."""

from depot.orderbook import OrderBook
from depot.stock import Stock


class Depot:
    """Stock and orders."""

    def __init__(self):
        self.stock = Stock()
        self.book = OrderBook(self.stock)
''',
)
for path in ("depot/report.py", "depot/exporting.py", "depot/api.py", "tests/test_depot.py"):
    text = re.sub(r"\bdepot\.(receive|take|level|low)\(", r"depot.stock.\1(", read(path))
    write(path, re.sub(r"\bdepot\.(place|cancel|total|open_orders)\(", r"depot.book.\1(", text))

# A name.
replace("depot/lines.py", ("    qty: int", "    quantity: int"), ("self.qty", "self.quantity"))
replace("depot/exporting.py", ("Line(sku, qty=", "Line(sku, quantity="))
replace("tests/test_depot.py", ('"nut", qty=', '"nut", quantity='))
for path in ("depot/pricing.py", "depot/orderbook.py", "depot/api.py"):
    replace(path, ("line.qty", "line.quantity"))
replace(
    "depot/report.py",
    ('COLUMNS = ("sku", "qty", "price")', 'COLUMNS = {"sku": "sku", "qty": "quantity", "price": "price"}'),
    (
        "getattr(line, column)).ljust(8) for column in COLUMNS)",
        "getattr(line, name)).ljust(8) for name in COLUMNS.values())",
    ),
)
