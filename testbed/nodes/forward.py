"""Forwards ports of this machine's loopback to the same ports of a plane's loopback.

The script ``forward.py PID PORT...`` first listens on this machine, and then enters the network namespace of
process PID. A socket stays in the namespace in which it was created. So the script accepts connections from
this machine, and forwards them into the namespace.
"""

import asyncio
import os
import socket
import sys

INSIDE = "--inside"


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies data until one side closes the connection."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        return  # The other direction also fails, and the connection is closed.
    finally:
        writer.close()


async def serve(listeners: list[socket.socket]) -> None:
    """Accepts connections on every listener until the process is killed."""
    for listener in listeners:
        port = listener.getsockname()[1]

        async def connect(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = port
        ) -> None:
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()  # No program listens on the port yet.
                return
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

        await asyncio.start_server(connect, sock=listener)
    await asyncio.Event().wait()


def main() -> None:
    """Listens, enters the other network namespace, and forwards connections."""
    if sys.argv[1] == INSIDE:
        asyncio.run(serve([socket.socket(fileno=int(number)) for number in sys.argv[2:]]))
        return
    listeners = [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[2:]]
    for listener in listeners:
        listener.set_inheritable(True)
    numbers = [str(listener.fileno()) for listener in listeners]
    command = ["nsenter", f"--target={sys.argv[1]}", "--net", "--", sys.executable, "-S", __file__]
    os.execvp(command[0], [*command, INSIDE, *numbers])  # noqa: S606 - no argument comes from a user


if __name__ == "__main__":
    main()
