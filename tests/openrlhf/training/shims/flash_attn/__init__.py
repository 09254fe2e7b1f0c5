"""Names that OpenRLHF imports from flash-attn, which can't be built without CUDA; it calls none of them here."""

from __future__ import annotations

__version__ = "2.8.3"
