"""What a search may still use: time, memory and work."""

from __future__ import annotations

from tuplet.query.limits import NO_DEADLINE, Deadline

# Row entries looked at between two looks at the clock: some 30 ms on a slow machine.
SLICE = 60_000
# Entries a second on a slow machine, to size slices near a deadline.
SLOWEST = 2_000_000
COPIED = 5e8  # bytes a second, on a slow machine
EXPLAINED = 2e5  # tuples a second, on a slow machine
WAITING = 320  # bytes of a tuple that waits in a heap and is known in a set


class Effort:
    """Time, memory and work of one question; all its streams share it."""

    def __init__(self, deadline: Deadline = NO_DEADLINE, memory: int | None = None, work: int | None = None) -> None:
        self.deadline, self.memory, self.work = deadline, memory, work
        # The search ends a little before its time: the best so far still has to be sorted and explained.
        self.search = deadline.before(0.15, 0.6)
        self.used = 0  # work done
        self.held = 0  # bytes of state

    def slice(self, size: int) -> int:
        """How much of a slice may be used: not beyond the work left, and not far beyond the deadline."""
        if self.search.seconds is not None:
            size = min(size, SLICE + int(SLOWEST * self.search.left()))
        if self.deadline.brake.slice is not None:
            size = min(size, self.deadline.brake.slice)
        return size if self.work is None else max(1, min(size, self.work - self.used))

    def too_late_for(self, size: int) -> bool:
        """Whether copying so many bytes into a larger place would outlast the time."""
        return self.search.seconds is not None and size / COPIED >= self.search.left()

    def too_late_for_more(self, found: int) -> bool:
        """Whether explaining the tuples found until here needs the rest of the time."""
        return found / EXPLAINED >= self.search.left()

    def room_for(self, more: int) -> bool:
        """Whether so many bytes more may be held."""
        size = self.held + more
        return (self.memory is None or size <= self.memory) and self.deadline.brake.may_hold(size)

    def exceeded(self) -> str | None:
        """The limit that is reached, if any."""
        if self.search.over():
            return "timeout"
        if not self.room_for(0):
            return "memory"
        if self.work is not None and self.used >= self.work:
            return "work"
        return None
