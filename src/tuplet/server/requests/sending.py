"""What is on its way: the bytes of large answers, from the first that is written to the last that is read."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Protocol

from tuplet.server.requests.limits import TooBusy

LARGE = 1 << 18  # bytes of an answer that is sent in pieces; requests and answers beyond it are counted


class Sending:
    """How many bytes of large answers, or requests, are on their way; of one owner at most half of what there may be.

    >>> sending = Sending(100)
    >>> sending.takes("a", 40), sending.takes("a", 40), sending.takes("b", 40)
    (True, False, True)
    >>> sending.sent("a", 40)
    >>> sending.takes("a", 40)
    True
    """

    def __init__(self, most: int) -> None:
        self.most, self.owners = most, Counter[str]()
        self._turn = threading.Lock()  # answers are written in threads

    def takes(self, owner: str, size: int, already: int = 0) -> bool:
        """Whether there is room for one more, of which some bytes are counted `already`; then it counts until `sent`.

        Whoever has nothing else on its way may have one, however large.
        """
        with self._turn:
            own, all_ = self.owners[owner] - already, self.owners.total() - already
            if (own and own + size > self.most // 2) or (all_ and all_ + size > self.most):
                return False
            self._put(owner, own + size)
            return True

    def sent(self, owner: str, size: int) -> None:
        """It is gone, or its client is."""
        with self._turn:
            self._put(owner, self.owners[owner] - size)

    def _put(self, owner: str, size: int) -> None:
        if size:
            self.owners[owner] = size
        else:
            self.owners.pop(owner, None)

    def unread(self, owner: str) -> bool:
        """Whether so much of an owner's answers is not read that no other large one fits."""
        own = self.owners[owner]
        return own > 0 and own + LARGE > self.most // 2


class Asker(Protocol):
    """Who an answer is for: known once his key was looked at."""

    @property
    def asker(self) -> str: ...


class Outgoing:
    """One answer: its bytes count while it is written, too, so that no more is written than may be on its way."""

    def __init__(self, sending: Sending, request: Asker) -> None:
        self._sending, self._request = sending, request
        self._size = self._counted = 0
        self._closed = False
        self._turn = threading.Lock()  # it is written in a thread and closed in the loop

    def add(self, size: int) -> None:
        """So many bytes more are written; `TooBusy` where too many are on their way already."""
        self.settle(self._size + size)

    def settle(self, size: int) -> None:
        """It is so large, all in all."""
        self._size, counted = size, size if size > LARGE else 0
        with self._turn:
            if counted == self._counted:
                return
            if self._closed or not self._sending.takes(self._request.asker, counted, self._counted):
                raise TooBusy("too many large answers are on their way; try again in a moment")
            self._counted = counted

    def close(self) -> None:
        """Read, or refused, or nobody waits for it."""
        with self._turn:
            self._closed = True
            if self._counted:
                self._sending.sent(self._request.asker, self._counted)
                self._counted = 0
