"""Who asks, where a proxy stands between: its word is taken only if it is known."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TypeAlias

from tuplet.errors import BadInput

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """Proxies whose `X-Forwarded-For` is believed, by address or network.

    A client can send that header too, so it is read from its end: what the last trusted proxy saw is the client.

    >>> proxies = TrustedProxies(["127.0.0.1", "10.0.0.0/8"])
    >>> proxies.client("127.0.0.1", "6.6.6.6, 203.0.113.9, 10.0.0.2")
    '203.0.113.9'
    >>> proxies.client("203.0.113.9", "127.0.0.1"), proxies.client("127.0.0.1", "unknown")
    ('203.0.113.9', '127.0.0.1')
    """

    def __init__(self, given: Sequence[str] = ()) -> None:
        try:
            self._networks: list[Network] = [ipaddress.ip_network(address) for address in given]
        except ValueError as error:
            raise BadInput(f"a proxy is an address such as 10.0.0.1 or 10.0.0.0/8: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._networks)

    def client(self, peer: str, forwarded: str) -> str:
        """Who sent a request that came from `peer`."""
        found = peer
        for address in reversed([word.strip() for word in forwarded.split(",") if word.strip()]):
            if not self._trusted(found):
                break
            try:
                found = str(ipaddress.ip_address(address))
            except ValueError:
                break
        return found

    def _trusted(self, address: str) -> bool:
        try:
            one = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(one in network for network in self._networks)


NO_PROXIES = TrustedProxies()
