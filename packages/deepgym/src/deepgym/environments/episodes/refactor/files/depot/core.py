"""The depot: all that it has, and all that was ordered."""

from depot import util
from depot.errors import DepotError


class Depot:
    """Stock and orders."""

    def __init__(self):
        self._levels = {}
        self._orders = {}
        self._last = 0

    def receive(self, sku, pieces):
        """Put pieces of an article on the shelf; the new level."""
        if pieces <= 0:
            raise DepotError("nothing to receive: %d" % pieces)
        self._levels[sku] = self._levels.get(sku, 0) + pieces
        return self._levels[sku]

    def take(self, sku, pieces):
        """Take pieces of an article off the shelf; the new level."""
        if pieces > self.level(sku):
            raise DepotError("only %d of %s" % (self.level(sku), sku))
        self._levels[sku] -= pieces
        return self._levels[sku]

    def level(self, sku):
        """Pieces of an article on the shelf."""
        if sku not in self._levels:
            raise DepotError("no article %s" % sku)
        return self._levels[sku]

    def low(self, limit):
        """Articles of which there are fewer pieces than the limit, in alphabetical order."""
        return sorted(sku for sku, pieces in self._levels.items() if pieces < limit)

    def place(self, lines, discount=0):
        """Place an order, all of it or nothing; its number."""
        needed = {}
        for line in lines:
            needed[line.sku] = needed.get(line.sku, 0) + line.qty
        for sku, pieces in needed.items():
            if pieces > self.level(sku):
                raise DepotError("only %d of %s" % (self.level(sku), sku))
        for sku, pieces in needed.items():
            self.take(sku, pieces)
        self._last += 1
        self._orders[self._last] = (list(lines), discount)
        return self._last

    def cancel(self, number):
        """Cancel an order: its pieces go back on the shelf."""
        lines, _ = self._order(number)
        for line in lines:
            self.receive(line.sku, line.qty)
        del self._orders[number]

    def total(self, number):
        """Cents of an order."""
        lines, discount = self._order(number)
        return sum(util.calc(line, discount) for line in lines)

    def open_orders(self):
        """Numbers and lines of the orders, the oldest first."""
        return [(number, list(lines)) for number, (lines, _) in sorted(self._orders.items())]

    def _order(self, number):
        if number not in self._orders:
            raise DepotError("no order %s" % number)
        return self._orders[number]
