"""A link between a node and the rest of its cluster, as a program of the test's own: late, with
losses, broken, cut in one direction, or with messages that are changed on their way. The kernel may
lack what does this to packets (netem), so it is done to the bytes of connections."""

import asyncio
import contextlib
import json
import random
import socket
import struct
import threading

HEAD = struct.Struct("=IIQ")  # of a frame: kind, nothing, bytes
WAYS = ("out", "in")  # from the node, and to it
SENT_AGAIN_AFTER_S = 0.2  # what a lost packet costs at least, as TCP of Linux has it
PIECE = 1 << 16
PIECES_UNDER_WAY = 64  # of a connection, each way: then its sender waits


class Connection:
    def __init__(self, writers, draws):
        self.writers, self.draws = writers, draws
        self.left = float("inf")  # bytes of both ways, and then it is reset
        self.has_lost = False  # bytes that the other side will never have

    def reset(self):
        for writer in self.writers:
            if ours := writer.get_extra_info("socket"):
                with contextlib.suppress(OSError):  # it is closed by now
                    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def close(self):
        for writer in self.writers:
            writer.close()


class Link:
    """A node that joins at `port` of 127.0.0.1 has all its connections here: to the coordinator at
    the port `of_coordinator`, to the other nodes, and theirs to it.

    `delay`, `jitter`, in seconds: each piece of bytes is late by the one and by a draw up to the
    other. `loss`: the part of the pieces that must be sent again. `resets`: so many connections are
    reset, each after a draw of bytes between those of `reset_after`. All draws come from `seed`, by
    the number of the connection. `changes` has fields for types of messages between the node and
    its coordinator, which are sent in place of the node's own.

    `carried`, `swallowed`: the bytes of each way. `has_reset`: connections."""

    def __init__(self, of_coordinator, delay=0.0, jitter=0.0, loss=0.0, resets=0,
                 reset_after=(500, 20_000), seed=1, changes=()):
        self.delay, self.jitter, self.loss, self.seed = delay, jitter, loss, seed
        self.resets, self.reset_after = resets, reset_after
        self.changes = dict(changes)
        self.carried, self.swallowed = dict.fromkeys(WAYS, 0), dict.fromkeys(WAYS, 0)
        self.has_reset = 0
        self._cut = {}  # way: "hold" or "swallow"
        self._servers, self._connections, self._ports = [], set(), {}
        self._count = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._run(self._listen(of_coordinator, WAYS, self._frames))

    def hold(self, way):
        """What is under way waits for heal(), as behind a cut that TCP outlives."""
        self._cut[way] = "hold"

    def swallow(self, way):
        """What is under way is gone, ends of connections with it: they are half open. With heal()
        those that have lost something are reset."""
        self._cut[way] = "swallow"

    def heal(self):
        self._run(self._heal())

    def reset(self):
        """All connections that there are."""
        self._run(self._reset(lambda _: True))

    def close(self):
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def _run(self, what):
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _heal(self):
        self._cut.clear()
        await self._reset(lambda connection: connection.has_lost)

    async def _reset(self, which):
        for connection in list(filter(which, self._connections)):
            connection.reset()
            self.has_reset += 1

    async def _end(self):
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self, to, ways, pieces):
        """The port whose connections are carried to the port `to`. `ways`: the first is that of the
        side that connects."""
        async def carry(reader, writer):
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._carry_both(reader, writer, to, ways, pieces)
        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def _carry_both(self, reader, writer, to, ways, pieces):
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", to)
        except OSError:
            return writer.transport.abort()
        self._count += 1
        connection = Connection([writer, other_writer],
                                random.Random(f"{self.seed} {self._count}"))
        if self._count <= self.resets:
            connection.left = connection.draws.randint(*self.reset_after)
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._carry(connection, ways[0], pieces(reader), other_writer),
                self._carry(connection, ways[1], pieces(other_reader), writer))
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _carry(self, connection, way, pieces, to):
        under_way = asyncio.Queue(PIECES_UNDER_WAY)

        async def take():
            due = 0.0
            with contextlib.suppress(OSError, EOFError):
                async for piece in pieces:
                    due = max(due, self._loop.time() + self._late(connection))
                    await under_way.put((due, piece))
            await under_way.put((due, b""))  # the end

        taking = asyncio.ensure_future(take())
        try:
            while True:
                due, piece = await under_way.get()
                await asyncio.sleep(due - self._loop.time())
                while self._cut.get(way) == "hold":
                    await asyncio.sleep(0.01)
                if self._cut.get(way) == "swallow":
                    self.swallowed[way] += len(piece)
                    connection.has_lost = True
                    if piece:
                        continue
                    return
                if not piece or connection.left == 0:  # the other way may have reset it
                    return connection.close()
                sent = piece[:int(min(connection.left, len(piece)))]
                to.write(sent)
                self.carried[way] += len(sent)
                connection.left -= len(sent)
                if connection.left == 0:
                    self.has_reset += 1
                    return connection.reset()
                await to.drain()
        except OSError:
            connection.close()
        finally:
            taking.cancel()

    def _late(self, connection):
        late = self.delay + connection.draws.uniform(0, self.jitter)
        return late + (SENT_AGAIN_AFTER_S if connection.draws.random() < self.loss else 0)

    async def _bytes(self, reader):
        while piece := await reader.read(PIECE):
            yield piece

    async def _frames(self, reader):
        """Of a connection to the coordinator."""
        while True:
            kind, _, size = HEAD.unpack(await reader.readexactly(HEAD.size))
            body = await reader.readexactly(size)
            if kind == 1 and body:  # only text has messages
                body = await self._changed(body)
            yield HEAD.pack(kind, 0, len(body)) + body

    async def _changed(self, body):
        message = json.loads(body)
        changes = dict(self.changes.get(message["type"], ()))
        if message["type"] in ("agent", "peer") and message["address"]:
            # Where other nodes reach this one, or this one another.
            ways = WAYS[::-1] if message["type"] == "agent" else WAYS
            port = await self._port_to(int(message["address"].rsplit(":", 1)[1]), ways)
            changes.setdefault("address", f"tcp://127.0.0.1:{port}")
        return json.dumps({**message, **changes}).encode() if changes else body

    async def _port_to(self, port, ways):
        if port not in self._ports:
            self._ports[port] = await self._listen(port, ways, self._bytes)
        return self._ports[port]
