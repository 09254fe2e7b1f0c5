"""Reports for people."""

from depot.util import calc, fmt

COLUMNS = ("sku", "qty", "price")


def order_report(depot, number):
    """The lines of an order as a table, and its total."""
    lines = dict(depot.open_orders()).get(number, [])
    rows = ["  ".join(column.ljust(8) for column in COLUMNS) + "sum"]
    for line in lines:
        cells = "  ".join(str(getattr(line, column)).ljust(8) for column in COLUMNS)
        rows.append(cells + fmt(calc(line)))
    rows.append("total " + fmt(depot.total(number)))
    return "\n".join(rows)


def stock_report(depot, skus):
    """A line for each article."""
    return "\n".join("%s: %d" % (sku, depot.level(sku)) for sku in skus)
