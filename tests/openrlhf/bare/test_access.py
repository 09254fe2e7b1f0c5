"""Who may ask for a reward."""

from __future__ import annotations

import base64

import pytest

from deepgym_openrlhf.access import checked_token, is_loopback, may_enter


def basic(text: str, encoding: str = "latin-1") -> str:
    return "Basic " + base64.b64encode(text.encode(encoding)).decode()


@pytest.mark.parametrize(
    "header",
    [
        "Bearer s3cret",
        "bearer  s3cret",
        basic("user:s3cret"),
        basic("s3cret:"),
        basic("s3cret"),
        basic(":s3cret"),
    ],
)
def test_the_token_lets_in_from_anywhere(header: str) -> None:
    assert may_enter("s3cret", header, ("10.0.0.1", 80))


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer s3cre",
        "Bearer s3crett",
        "s3cret",
        "Digest s3cret",
        "Basic s3cret",
        "Basic ====",
        "Basic \xff",
        "Bearer \xff",
        basic("user:wrong"),
        basic("s3cret:wrong"),
        basic(":"),
        basic("\xff:\xff"),
    ],
)
def test_without_the_token_not_even_this_machine_gets_in(header: str | None) -> None:
    assert not may_enter("s3cret", header, ("127.0.0.1", 80))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"])
def test_an_endpoint_without_a_token_is_for_its_own_machine(host: str) -> None:
    assert is_loopback(host)
    assert may_enter(None, None, (host, 80))
    assert may_enter(None, None, [host, 80])


@pytest.mark.parametrize(
    "server",
    [("10.0.0.1", 80), ("0.0.0.0", 80), ("example.org", 80), ("::", 80), ("/a/socket", None), (), None, 7],
)
def test_and_for_nobody_else(server: object) -> None:
    assert not may_enter(None, "Bearer s3cret", server)


def test_a_password_may_hold_colons() -> None:
    assert may_enter("a:b", basic("user:a:b"), None)


@pytest.mark.parametrize("token", ["", " ", "a b", "geh\xe4im", "a\n", "a\x00"])
def test_a_token_that_keeps_nobody_out_or_cant_be_sent_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        checked_token(token)


def test_other_tokens_are_taken_as_they_are() -> None:
    assert checked_token(None) is None
    assert checked_token("p%40ss:w/rd?#") == "p%40ss:w/rd?#"
