"""Objects of an S3-style store: signed with botocore, requested with httpx.

AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… python examples/s3_objects.py \
    "examplebot/1.0 (+https://example.com/bot)" https://bucket.s3.us-east-1.amazonaws.com/key
"""

import asyncio
import os
import sys
from typing import Any

import httpx
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from crawler import PoliteSession


def signed(url: str, user_agent: str) -> dict[str, str]:
    key = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    request = AWSRequest("GET", url, headers={"User-Agent": user_agent})
    S3SigV4Auth(key, "s3", os.environ.get("AWS_REGION", "us-east-1")).add_auth(request)
    return dict(request.headers)


async def main(user_agent: str, *urls: str, **options: Any) -> None:
    polite = PoliteSession(user_agent=user_agent, **options)
    async with polite as session, httpx.AsyncClient() as client:
        for url in urls:
            async with session.permit(url) as permit:  # sign inside it: signatures expire
                headers = signed(permit.url, user_agent)
                response = await client.get(permit.url, headers=headers)
                permit.record(response.status_code, response.headers)  # such as 503 SlowDown
            print(response.status_code, url, len(response.content))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
