"""The local sandbox: Linux namespaces around forked children of a warm interpreter."""

from __future__ import annotations

from .provider import LocalProvider

__all__ = ["LocalProvider"]
