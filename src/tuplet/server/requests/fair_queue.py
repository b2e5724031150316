"""A row in which owners come in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from tuplet.server.requests.limits import TooBusy

T = TypeVar("T")


class FairQueue(Generic[T]):
    """What waits, by owner; owners come in turn. Where there is a limit, one owner has at most half of the row.

    >>> waiting = FairQueue[str]()
    >>> for owner, what in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")):
    ...     waiting.add(owner, what)
    >>> [waiting.take() for _ in range(4)], len(waiting)
    (['a1', 'b1', 'a2', 'a3'], 0)
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._by_owner: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return (what for own in self._by_owner.values() for what in own)

    def add(self, owner: str, what: T) -> None:
        """Put something at the end of what its owner has here; `TooBusy` where the row is full."""
        own = self._by_owner.get(owner, ())
        if self._most is not None and (self._count >= self._most or len(own) >= max(1, self._most // 2)):
            raise TooBusy(f"{self._count} requests are waiting already; try again in a moment")
        self._by_owner.setdefault(owner, deque()).append(what)
        self._count += 1

    def remove(self, owner: str, what: T) -> None:
        """Take something out of the middle."""
        own = self._by_owner[owner]
        own.remove(what)
        self._count -= 1
        if not own:
            del self._by_owner[owner]

    def take(self, may: Callable[[str], bool] = lambda owner: True) -> T | None:
        """The first of the next owner who may; the owner goes to the end of the row."""
        for owner, own in self._by_owner.items():
            if may(owner):
                self._count -= 1
                what = own.popleft()
                if own:
                    self._by_owner.move_to_end(owner)
                else:
                    del self._by_owner[owner]
                return what
        return None
