"""What systemd is told, where it is asked for: one datagram, no library."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"


def tell_manager(state: str) -> None:
    """`READY=1`, `STOPPING=1` and their like; without a service manager, nothing."""
    address = os.environ.get(VARIABLE, "")
    if not address:
        return
    if state == "RELOADING=1":
        state += f"\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.send(state.encode())
