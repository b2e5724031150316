"""Several processes that train one model: started by `torchrun`, one for each GPU or for some processors.

The first process leads: it runs the training, reads and writes its folder, and says what comes next; the others follow.
Each owns a range of the rows of a large table.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from tuplet.errors import BadInput

_PATIENCE = timedelta(hours=2)  # while the leader measures, the others wait


class Command(IntEnum):
    """What comes next."""

    STEP = 0  # with its number
    COLLECT = 1  # all rows to the leader
    SPREAD = 2  # the rows of the leader to their owners
    END = 3


def is_follower() -> bool:
    """Whether this process follows another: it has nothing to say."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("RANK", "0") != "0"


@dataclass(frozen=True)
class ProcessGroup:
    """This process among the others."""

    rank: int
    size: int
    device: torch.device
    orders: Any  # the group that commands go through: on the CPU, whatever the rest does

    @staticmethod
    def joined(device: torch.device) -> ProcessGroup | None:
        """The group that `torchrun` started; None where a process trains alone."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return None
        from torch import distributed

        if not distributed.is_available():
            raise BadInput("this build of torch cannot train in several processes")
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(device)
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
        orders = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        return ProcessGroup(distributed.get_rank(), size, device, orders)

    @property
    def leads(self) -> bool:
        """Whether this process says what comes next."""
        return self.rank == 0

    def bounds(self, rows: int) -> list[int]:
        """Where the rows of each process begin, and the end. [size + 1]"""
        return [rows * rank // self.size for rank in range(self.size + 1)]

    def say(self, command: Command, number: int = 0) -> None:
        """Tell the others what comes next."""
        self._order(torch.tensor([int(command), number]))

    def listen(self) -> tuple[Command, int]:
        """What comes next."""
        heard = self._order(torch.zeros(2, dtype=torch.int64)).tolist()
        return Command(heard[0]), heard[1]

    def _order(self, order: Tensor) -> Tensor:
        from torch import distributed

        distributed.broadcast(order, 0, group=self.orders)
        return order

    def summed(self, part: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        from torch import distributed

        distributed.all_reduce(part)
        return part

    def together(self, mine: Tensor, counts: list[int]) -> Tensor:
        """The rows of all processes, one after the other; `counts` are how many each has. [n, width]"""
        from torch import distributed

        padded = mine.new_zeros(max(counts), *mine.shape[1:])
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def collect(self, mine: Tensor, whole: Tensor | None) -> None:
        """The rows of all processes into the `whole` of the leader, one process at a time."""
        from torch import distributed

        if whole is None:
            distributed.send(mine.contiguous(), 0)
            return
        bounds = self.bounds(len(whole))
        whole[: bounds[1]].copy_(mine)
        for rank in range(1, self.size):
            rows = torch.empty(bounds[rank + 1] - bounds[rank], *mine.shape[1:], dtype=mine.dtype, device=mine.device)
            distributed.recv(rows, rank)
            whole[bounds[rank] : bounds[rank + 1]].copy_(rows)

    def spread(self, mine: Tensor, whole: Tensor | None) -> None:
        """The rows of the leader's `whole` into `mine` of each process."""
        from torch import distributed

        if whole is None:
            distributed.recv(mine, 0)
            return
        bounds = self.bounds(len(whole))
        mine.copy_(whole[: bounds[1]])
        for rank in range(1, self.size):
            distributed.send(whole[bounds[rank] : bounds[rank + 1]].to(mine.device).contiguous(), rank)
