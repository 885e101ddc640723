"""What stands in for kube-proxy: a Service's cluster IP, forwarded to the Pods that are ready."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Coroutine

Address = tuple[str, int]


class Proxy:
    """Forwards connections, in a thread of its own; use as a context manager.

    An address without a Pod behind it refuses connections, as kube-proxy has it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._servers: dict[Address, asyncio.Server] = {}
        self._behind: dict[Address, list[Address]] = {}
        self._turns = itertools.count()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for address in list(self._servers):
            self.forward(address, [])
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def forward(self, address: Address, behind: list[Address]) -> None:
        """From now on, new connections to ``address`` go to those ``behind`` it, in turn."""
        if behind != self._behind.get(address, []):
            self._do(self._forward(address, behind))

    def _do(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _forward(self, address: Address, behind: list[Address]) -> None:
        self._behind[address] = behind
        if behind and address not in self._servers:
            self._servers[address] = await asyncio.start_server(
                lambda reader, writer: self._connect(address, reader, writer), *address
            )
        elif not behind and address in self._servers:
            self._servers.pop(address).close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        behind = self._behind[address]
        with contextlib.suppress(OSError, IndexError, asyncio.CancelledError):
            to = behind[next(self._turns) % len(behind)] if behind else behind[0]
            far_reader, far_writer = await asyncio.open_connection(*to)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
