"""Asking from an event loop: the search runs beside it, and ends when nobody waits for it any more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

from tuplet.engines.given import judge
from tuplet.lang.ast import Query
from tuplet.query import ask as asking
from tuplet.query.answers import Answers
from tuplet.query.engine import Engine
from tuplet.query.limits import Brake, Deadline, LimitFields, Limits
from tuplet.query.question import Question
from tuplet.settings import keywords


class StoreAsync(ABC):
    """The part of a store that event loops use."""

    @abstractmethod
    def engine(self, name: str | None = None) -> Engine[Any]:
        """The engine of a name, loaded."""

    @abstractmethod
    def question(
        self,
        query: str | Query,
        grounding: Mapping[str, Any] | None = None,
        text: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> Question:
        """A query, parsed and bound to the names of this store."""

    @abstractmethod
    def _pages(
        self, question: Question, engine: Engine[Any], limits: Limits, brake: Brake | None = None
    ) -> Iterator[Answers]:
        """The answers page by page."""

    @keywords(Limits)
    async def ask_async(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> Answers:
        """What `ask` returns, without holding up the event loop; a task that is cancelled ends its search."""
        from asyncio import to_thread  # the command line asks without it, and starts faster

        wanted = Limits.of(limits, **fields)
        with _brake() as brake:

            def answer() -> Answers:
                runner, question = self.engine(engine), self.question(query, grounding, parameters=parameters)
                return asking.ask(question, runner, judge, wanted, Deadline(wanted.timeout, brake=brake))

            return await to_thread(answer)

    @keywords(Limits)
    async def stream_async(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> AsyncIterator[Answers]:
        """The pages of `stream`, each when it is found: `async for page in store.stream_async(query)`."""
        from asyncio import to_thread

        wanted = Limits.of(limits, **fields)
        with _brake() as brake:

            def begun() -> Iterator[Answers]:
                return self._pages(self.question(query, grounding), self.engine(engine), wanted, brake)

            pages = await to_thread(begun)
            while (page := await to_thread(next, pages, None)) is not None:
                yield page


@contextmanager
def _brake() -> Iterator[Brake]:
    """A brake that is pressed when the work is left early: a cancelled task, a loop over pages that was ended."""
    brake = Brake()
    try:
        yield brake
    finally:
        brake.stop()
