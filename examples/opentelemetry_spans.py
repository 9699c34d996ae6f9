"""OpenTelemetry: spans for each wait and each contact, below the span around the call."""

import asyncio
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import StatusCode, Tracer

from crawler import Contacted, Observer, PoliteSession, Waited


class Spans(Observer):
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def waited(self, seen: Waited) -> None:
        self._span("courtly.wait", seen, repr(seen.error) if seen.error else "")

    def contacted(self, seen: Contacted) -> None:
        self._span(f"courtly.{seen.kind}", seen, seen.sentence, status=seen.status or 0)

    def _span(self, name: str, seen: Waited | Contacted, error: str, **numbers: int) -> None:
        span = self._tracer.start_span(name, start_time=int(seen.started_at * 1e9))
        span.set_attributes({"url.full": seen.url, "server.address": seen.slot, **numbers})
        if error:
            span.set_status(StatusCode.ERROR, error)
        span.end(int((seen.started_at + seen.elapsed_s) * 1e9))


async def main(tracer: Tracer, url: str, user_agent: str, allow: str = "") -> None:
    async with PoliteSession(user_agent=user_agent, allow=allow, observer=Spans(tracer)) as session:
        with tracer.start_as_current_span("fetch"):
            await session.get(url)


if __name__ == "__main__":  # URL USER_AGENT
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    asyncio.run(main(provider.get_tracer("example"), *sys.argv[1:]))
