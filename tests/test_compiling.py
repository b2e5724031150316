"""Whoever waits for kernels to be compiled is told, once; kernels that are ready are used in silence."""

from numba import njit

from tuplet.progress import ONCE, announce_compiling


def test_the_first_of_several_kernels_is_told() -> None:
    said: list[str] = []
    one, other = njit(lambda x: x + 1), njit(lambda x: x - 1)
    with announce_compiling(said.append):
        assert said == []
        assert (one(1), other(1)) == (2, 0)
        assert said == [ONCE]
    with announce_compiling(said.append):
        assert (one(2), other(2)) == (3, 1)
    assert said == [ONCE]
