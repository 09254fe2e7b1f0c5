from bisect import bisect_left, insort


class RunningMedian:
    def __init__(self):
        self.values = []

    def add(self, value):
        insort(self.values, value)

    def remove(self, value):
        at = bisect_left(self.values, value)
        if at == len(self.values) or self.values[at] != value:
            return False
        del self.values[at]
        return True

    def median(self):
        middle = len(self.values) // 2
        if not self.values:
            return None
        if len(self.values) % 2:
            return float(self.values[middle])
        return (self.values[middle - 1] + self.values[middle]) / 2
