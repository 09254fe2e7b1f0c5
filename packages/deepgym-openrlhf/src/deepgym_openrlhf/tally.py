"""What an endpoint has done so far, for ``/metrics``."""

from __future__ import annotations

from collections import Counter

from deepgym.models import RunResult

__all__ = ["Tally"]


class Tally:
    """Counters since the start. Belongs to one event loop."""

    def __init__(self) -> None:
        self.requests = 0
        self.empty = 0
        self.refused = 0
        self.reattached = 0
        self.unreadable = 0
        self.again = 0
        self.judged = 0
        self.passed = 0
        self.none: Counter[str] = Counter()
        self.seconds = 0.0

    def count(self, result: RunResult, seconds: float) -> None:
        """Count one sample and how long it took."""
        self.seconds += seconds
        if result.has_verdict:
            self.judged += 1
            self.passed += result.passed
        else:
            self.none[result.error_type or "other"] += 1

    @property
    def samples(self) -> int:
        """Samples that were answered."""
        return self.judged + self.none.total()

    def text(self, **gauges: float) -> str:
        """All of it as Prometheus reads it."""
        counters = {
            "requests": self.requests,
            "empty_requests": self.empty,
            "refused_requests": self.refused,
            "reattached_requests": self.reattached,
            "samples": self.samples,
            "judged_samples": self.judged,
            "passed_samples": self.passed,
            "ungradable_samples": self.unreadable,
            "graded_again": self.again,
        }
        lines = []
        for name, value in counters.items():
            lines += [f"# TYPE deepgym_{name}_total counter", f"deepgym_{name}_total {value}"]
        lines.append("# TYPE deepgym_no_verdict_total counter")
        lines += [
            f'deepgym_no_verdict_total{{error_type="{kind}"}} {count}' for kind, count in self.none.items()
        ]
        lines += ["# TYPE deepgym_sample_seconds_total counter"]
        lines.append(f"deepgym_sample_seconds_total {self.seconds:.6f}")
        for name, gauge in gauges.items():
            lines += [f"# TYPE deepgym_{name} gauge", f"deepgym_{name} {gauge:g}"]
        return "\n".join(lines) + "\n"
