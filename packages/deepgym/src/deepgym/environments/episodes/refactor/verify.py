"""The sources tell whether the steps were done, and running the program tells whether it still works.

An untouched program works, and earns nothing: what counts are the steps, as far as it still works.
"""

import ast
import json

from deepgym_verify import SolutionError, rng
from depot_model import Model, commands

SHELF = {"receive", "take", "level", "low"}
ORDERS = {"place", "cancel", "total", "open_orders"}
LIMIT, FILES = 1 << 16, 100
# Compiled files that the agent left don't count, whatever they say of their sources.
PYTHON = ["python3", "-X", "pycache_prefix=/tmp/compiled"]

# Uses what the steps made, by the new names; what it prints is compared, never believed.
PROBE = """
import json, sys
sys.path.insert(0, ".")
from depot.lines import Line
def pricing():
    from depot import format_cents, line_total
    from depot.pricing import format_cents as second, line_total as first
    line = Line("nut", NUMBER, 333)
    return [line_total(line), first(line, 7), format_cents(-123456789), second(5)]
def classes():
    from depot.core import Depot
    from depot.errors import DepotError
    from depot.orderbook import OrderBook
    from depot.stock import Stock
    stock, depot = Stock(), Depot()
    book = OrderBook(stock)
    found = [stock.receive("nut", NUMBER), stock.take("nut", 1), stock.low(NUMBER), stock.level("nut")]
    number = book.place([Line("nut", 3, 10), Line("nut", 1, 7)], 50)
    found += [number, stock.level("nut"), book.total(number), len(book.open_orders())]
    found += [book.cancel(number), stock.level("nut"), book.open_orders()]
    try:
        stock.take("nut", NUMBER)
    except DepotError as error:
        found.append(str(error))
    found += [depot.stock.receive("nut", 2), depot.book.place([Line("nut", 2, 2)]), depot.stock.level("nut")]
    return found + [type(depot.stock) is Stock, type(depot.book) is OrderBook]
def name():
    line = Line("nut", quantity=NUMBER, price=2)
    return [line.quantity, hasattr(line, "qty"), line.as_dict()]
result = globals()[sys.argv[1]]()
print()
print(json.dumps(result))
"""


def expected_of_probe(number):
    return {
        "pricing": [number * 333, number * 333 * 93 // 100, "-1,234,567.89", "0.05"],
        "classes": [
            *(number, number - 1, ["nut"], number - 1, 1, number - 5, 18, 1, None, number - 1, []),
            *("only %d of nut" % (number - 1), 2, 1, 0, True, True),
        ],
        "name": [number, False, {"sku": "nut", "qty": number, "price": 2}],
    }


def probed(work, step):
    """Whether the probe of a step gives what it must."""
    number = rng.randint(10, 10**6)
    source = PROBE.replace("NUMBER", str(number))
    ran = work.run([*PYTHON, "-c", source, step], timeout=5.0)
    try:
        return json.dumps(json.loads(ran.stdout.rstrip("\n").split("\n")[-1])) == json.dumps(
            expected_of_probe(number)[step]
        )
    except (ValueError, RecursionError):
        return False


def parsed(work):
    """The syntax trees of all Python files by path; ``AssertionError`` if one can't be read."""
    paths = [path for path in work.files() if path.endswith(".py")]
    assert len(paths) <= FILES, "too many Python files"
    trees = {}
    for path in paths:
        try:
            trees[path] = ast.parse(work.read(path, limit=LIMIT))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            raise AssertionError("%s can't be parsed" % path[:100]) from None
    return trees


def names(tree):
    """All identifiers of a file: what is defined, imported, used, or passed by keyword."""
    found = set()
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "arg", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.update(value.split("."))
    return found


def texts(nodes):
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def classes(trees):
    """``(path, class)`` of every class, nested ones too."""
    return [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]


def methods(node):
    found = {item.name for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for item in node.body:
        if isinstance(item, (ast.Assign, ast.AnnAssign)):
            found.update(part.id for part in ast.walk(item) if isinstance(part, ast.Name))
    return found


def modules(node):
    """The modules that an import statement names; of a relative one, the package's own."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {"depot" if node.level else (node.module or "").split(".")[0]}
    return set()


def pricing(trees):
    assert "depot/pricing.py" in trees, "there is no depot/pricing.py"
    assert "depot/util.py" not in trees, "depot/util.py is still there"
    tree = trees["depot/pricing.py"]
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert defined >= {"line_total", "format_cents"}, "depot/pricing.py doesn't define both functions"
    imported = set().union(*map(modules, ast.walk(tree)))
    assert "depot" not in imported, "depot/pricing.py imports of the package"
    for path, tree in trees.items():
        old = {"calc", "fmt", "util"} & (names(tree) | texts(ast.walk(tree)))
        assert not old, "%s still has %s" % (path[:100], sorted(old))


def two_classes(trees):
    wanted = {
        "Depot": ("depot/core.py", set()),
        "Stock": ("depot/stock.py", SHELF),
        "OrderBook": ("depot/orderbook.py", ORDERS),
    }
    found = {}
    for path, node in classes(trees):
        own = set()
        if node.name in wanted and path == wanted[node.name][0]:
            assert node.name not in found, "%s is defined twice" % node.name
            found[node.name] = node
            own = wanted[node.name][1]
            assert own <= methods(node), "%s lacks methods" % node.name
            assert not node.bases + node.keywords, "%s has a base class" % node.name
            assert not node.decorator_list, "%s is decorated" % node.name
        other = (SHELF | ORDERS) - own
        assert not other & methods(node), "%s has methods of another class" % node.name
    assert len(found) == 3, "not all three classes are there"
    assert "__getattr__" not in methods(found["Depot"]), "Depot hands on attributes"


def by_name(node):
    """Whether a node is a call of ``getattr`` or one of its kind."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id in ("getattr", "setattr", "hasattr", "delattr")


def a_name(trees):
    assert "depot/lines.py" in trees, "there is no depot/lines.py"
    for path, tree in trees.items():
        assert "qty" not in names(tree), "%s still has the name qty" % path[:100]
        for node in filter(by_name, ast.walk(tree)):
            assert "qty" not in texts(ast.walk(node)), "%s still gets qty" % path[:100]


def outcome(run, script):
    model = Model()
    wanted = [
        getattr(model, name)(*arguments) if hasattr(model, name) else "error: bad command %s" % name
        for name, *arguments in script
    ]
    return json.dumps(run(script)) == json.dumps(wanted)


def share_that_works(work):
    """The share of runs that give what they must, of both ways to run the program."""
    api, hung = work.function("depot.api", "run"), []

    def main(script):
        lines = "".join(json.dumps(command) + "\n" for command in script)
        ran = None if hung else work.run([*PYTHON, "-m", "depot"], stdin=lines, timeout=5.0)
        if ran is None or ran.timed_out:
            hung.append(True)
            raise ValueError("it doesn't end")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    right, ways = 0, [main] * 3 + [api] * 9
    for way in ways:
        script = list(commands(rng))
        try:
            right += outcome(way, script)
        except (SolutionError, ValueError, TypeError, RecursionError):
            pass
        except Exception as error:
            if not getattr(error, "from_solution", False):
                raise
    return right / len(ways)


def problem(work, check, step):
    try:
        check(parsed(work))
    except AssertionError as error:
        return str(error)
    return None if probed(work, step) else "what the step made doesn't work as described"


def verify(work):
    steps = {"pricing": pricing, "classes": two_classes, "name": a_name}
    problems = {step: problem(work, check, step) for step, check in steps.items()}
    share = share_that_works(work)
    cases = [
        {"name": step, "passed": message is None, "message": message or ""}
        for step, message in problems.items()
    ]
    message = "" if share == 1.0 else "%.0f%% of the runs give what they gave" % (100 * share)
    cases.append({"name": "behaviour", "passed": share == 1.0, "score": share, "message": message})
    done = sum(message is None for message in problems.values())
    return {"score": share * done / len(steps), "passed": share * done == len(steps), "cases": cases}
