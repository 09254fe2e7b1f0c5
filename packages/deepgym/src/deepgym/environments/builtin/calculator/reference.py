import re


def calculate(expression):
    tokens = re.findall(r"\d+|[-+*/()]", expression)[::-1]

    def factor():
        token = tokens.pop()
        if token == "-":
            return -factor()
        if token == "(":
            value = total()
            tokens.pop()
            return value
        return int(token)

    def product():
        value = factor()
        while tokens and tokens[-1] in "*/":
            if tokens.pop() == "*":
                value *= factor()
            else:
                divisor = factor()
                quotient = abs(value) // abs(divisor)
                value = quotient if (value < 0) == (divisor < 0) else -quotient
        return value

    def total():
        value = product()
        while tokens and tokens[-1] in "+-":
            value = value + product() if tokens.pop() == "+" else value - product()
        return value

    return total()
