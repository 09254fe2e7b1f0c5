from __future__ import annotations

from typing import Any


class TokensPrompt(dict[str, Any]):
    pass
