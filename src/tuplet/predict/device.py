"""Where torch computes, and how: the device, the precision of its products, its settings on the CPU, optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import unwrap
from typing import TypeVar

import torch
from torch.optim import Optimizer

from tuplet.errors import BadInput, Option

Item = TypeVar("Item")
Result = TypeVar("Result")

SHARED_FROM = 200_000_000  # multiplications of a step from which several threads pay


def pick_device(device: str | torch.device) -> torch.device:
    """`auto` is the GPU if there is one; asking for a GPU that is not there is an error."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise BadInput(f"unknown device {str(device)!r}; choose auto, cpu, cuda or cuda:N") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise BadInput("no CUDA device is available here; choose ", Option("device", "cpu"))
    return chosen


def device_name(device: torch.device) -> str:
    """The device as people call it.

    >>> device_name(torch.device("cpu"))
    'the CPU'
    """
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"


@contextmanager
def precision(name: str, device: torch.device, bilinear: bool = True) -> Iterator[None]:
    """The precision of matrix products on CUDA: float32, tf32, bf16, or auto, which is tf32 where it is safe.

    On the CPU it is float32. Models whose scores are no product (`bilinear` is false) subtract nearly equal numbers:
    tf32 would leave noise where the small distances are.
    """
    if device.type != "cuda":
        yield
        return
    tf32 = name == "tf32" or (name == "auto" and bilinear)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        with torch.autocast("cuda", torch.bfloat16, enabled=name == "bf16"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def tune_cpu(device: torch.device, products: int) -> Iterator[None]:
    """Settings of torch for training on the CPU, put back afterwards; `products` are the multiplications of a step.

    Numbers near zero make steps up to 20 times slower unless they are flushed to zero. Steps of a small graph are too
    short to share: several threads gain nothing on an idle machine and wait for each other on a busy one.
    """
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_flush_denormal(True)
    torch.set_num_threads(1 if products < SHARED_FROM else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results of all items in their order; what has not begun when the reader stops is left undone.

    Each of several workers is a thread that torch does not divide further: the steps of this work are too short to be
    shared, and threads that wait for each other at every one cost more than they bring.
    """
    if workers <= 1:
        yield from map(work, items)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread where steps are too short to be shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Uncompiled(Optimizer):
    """An optimizer of torch without its compiler.

    An optimizer imports the compiler of torch when it is made, to tell it to keep out: two seconds at the start of
    every training, for something that is not used here. These have the same methods as they are inside.
    """

    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)


class Adagrad(_Uncompiled, torch.optim.Adagrad):
    """Adagrad."""

    step = torch.no_grad()(unwrap(torch.optim.Adagrad.step))


class Adam(_Uncompiled, torch.optim.Adam):
    """Adam."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class AdamW(_Uncompiled, torch.optim.AdamW):
    """Adam with decoupled weight decay."""

    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))
