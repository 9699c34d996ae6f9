"""Errors of the middleware are errors of aiohttp, and remain ours."""

from __future__ import annotations

import copy
import pickle
import traceback

import aiohttp
import pytest

from crawler.config import ConfigError
from crawler.embedding.middleware import Politeness, client_errors
from crawler.errors import CourtlyError, RobotsDisallowed, SessionClosed
from crawler.testing import LocalWeb, text
from tests.crawler.public_values import ERRORS

UA = "examplebot/1.0 (+https://example.com/bot)"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_becomes_one_of_aiohttp_with_the_same_content(error: CourtlyError) -> None:
    with pytest.raises(aiohttp.ClientError) as caught, client_errors():
        raise error from KeyError("cause")
    raised = caught.value
    assert isinstance(raised, type(error))
    assert (str(raised), raised.args) == (str(error), error.args)
    assert raised.__dict__ == error.__dict__
    assert isinstance(raised.__cause__, KeyError)
    assert traceback.format_exception_only(raised) == traceback.format_exception_only(error)
    for again in (copy.copy(raised), pickle.loads(pickle.dumps(raised))):
        assert type(again) is type(raised)
        assert (str(again), again.__dict__) == (str(raised), raised.__dict__)


def test_other_errors_pass_unchanged() -> None:
    for error in (aiohttp.ClientPayloadError("cut"), KeyError("a"), TimeoutError()):
        with pytest.raises(type(error)) as caught, client_errors():
            raise error
        assert caught.value is error


async def test_code_that_catches_the_errors_of_aiohttp_catches_ours() -> None:
    async with LocalWeb({"a.test": {"/robots.txt": text("User-agent: *\nDisallow: /p\n")}}) as web:
        config = web.config(politeness={"latency_factor": 0, "delay": 0})
        async with (
            Politeness(user_agent=UA, config=config) as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
        ):
            with pytest.raises(aiohttp.ClientError) as disallowed:
                await session.get(web.url("a.test", "/p"))
        async with aiohttp.ClientSession(middlewares=(polite,)) as session:
            with pytest.raises(aiohttp.ClientError) as closed:
                await session.get(web.url("a.test", "/p"))
    assert isinstance(disallowed.value, RobotsDisallowed)
    assert disallowed.value.verdict.line == 2
    assert isinstance(closed.value, SessionClosed)


async def test_a_config_that_forbids_the_request_is_both_kinds_of_error() -> None:
    async with (
        Politeness() as polite,
        aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
    ):
        with pytest.raises(aiohttp.ClientError) as caught:
            await session.get("http://example.com/")
    assert isinstance(caught.value, ConfigError)
    assert caught.value.problems
