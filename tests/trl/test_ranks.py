"""Two processes, a group split between them, and an outage on one: the numbers of a single process."""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch

from deepgym_trl.masking import MASKED_ROWS

RANKS = Path(__file__).with_name("ranks")


def load(name: str, file: str) -> Any:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, RANKS / file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


lab = load("deepgym_trl_lab", "lab.py")
sys.modules.setdefault("lab", lab)
two_ranks = load("deepgym_trl_two_ranks", "two_ranks.py")

CASES: dict[str, list[Any]] = {"grpo": two_ranks.GRPO, "micro": two_ranks.MICRO, "rloo": two_ranks.RLOO}
STEPS = [(run, at) for run, cases in CASES.items() for at in range(len(cases))]
IDS = [f"{run}: {CASES[run][at].name}" for run, at in STEPS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def ranks(tiny_model: str, folder: Path) -> list[dict[str, Any]]:
    command = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    run = subprocess.run(
        [
            *command,
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"),
            *(str(RANKS / "two_ranks.py"), tiny_model, str(folder)),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in (0, 1)]


@pytest.fixture(scope="module")
def stocks(tiny_model: str, folder: Path) -> dict[str, Any]:
    made = {
        kind: lab.stock(kind, tiny_model, folder / "stock", **two_ranks.SIZES) for kind in ("grpo", "rloo")
    }
    return {**made, "micro": made["grpo"]}


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Both ranks' batches as one; they were padded to different lengths, prompts on the left."""
    whole = {}
    for name, first in parts[0].items():
        values = [part[name] for part in parts]
        if first.dim() == 2:
            width = max(value.shape[1] for value in values)
            left = name.startswith("prompt")
            values = [
                torch.nn.functional.pad(
                    value, (width - value.shape[1], 0) if left else (0, width - value.shape[1])
                )
                for value in values
            ]
        whole[name] = torch.cat(values) if first.dim() else first
    return whole


def judged(case: Any) -> Any:
    return torch.tensor([reward is not None for reward in case.rewards])


@pytest.mark.parametrize(("run", "at"), STEPS, ids=IDS)
def test_advantages_are_those_of_one_process(ranks: Any, run: str, at: int) -> None:
    case = CASES[run][at]
    left = [reward for reward in case.rewards if reward is not None]
    if run == "rloo":
        raw = [reward - (sum(left) - reward) / (len(left) - 1) for reward in left]
        values = [(value - statistics.fmean(raw)) / (statistics.stdev(raw) + 1e-4) for value in raw]
    else:
        values = [(reward - statistics.fmean(left)) / (statistics.stdev(left) + 1e-4) for reward in left]
    expected = iter(values)
    seen = joined([rank[run]["batches"][at] for rank in ranks])["advantages"].tolist()
    assert seen == pytest.approx(
        [0.0 if reward is None else next(expected) for reward in case.rewards], abs=1e-5
    )


@pytest.mark.parametrize(("run", "at"), STEPS, ids=IDS)
def test_the_gradient_is_that_of_one_process_and_the_judged_rows(
    ranks: Any, stocks: Any, run: str, at: int
) -> None:
    case, stock = CASES[run][at], stocks[run]
    gradients = [rank[run]["gradients"][at] for rank in ranks]
    assert torch.equal(*gradients)
    keep = judged(case)
    if not keep.any():
        assert float(gradients[0].abs().max()) == 0.0
        return
    batch = joined([rank[run]["batches"][at] for rank in ranks])
    settings = {name: value for name, value in case.settings.items() if name != "normalize_advantages"}
    rows = [(keep, 1.0)]
    if run == "grpo":
        # What is averaged by micro-batch counts by its judged rows; here a micro-batch is a rank's share.
        halves = [keep & (torch.arange(8) < 4), keep & (torch.arange(8) >= 4)]
        rows = [(half, float(half.sum() / keep.sum())) for half in halves if half.any()]
    tokens = int(lab.without(batch, keep).get("num_items_in_batch", 0)) or None
    expected = sum(
        expected_gradient(stock, lab.without(batch, half, tokens), settings, share) for half, share in rows
    )
    assert expected.norm() > 0.05
    torch.testing.assert_close(gradients[0], expected, rtol=1e-4, atol=1e-6)


def expected_gradient(stock: Any, rows: dict[str, Any], settings: dict[str, Any], share: float) -> Any:
    """TRL's gradient of a share of the rows, of which what is divided by the batch's tokens counts in full."""
    both = lab.stock_gradient(stock, stock.model, rows, settings)
    if settings.get("loss_type") != "dapo":
        return share * both
    if "entropy_coef" not in settings or lab.TRL < (1, 11):
        return both
    off = {**settings, "entropy_coef": 0.0, "_entropy_bonus_enabled": False}
    policy = lab.stock_gradient(stock, stock.model, rows, off)
    return policy + share * (both - policy)


@pytest.mark.parametrize(("run", "at"), STEPS, ids=IDS)
def test_the_share_of_masked_rows_is_logged_alike_on_every_rank(ranks: Any, run: str, at: int) -> None:
    rewards = CASES[run][at].rewards
    shares = [rank[run]["logs"][at][MASKED_ROWS] for rank in ranks]
    assert shares == [rewards.count(None) / 8] * 2


def test_a_rank_without_a_verdict_still_has_its_part_in_every_collective(ranks: Any, stocks: Any) -> None:
    at = [case.name for case in two_ranks.GRPO].index("dapo, a rank without a verdict")
    assert not ranks[1]["grpo"]["batches"][at]["tool_mask"].any()
    assert ranks[0]["grpo"]["batches"][at]["tool_mask"].all()
    # A model with random weights is nearly uniform. Below 1.9 TRL averages over ranks, this one's 0 among them.
    near = math.log(stocks["grpo"].model.config.vocab_size) / (2 if lab.TRL < (1, 9) else 1)
    assert [rank["grpo"]["logs"][at]["entropy"] for rank in ranks] == pytest.approx([near] * 2, rel=0.02)
