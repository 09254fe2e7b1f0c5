"""What the YAML files beside this one name: lm-eval before 0.4.12 looks for it in their folder alone."""

from deepgym_lmeval.task import DeepGymTask
from deepgym_lmeval.task import group_metrics as _group_metrics

__all__ = ["DeepGymTask", "aggregates"]

aggregates = _group_metrics()
