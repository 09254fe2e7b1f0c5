import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from depot import Depot, DepotError, Line, calc, fmt
from depot.api import run


class DepotTest(unittest.TestCase):
    def test_prices(self):
        self.assertEqual(calc(Line("nut", qty=3, price=250), 10), 675)
        self.assertEqual(fmt(123450), "1,234.50")

    def test_orders(self):
        depot = Depot()
        depot.receive("nut", 5)
        number = depot.place([Line("nut", qty=3, price=250)])
        self.assertEqual(depot.level("nut"), 2)
        self.assertEqual(depot.total(number), 750)
        with self.assertRaises(DepotError):
            depot.take("nut", 3)

    def test_commands(self):
        self.assertEqual(
            run([["receive", "nut", 5], ["level", "nut"], ["level", "nail"]])[1:],
            [5, "error: no article nail"],
        )
