"""The conversation of one worker with all others.

Each worker listens at its own address and calls every other one, so each pair is tried in both
directions. On a connection both sides say hello; once a worker has seen everybody, or knows that
something is wrong, it says so with a verdict, and a worker that is told of a problem takes it over.
A worker leaves when it has exchanged verdicts with everybody, or at the end of its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from tfdp.cluster.absence import Absence
from tfdp.cluster.rendezvous.agreement import disagreements, duplicate, excluded
from tfdp.cluster.rendezvous.messages import (
    MAX_BYTES,
    Hello,
    MessageError,
    Verdict,
    decode_hello,
    decode_verdict,
    encode_hello,
    encode_verdict,
)
from tfdp.cluster.rendezvous.sockets import NameProblemError, connect, listener
from tfdp.cluster.tf_config import ClusterInfo

_HELLO_SECONDS = 5.0
_TWIN_SECONDS = 1.0
_RETRY_SECONDS = (0.05, 0.5)
_EXCLUDED_SECONDS = 2.0
"""For telling a worker that others do without that they do: it may be just starting."""

_BROKEN = (OSError, MessageError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
"""What a connection may end with; `TimeoutError` is an `OSError`."""


class Meeting:
    """One worker's side of a rendezvous; `run` it once.

    Args:
      cluster: the group, and which of it this process is.
      facts: what must be equal on all workers.
      timeout_seconds: for everything together.
    """

    def __init__(
        self, cluster: ClusterInfo, facts: Mapping[str, str], timeout_seconds: float
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._own = Hello(cluster.index, uuid.uuid4().hex, cluster.workers, facts)
        self._peers = [i for i in range(len(cluster.workers)) if i != cluster.index]
        self._called: dict[int, Hello] = {}
        self._heard: dict[str, Hello] = {}
        self._reasons: dict[int, str] = {}
        self._problems: list[str] = []
        self._without = Absence()
        self._talking = 0
        self._connections = 0
        self._exchanged: set[int] = set()
        self._decided = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self) -> Verdict:
        """Meets the others; returns what is wrong, nothing if all is well."""
        end = asyncio.get_running_loop().time() + self._timeout
        server = await self._listen()
        tasks = [asyncio.create_task(self._call(index)) for index in self._peers]
        if self._peers:
            tasks.append(asyncio.create_task(self._call_own_address()))
        try:
            # The last part of the time is for telling each other what has come of it.
            await self._until(self._everybody_is_here, end - min(1.0, self._timeout / 4))
            self._decide()
            soon = min(end, asyncio.get_running_loop().time() + _EXCLUDED_SECONDS)
            await self._until(lambda: self._everybody_knows(self._without.absent), soon)
            await self._until(self._everybody_knows, end)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if server is not None:
                server.close()
        if not self._everybody_knows():
            self._note(*self._absences())
        return self._verdict()

    # --- what is known

    def _everybody_is_here(self) -> bool:
        heard = self._heard_indexes()
        return bool(self._problems) or all(i in self._called and i in heard for i in self._peers)

    def _everybody_knows(self, missing: AbstractSet[str] | None = None) -> bool:
        # Who is known to be missing is not waited for any more.
        if missing is None:
            missing = self._without.absent | self._without.excluded
        awaited = (i for i in self._peers if self._cluster.workers[i] not in missing)
        return self._exchanged.issuperset(awaited) and self._talking == 0

    def _decide(self) -> None:
        # A worker that was told of a problem may not have seen everybody yet: what it would say
        # about differences would be another half of the same sentence.
        if not self._problems:
            absences = [] if self._everybody_is_here() else self._absences()
            seen = (self._own, *self._called.values(), *self._heard.values())
            workers = self._cluster.workers
            absent = {workers[i] for i in self._peers if i not in self._called} if absences else ()
            self._without = Absence(frozenset(absent), excluded(seen))
            self._note(*disagreements({hello.nonce: hello for hello in seen}.values()), *absences)
        self._decided.set()

    def _absences(self) -> list[str]:
        """A sentence for each worker that has not been seen in both directions, or has left."""
        missing = [index for index in self._peers if index not in self._exchanged]
        return [problem for index in missing if (problem := self._absence(index)) is not None]

    def _absence(self, index: int) -> str | None:
        who = self._who(index)
        if index not in self._called:
            reason = self._reasons.get(index, "no answer")
            if reason.startswith("the name"):
                return f"{who}: {reason}"
            return f"{who} did not come within {self._timeout:g} s ({reason})"
        if index not in self._heard_indexes():
            return (
                f"{who} can be reached from worker {self._own.index}, but did not reach it at "
                f"{self._cluster.address}"
            )
        return f"{who} left before all had agreed to start" if self._decided.is_set() else None

    def _who(self, index: int) -> str:
        return f"worker {index} ({self._cluster.workers[index]})"

    def _heard_indexes(self) -> set[int]:
        return {self._index_of(hello) for hello in self._heard.values()}

    def _index_of(self, caller: Hello) -> int:
        """Its index in this worker's list, which the caller's own list may not share."""
        address = caller.workers[caller.index]
        workers = self._cluster.workers
        return workers.index(address) if address in workers else caller.index

    def _note(self, *problems: str) -> None:
        self._problems += [p for p in dict.fromkeys(problems) if p not in self._problems]
        self._changed.set()

    async def _until(self, done: Callable[[], bool], deadline: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()

    # --- listening

    async def _listen(self) -> asyncio.Server | None:
        try:
            sock = listener(self._cluster.workers, self._cluster.index)
        except OSError as error:
            self._note(await self._why_not(error))
            return None
        return await asyncio.start_server(self._answer, sock=sock, limit=MAX_BYTES)

    async def _why_not(self, error: OSError) -> str:
        who = self._who(self._own.index)
        if error.errno != errno.EADDRINUSE:
            return f"{who} cannot listen at its port: {os.strerror(error.errno or 0)}"
        with contextlib.suppress(*_BROKEN):
            async with asyncio.timeout(_TWIN_SECONDS):
                reader, writer = await connect(self._cluster.address)
                with contextlib.closing(writer):
                    writer.write(encode_hello(self._own))
                    twin = decode_hello(await reader.readuntil())
                    if twin.index == self._own.index:
                        return duplicate(twin.index)
        return f"{who} cannot listen: another program on its host uses the port"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A caller; what is no tfdp worker is left alone, as anybody may knock at a port."""
        self._connections += 1
        try:
            with contextlib.suppress(*_BROKEN):
                if self._connections > 4 * len(self._cluster.workers) + 16:
                    return
                async with asyncio.timeout(_HELLO_SECONDS):
                    hello = decode_hello(await reader.readuntil())
                writer.write(encode_hello(self._own))
                if hello.nonce == self._own.nonce:
                    return
                self._heard[hello.nonce] = hello
                index = self._index_of(hello)
                if index == self._own.index:
                    self._note(duplicate(index))
                try:
                    await self._exchange(reader, writer, index)
                finally:
                    if not self._decided.is_set():
                        del self._heard[hello.nonce]
        finally:
            self._connections -= 1
            writer.close()

    # --- calling

    async def _call(self, index: int) -> None:
        """Calls one worker until verdicts are exchanged; cancelled when the meeting ends."""
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                reader, writer = await connect(self._cluster.workers[index])
                with contextlib.closing(writer):
                    hello = await self._greet(reader, writer)
                    self._check_answer(index, hello)
                    self._called[index] = hello
                    await self._exchange(reader, writer, index)
                    return
            except _BROKEN as error:
                self._reasons[index] = _reason(error, self._cluster.workers[index])
                if not self._decided.is_set():
                    self._called.pop(index, None)
            await asyncio.sleep(pause)
            pause = min(longest, 2 * pause)

    async def _call_own_address(self) -> None:
        """Finds another process that sits at this worker's address, on another host than this one.

        That the own address cannot be reached is no fault: some networks do not allow it.
        """
        while True:
            with contextlib.suppress(*_BROKEN):
                reader, writer = await connect(self._cluster.address)
                with contextlib.closing(writer):
                    hello = await self._greet(reader, writer)
                    if hello.nonce != self._own.nonce:
                        self._check_answer(self._own.index, hello)
                        self._note(duplicate(self._own.index))
                        await self._exchange(reader, writer, self._own.index)
                    return
            await asyncio.sleep(_RETRY_SECONDS[1])

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Hello:
        writer.write(encode_hello(self._own))
        async with asyncio.timeout(_HELLO_SECONDS):
            return decode_hello(await reader.readuntil())

    def _check_answer(self, index: int, hello: Hello) -> None:
        if hello.nonce == self._own.nonce:
            self._note(
                f"the addresses of workers {min(index, hello.index)} and {max(index, hello.index)} "
                "lead to the same process"
            )
        elif hello.index != index and hello.workers == self._cluster.workers:
            self._note(f"at the address of {self._who(index)} answers worker {hello.index}")

    # --- both

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, index: int
    ) -> None:
        self._talking += 1
        self._changed.set()
        tell = asyncio.create_task(self._tell(writer))
        try:
            await self._be_told(reader)
            await tell
            self._exchanged.add(index)
        finally:
            tell.cancel()
            self._talking -= 1
            self._changed.set()

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        await self._decided.wait()
        writer.write(encode_verdict(self._verdict()))
        await writer.drain()

    async def _be_told(self, reader: asyncio.StreamReader) -> None:
        verdict = decode_verdict(await reader.readuntil())
        self._without = Absence(
            self._without.absent | verdict.absence.absent,
            self._without.excluded | verdict.absence.excluded,
        )
        self._note(*verdict.problems)

    def _verdict(self) -> Verdict:
        return Verdict(tuple(self._problems), self._without)


def _reason(error: Exception, address: str) -> str:
    host = address.rpartition(":")[0]
    if isinstance(error, NameProblemError):
        return f'the name "{host}" does not resolve ({error})'
    if isinstance(error, asyncio.IncompleteReadError) and not error.partial:
        return "it closed the connection"
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, OSError):
        return os.strerror(error.errno).lower() if error.errno else str(error)
    return "another program answers there"
