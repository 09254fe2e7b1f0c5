import unittest

from invoice import due_date, line_total, parse_amount, split


class InvoiceTest(unittest.TestCase):
    def test_parse_amount(self):
        self.assertEqual(parse_amount("1,234.50"), 123450)
        self.assertEqual(parse_amount(" 12 "), 1200)
        self.assertEqual(parse_amount("-3.05"), -305)
        with self.assertRaises(ValueError):
            parse_amount("1.5")

    def test_line_total(self):
        self.assertEqual(line_total(3, 250, 0), 750)
        self.assertEqual(line_total(1, 250, 1), 248)

    def test_split(self):
        self.assertEqual(split(100, [1, 1]), [50, 50])
        self.assertEqual(split(100, [2, 1]), [67, 33])

    def test_due_date(self):
        self.assertEqual(due_date("2024-01-31", "net 1"), "2024-02-01")
        self.assertEqual(due_date("2024-03-12", "eom"), "2024-04-01")


if __name__ == "__main__":
    unittest.main()
