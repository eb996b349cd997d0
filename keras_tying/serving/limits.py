"""Limits of requests."""

from collections.abc import AsyncIterable
from dataclasses import dataclass, fields

from keras_tying.checks import check_integer
from keras_tying.serving.replies import RequestError


@dataclass(frozen=True)
class Limits:
    """Limits of a request. One that is beyond them is refused with the status 413.

    The size of an answer has a limit of its own, `keras_tying.serving.signatures.LARGEST_ANSWER`.

    Attributes:
        request_bytes: Size of the body.
        sentences: Rows.
        characters: Length of a text.
        words: Words that are asked for: `k` and `length`.

    Raises:
        ValueError: If a limit is below 1.
    """

    request_bytes: int = 256 * 1024
    sentences: int = 128
    characters: int = 4000
    words: int = 256

    def __post_init__(self):
        for field in fields(self):
            check_integer(field.name, getattr(self, field.name))


async def read_body(chunks: AsyncIterable[bytes], declared: str | None, limits: Limits) -> bytes:
    """The body of a request, read no further than its limit.

    Args:
        chunks: The body in parts.
        declared: The header `content-length`, if there is one.
        limits: See `Limits`.

    Raises:
        RequestError: With the status 413, if the body is too large.
    """
    most = limits.request_bytes
    error = RequestError(413, f"The body of a request has at most {most:,} bytes. Send several requests.")
    if declared is not None and declared.isdecimal() and float(declared) > most:
        raise error
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > most:
            raise error
    return bytes(body)
