"""Every error of a request passes through the API, whatever fields it has."""

from __future__ import annotations

import msgspec

from crawler.embedding.error_documents import document_of, error_of
from crawler.errors import FetchFailed
from crawler.fetching.request import Failure
from policies.holds import HoldReason
from policies.retries import FailureCode

NOT_SENT = {"started_s", "ended_s", "headers"}  # times of another clock; a site's own words


def failure(*, flag: bool) -> Failure:
    """One in which every field that is a flag has this value."""
    flags = {field.name: flag for field in msgspec.structs.fields(Failure) if field.type is bool}
    assert len(flags) >= 8
    return Failure(
        url="http://a.test/",
        code=FailureCode.DNS,
        sentence="the name does not exist",
        started_s=1.0,
        ended_s=3.0,
        status=503,
        ours=HoldReason.NETWORK,
        **flags,  # type: ignore[arg-type]
    )


def test_each_field_of_a_failure_arrives() -> None:
    for flag in (False, True):
        given = failure(flag=flag)
        document = document_of(FetchFailed("http://a.test/", given))
        encoded = msgspec.json.decode(msgspec.json.encode(document.attributes))
        document = msgspec.structs.replace(document, attributes=encoded)
        error = error_of(document, robots_txt=None, now_s=100.0)
        assert isinstance(error, FetchFailed)
        sent, got = msgspec.structs.asdict(given), msgspec.structs.asdict(error.failure)
        assert {name: got[name] for name in got if name not in NOT_SENT} == {
            name: sent[name] for name in sent if name not in NOT_SENT
        }
        assert error.failure.elapsed_s == given.elapsed_s
