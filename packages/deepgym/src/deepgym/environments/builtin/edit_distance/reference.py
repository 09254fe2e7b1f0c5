def edit_distance(left, right):
    before, last = None, list(range(len(right) + 1))
    for row, char in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (char != other))
            if row > 1 and column > 1 and char == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, last = last, current
    return last[-1]
