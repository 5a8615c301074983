"""Messages between the front and its ranks: JSON objects, each after its length, over a Unix socket."""

from __future__ import annotations

import json
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

LENGTH = struct.Struct("<I")
Message = dict[str, Any]


def pack(message: Message) -> bytes:
    """A message as it travels."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(body)) + body


class Line:
    """A rank's end; several threads may send, one receives."""

    def __init__(self, address: str) -> None:
        """Connects to the front.

        Args:
            address: Abstract Unix address, without its leading zero byte.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(f"\0{address}")
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Sends a message."""
        with self._sending:
            self._socket.sendall(pack(message))

    def receive(self) -> Message | None:
        """The next message; None where the front has gone."""
        head = self._exactly(LENGTH.size)
        body = None if head is None else self._exactly(LENGTH.unpack(head)[0])
        if body is None:
            return None
        message: Message = json.loads(body)
        return message

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return bytes(data)


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message at the front's end.

    Raises:
        asyncio.IncompleteReadError: The rank has gone.
    """
    head = await reader.readexactly(LENGTH.size)
    message: Message = json.loads(await reader.readexactly(LENGTH.unpack(head)[0]))
    return message
