"""What a search may still use: time, memory and work."""

from __future__ import annotations

from tuplet.query.limits import NO_DEADLINE, Deadline, OutOfMemory

# Row entries looked at between two looks at the clock: some 30 ms on a slow machine.
SLICE = 60_000
# Entries a second on a slow machine, to size slices near a deadline.
SLOWEST = 2_000_000
COPIED = 5e8  # bytes a second, on a slow machine
EXPLAINED = 2e5  # tuples a second, on a slow machine
WAITING = 320  # bytes of a tuple that waits in a heap and is known in a set
_FIXED, _EACH = 64, 24  # bytes of a tuple that is found and of each variable of it, until it is in order and explained


def tuple_size(variables: int) -> int:
    """Bytes of a tuple that is found: the room it is written to, copies, the keys of its order."""
    return _FIXED + _EACH * variables


class Memory:
    """The bytes that the searches of one question hold together, and the most that they may."""

    def __init__(self, most: int | None) -> None:
        self.most, self.held = most, 0  # of state, and of what was found
        self.full = False  # one of them needs more than it may hold


class Effort:
    """Time, memory and work of one question; all its streams share it."""

    def __init__(self, deadline: Deadline = NO_DEADLINE, memory: int | None = None, work: int | None = None) -> None:
        self.deadline, self.memory, self.work = deadline, Memory(memory), work
        # The search ends a little before its time: the best so far still has to be sorted and explained.
        self.search = deadline.before(0.15, 0.6)
        self.used = 0  # work done

    def beside(self) -> Effort:
        """The effort of a look-up for the same question: it shares the memory, and its work does not count."""
        other = Effort(self.deadline)
        other.memory = self.memory
        return other

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
        size, most = self.memory.held + more, self.memory.most
        return (most is None or size <= most) and self.deadline.brake.may_hold(size)

    def fit_rows(self, rows: int, size: int) -> int:
        """How many of so many rows of some bytes each may be held: all, or a half, a quarter, … of them."""
        while rows and not self.room_for(rows * size):
            rows //= 2
        return rows

    def grow(self, more: int) -> bool:
        """Whether so many bytes more may be held; where they may not, `exceeded` says so from then on."""
        if not self.room_for(more):
            self.memory.full = True
        return not self.memory.full

    def hold(self, size: int) -> None:
        """So many bytes more are held; `OutOfMemory` where they may not be."""
        if not self.room_for(size):
            raise OutOfMemory
        self.memory.held += size

    def exceeded(self) -> str | None:
        """The limit that is reached, if any."""
        if self.search.over():
            return "timeout"
        if self.memory.full or not self.room_for(0):
            return "memory"
        if self.work is not None and self.used >= self.work:
            return "work"
        return None
