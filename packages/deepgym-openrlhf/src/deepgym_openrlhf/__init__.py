"""DeepGym rewards for OpenRLHF. Importing this loads neither OpenRLHF, torch nor FastAPI."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .router import create_app, create_openrlhf_router

_PLACES = {"create_app": "router", "create_openrlhf_router": "router"}

__all__ = ["create_app", "create_openrlhf_router"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
