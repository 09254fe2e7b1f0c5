"""Sums of money."""


def calc(line, discount=0):
    """Cents of a line, less the discount in per cent, rounded down."""
    return line.qty * line.price * (100 - discount) // 100


def fmt(cents):
    """Cents as a text such as "1,234.50"."""
    sign = "-" if cents < 0 else ""
    return "%s%s.%02d" % (sign, format(abs(cents) // 100, ","), abs(cents) % 100)
