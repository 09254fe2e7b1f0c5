def ordered(tasks, rules):
    left, order = sorted(tasks), []
    while left:
        ready = [task for task in left if not any(then == task and first in left for first, then in rules)]
        if not ready:
            return []
        order.append(ready[0])
        left.remove(ready[0])
    return order


def draw(rng):
    cases = [
        ([], []),
        (["b", "a"], [["a", "b"], ["b", "a"]]),
        (["c", "a", "b"], [["b", "a"], ["b", "a"]]),
        (["z", "y"], [["z", "y"]]),
    ]
    while len(cases) < 24:
        tasks = rng.sample("abcdefghij", rng.randint(4, 8))
        rules = []
        for _ in range(rng.randint(3, 9)):
            first, then = sorted(rng.sample(range(len(tasks)), 2))
            rules.append([tasks[first], tasks[then]])
        shown = list(tasks)
        rng.shuffle(shown)
        if ordered(shown, rules) not in (shown, sorted(shown)):
            cases.append((shown, rules))
    return [{"args": [tasks, rules], "expected": ordered(tasks, rules)} for tasks, rules in cases]
