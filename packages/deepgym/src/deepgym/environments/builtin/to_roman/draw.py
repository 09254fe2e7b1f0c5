def digit(value, one, five, ten):
    return [
        "",
        one,
        one * 2,
        one * 3,
        one + five,
        five,
        five + one,
        five + one * 2,
        five + one * 3,
        one + ten,
    ][value]


def roman(number):
    return (
        "M" * (number // 1000)
        + digit(number // 100 % 10, "C", "D", "M")
        + digit(number // 10 % 10, "X", "L", "C")
        + digit(number % 10, "I", "V", "X")
    )


def draw(rng):
    numbers = [1, 4, 9, 40, 3999]
    numbers += rng.sample([n for n in range(2, 3999) if n not in (4, 9, 40)], 19)
    return [{"args": [number], "expected": roman(number)} for number in numbers]
