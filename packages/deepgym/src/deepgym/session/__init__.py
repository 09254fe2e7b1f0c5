"""Sessions: episodes in which an agent acts, and the contract's rule for what goes wrong in them."""

from __future__ import annotations

from deepgym.session.agents import Action, Agent, ScriptedAgent
from deepgym.session.chat import ChatAgent
from deepgym.session.episode import run_episode, run_episodes
from deepgym.session.failures import failure_result
from deepgym.session.journal import Journal, read_trajectories
from deepgym.session.records import Observation, Reply, Trajectory, Turn
from deepgym.session.session import AsyncSession

__all__ = [
    "Action",
    "Agent",
    "AsyncSession",
    "ChatAgent",
    "Journal",
    "Observation",
    "Reply",
    "ScriptedAgent",
    "Trajectory",
    "Turn",
    "failure_result",
    "read_trajectories",
    "run_episode",
    "run_episodes",
]
