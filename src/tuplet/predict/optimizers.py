"""torch's optimizers, without its compiler.

An optimizer of torch imports the compiler of torch when it is made, to tell it to keep out: two seconds at the start of
every training, for something that is not used here. These are the same, with those methods as they are inside.
"""

from __future__ import annotations

from inspect import unwrap

import torch
from torch.optim import Optimizer


class _Uncompiled(Optimizer):
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
