"""A service of several models: who is asked, and what is answered if that is not possible."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Collection

from keras_tying.serving.limits import Limits, read_body
from keras_tying.serving.replies import Reply, RequestError, error_reply, reply, status_reply
from keras_tying.serving.routes import parse_route

Ask = Callable[[str, str, bytes], Awaitable[Reply]]
"""Asks a model, by its name, to `"predict"` for the body of a request, or for its `"metadata"`."""
STATUS_SECONDS = 3.0
"""How long a model may take to answer until its status is that it cannot be asked."""


class Service:
    """Answers requests of HTTP as TensorFlow Serving does, without knowing where the models are.

    Args:
        models: Names of the models.
        ask: Asks a model, see `Ask`.
        limits: Limits of a request.
    """

    def __init__(self, models: Collection[str], ask: Ask, limits: Limits):
        self.models = models
        self.ask = ask
        self.limits = limits

    async def answer(
        self, method: str, path: str, chunks: AsyncIterable[bytes], content_length: str | None = None
    ) -> Reply:
        """The reply to a request.

        Args:
            method: `"GET"` or `"POST"`.
            path: The path of the address, without percent-encoding.
            chunks: The body in parts.
            content_length: The header of that name, if there is one.
        """
        try:
            route = parse_route(method, path)
            if route.action == "models":
                return reply({"models": list(self.models)})
            if route.model not in self.models:
                raise RequestError(404, f"Servable not found for request: Latest({route.model})")
            if route.action == "status":
                return await self._status(route.model)
            body = await read_body(chunks, content_length, self.limits) if route.action == "predict" else b""
        except RequestError as error:
            return error_reply(error.status, str(error))
        return await self.ask(route.model, route.action, body)

    async def _status(self, model: str) -> Reply:
        """The status of a model, or an error if it does not answer, such as one that is not loaded."""
        try:
            found = await asyncio.wait_for(self.ask(model, "metadata", b""), STATUS_SECONDS)
        except TimeoutError:
            return error_reply(503, f"{model} did not answer within {STATUS_SECONDS:g} seconds. Ask again later.")
        return status_reply() if found.status == 200 else found
