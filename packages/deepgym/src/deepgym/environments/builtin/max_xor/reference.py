def max_xor(numbers, limits):
    trie, out = {}, [0] * len(limits)
    waiting = sorted(numbers, reverse=True)
    for limit, index in sorted((limit, index) for index, limit in enumerate(limits)):
        while waiting and waiting[-1] <= limit:
            number, node = waiting.pop(), trie
            for bit in range(29, -1, -1):
                node = node.setdefault(number >> bit & 1, {})
        if not trie:
            out[index] = -1
            continue
        node, value = trie, 0
        for bit in range(29, -1, -1):
            wanted = 1 - (limit >> bit & 1)
            if wanted in node:
                value |= 1 << bit
            else:
                wanted = 1 - wanted
            node = node[wanted]
        out[index] = value
    return out
