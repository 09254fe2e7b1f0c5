"""Who may ask for a reward: whoever knows the token, or, without one, whoever is on this machine."""

from __future__ import annotations

import base64
import hmac
import ipaddress
from functools import lru_cache

__all__ = ["checked_token", "is_loopback", "may_enter"]


def checked_token(token: str | None) -> str | None:
    """``token`` if it can be sent in an address and kept from a stranger; ``None`` stands for none.

    Raises:
        ValueError: it is empty, or has characters that don't survive in a header.
    """
    if token is None or (token and token.isascii() and token.isprintable() and " " not in token):
        return token
    raise ValueError("token: at least one character, all of them visible ASCII; None for no token")


def may_enter(token: str | None, authorization: str | None, server: object) -> bool:
    """Whether a request may be answered.

    Args:
        token: The endpoint's; ``None`` if it has none, and then only its own machine may ask.
        authorization: The request's header: ``Bearer <token>``, or ``Basic`` with the token as the password
            (or as the user, with no password), which is what the trainer sends for ``http://user:<token>@host/``.
        server: The address that the request came in at, as ASGI's scope has it.
    """
    if token is None:
        host = server[0] if isinstance(server, (tuple, list)) and server else None
        return isinstance(host, str) and is_loopback(host)
    return hmac.compare_digest(_token(authorization or ""), token.encode())


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine alone."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _token(header: str) -> bytes:
    """What the header has for a token; nothing if it has none, and no endpoint's token is that."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "replace")
    if scheme.lower() != "basic":
        return b""
    try:
        user, _, password = base64.b64decode(value.strip(), validate=True).partition(b":")
    except ValueError:
        return b""
    return password or user
