"""The depot by commands: lists such as ["receive", "nut", 5]."""

from depot import exporting, report
from depot.core import Depot
from depot.errors import DepotError
from depot.util import fmt


def run(commands):
    """Carry out the commands on a new depot; what each of them gave."""
    depot = Depot()
    return [_result(depot, name, arguments) for name, *arguments in commands]


def _result(depot, name, arguments):
    try:
        return _COMMANDS[name](depot, *arguments)
    except DepotError as error:
        return "error: %s" % error
    except KeyError:
        return "error: bad command %s" % name


def _place(depot, texts, discount=0):
    return depot.place([exporting.read_line(text) for text in texts], discount)


def _pieces(depot):
    return sum(line.qty for _, lines in depot.open_orders() for line in lines)


_COMMANDS = {
    "receive": lambda depot, sku, pieces: depot.receive(sku, pieces),
    "take": lambda depot, sku, pieces: depot.take(sku, pieces),
    "level": lambda depot, sku: depot.level(sku),
    "low": lambda depot, limit: depot.low(limit),
    "place": _place,
    "cancel": lambda depot, number: depot.cancel(number),
    "total": lambda depot, number: fmt(depot.total(number)),
    "pieces": _pieces,
    "order": report.order_report,
    "stock": report.stock_report,
    "export": exporting.export,
}
