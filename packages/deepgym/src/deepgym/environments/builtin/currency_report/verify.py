from deepgym_verify import rng, solution

RATES = {"EUR": 108, "GBP": 127, "JPY": 1, "CHF": 113, "USD": 100}
REGIONS = ["north", "south", "east", "west", "islands"]


def sales():
    lines = []
    for _ in range(rng.randint(5, 15)):
        currency = rng.choice([*RATES, "XXX"])
        units = rng.choice([str(rng.randint(0, 500)), str(rng.randint(0, 500)), "-3", "1.5", "", "many"])
        lines.append(f"{rng.choice(REGIONS)},{currency},{units}")
    valid, invalid = (
        f"{rng.choice(REGIONS)},EUR,{rng.randint(1, 9)}",
        f"{rng.choice(REGIONS)},XXX,{rng.randint(1, 9)}",
    )
    return [*lines, valid, invalid]


def expected(lines):
    totals, rejected = {}, []
    for line in lines:
        region, currency, units = line.split(",")
        if currency in RATES and units and all(char in "0123456789" for char in units):
            totals[region] = totals.get(region, 0) + RATES[currency] * int(units)
        else:
            rejected.append(line)
    return {
        "totals.csv": "".join(f"{region},{totals[region]}\n" for region in sorted(totals)),
        "rejected.txt": "".join(line + "\n" for line in rejected),
    }


def mismatch(lines):
    """Why the files that the program left are wrong, or ``None``."""
    ran = solution.run(stdin="".join(line + "\n" for line in lines))
    if ran.exit_code != 0:
        return f"exit status {ran.exit_code}"
    for name, text in expected(lines).items():
        try:
            found = solution.read_file(name, limit=65536)
        except OSError:
            return f"{name} can't be read"
        if found != text.encode():
            return f"{name} differs"
    return None


def verify(solution):
    cases = []
    for index in range(10):
        problem = mismatch(sales())
        cases.append({"name": f"sales_{index}", "passed": problem is None, "message": problem or ""})
    passed = sum(case["passed"] for case in cases)
    return {"score": passed / len(cases), "passed": passed == len(cases), "cases": cases}
