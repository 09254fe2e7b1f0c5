import heapq


def topological_order(tasks, rules):
    after = {task: set() for task in tasks}
    waits = dict.fromkeys(tasks, 0)
    for first, then in rules:
        if then not in after[first]:
            after[first].add(then)
            waits[then] += 1
    ready = [task for task in tasks if waits[task] == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        task = heapq.heappop(ready)
        order.append(task)
        for then in after[task]:
            waits[then] -= 1
            if waits[then] == 0:
                heapq.heappush(ready, then)
    return order if len(order) == len(tasks) else []
