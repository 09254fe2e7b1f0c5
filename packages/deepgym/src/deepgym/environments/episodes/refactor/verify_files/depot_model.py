"""What the program does, written once more, and commands to compare by."""

import json


class Model:
    """A depot; its methods are the commands."""

    def __init__(self):
        self.levels, self.orders, self.last = {}, {}, 0

    def receive(self, sku, pieces):
        if pieces <= 0:
            return "error: nothing to receive: %d" % pieces
        self.levels[sku] = self.levels.get(sku, 0) + pieces
        return self.levels[sku]

    def take(self, sku, pieces):
        problem = self.lacking({sku: pieces})
        if problem:
            return problem
        self.levels[sku] -= pieces
        return self.levels[sku]

    def lacking(self, needed):
        for sku, pieces in needed.items():
            if sku not in self.levels:
                return "error: no article %s" % sku
            if pieces > self.levels[sku]:
                return "error: only %d of %s" % (self.levels[sku], sku)
        return None

    def level(self, sku):
        return self.levels[sku] if sku in self.levels else "error: no article %s" % sku

    def low(self, limit):
        return sorted(sku for sku, pieces in self.levels.items() if pieces < limit)

    def place(self, texts, discount=0):
        lines, needed = [], {}
        for text in texts:
            sku, *fields = text.split(":")
            fields = dict(field.split("=") for field in fields)
            if "qty" not in fields:
                return "error: bad command place"
            lines.append((sku, int(fields["qty"]), int(fields.get("price", 0))))
            needed[sku] = needed.get(sku, 0) + lines[-1][1]
        problem = self.lacking(needed)
        if problem:
            return problem
        for sku, pieces in needed.items():
            self.levels[sku] -= pieces
        self.last += 1
        self.orders[self.last] = (lines, discount)
        return self.last

    def cancel(self, number):
        if number not in self.orders:
            return "error: no order %s" % number
        for sku, pieces, _ in self.orders.pop(number)[0]:
            self.levels[sku] += pieces
        return None

    def cents(self, number):
        lines, discount = self.orders[number]
        return sum(pieces * price * (100 - discount) // 100 for _, pieces, price in lines)

    def total(self, number):
        return money(self.cents(number)) if number in self.orders else "error: no order %s" % number

    def pieces(self):
        return sum(pieces for lines, _ in self.orders.values() for _, pieces, _ in lines)

    def order(self, number):
        if number not in self.orders:
            return "error: no order %s" % number
        rows = ["sku       qty       price   sum"]
        for sku, pieces, price in self.orders[number][0]:
            cells = (sku.ljust(8), str(pieces).ljust(8), str(price).ljust(8))
            rows.append("  ".join(cells) + money(pieces * price))
        return "\n".join([*rows, "total " + self.total(number)])

    def stock(self, skus):
        for sku in skus:
            if sku not in self.levels:
                return "error: no article %s" % sku
        return "\n".join("%s: %d" % (sku, self.levels[sku]) for sku in skus)

    def export(self):
        orders = [
            {
                "cents": self.cents(number),
                "lines": [{"price": price, "qty": pieces, "sku": sku} for sku, pieces, price in lines],
                "number": number,
            }
            for number, (lines, _) in self.orders.items()
        ]
        return json.dumps(orders, sort_keys=True)


def money(cents):
    return "%s.%02d" % (format(cents // 100, ","), cents % 100)


def commands(rng):
    """A run of the program: an order, a cancellation, each report and the export, and whatever else."""
    skus = ["nut", "bolt", "nail", "screw"]
    yield from (["receive", sku, rng.randint(20, 90)] for sku in skus[:3])
    for index in range(rng.randint(8, 20)):
        sku = rng.choice(skus)
        lines = [
            "%s:qty=%d:price=%d" % (rng.choice(skus[:3]), rng.randint(1, 9), rng.randint(1, 99999))
            for _ in range(rng.randint(1, 3))
        ]
        if index % 4 == 0:
            yield ["place", lines, rng.randint(0, 60)]
        yield rng.choice(
            (
                ["receive", sku, rng.randint(-2, 20)],
                ["take", sku, rng.randint(1, 60)],
                ["level", sku],
                ["low", rng.randint(1, 60)],
                ["place", lines],
                ["place", ["nut:price=3"]],
                ["cancel", rng.randint(1, 5)],
                ["total", rng.randint(1, 4)],
            )
        )
    yield from (
        ["place", ["bolt:qty=2:price=1999", "nut:qty=1"], 15],
        ["order", 1],
        ["order", 2],
        ["total", 1],
    )
    yield from (["cancel", 1], ["stock", ["nut", "bolt"]], ["stock", skus], ["pieces"], ["export"], ["sell"])
