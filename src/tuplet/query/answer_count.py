"""The answer of a query that counts."""

from __future__ import annotations

from dataclasses import dataclass

from tuplet.progress import counted


@dataclass(frozen=True)
class AnswerCount:
    """How many distinct answers there are, and how many of them to expect to be true: the sum of their truth."""

    name: str
    answers: int
    expected: float
    complete: bool  # False: the search was stopped, there are at least so many

    def __str__(self) -> str:
        least = "" if self.complete else "at least "
        return f"{least}{counted(self.answers, 'answer')}; {least}{self.expected:,.6g} of them expected to be true"

    def rows(self) -> list[list[str]]:
        """A small table."""
        return [[self.name, "expected"], [f"{self.answers:,}", f"{self.expected:,.6g}"]]
