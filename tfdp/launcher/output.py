"""What workers print: stored whole, shown with a prefix, and remembered for the report."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO, TextIO

TAIL_LINES = 400
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 16


class Printer:
    """Writes whole lines to one stream for many threads.

    Attributes:
      broken: whether the stream's reader has left.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.broken = False

    def line(self, text: str) -> None:
        """Shows one line; after a failure nothing is shown any more."""
        with self._lock:
            if self.broken:
                return
            try:
                self._stream.write(f"{text}\n")
                self._stream.flush()
            except (OSError, ValueError):  # a closed stream is a ValueError
                self.broken = True


class OutputReader(threading.Thread):
    """Reads one worker's output until it ends.

    Args:
      pipe: the output; closed at its end.
      log: the file that stores it, byte by byte.
      prefix: stands before each line that is shown.
      printer: shows the lines; None to show nothing.
    """

    def __init__(self, pipe: BinaryIO, log: Path, prefix: str, printer: Printer | None) -> None:
        super().__init__(name=f"output of {prefix}", daemon=True)
        self._pipe = pipe
        self._log = log
        self._prefix = prefix
        self._printer = printer
        self._partial = ""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def tail(self) -> list[str]:
        """The last lines so far, the one that has not ended yet included."""
        return [*self._tail, *([self._partial] if self._partial else [])]

    def run(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with self._pipe, open(self._log, "ab") as log:
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                with contextlib.suppress(OSError):  # a full disk must not block the worker's pipe
                    log.write(chunk)
                    log.flush()
                self._take(decoder.decode(chunk))
        self._take("\n" if self._partial else "")

    def _take(self, text: str) -> None:
        # Progress bars end with a carriage return, or go back over the line.
        *lines, self._partial = re.split("\r\n|\n|\r", self._partial + text)
        if len(self._partial) > _LONGEST_LINE:
            lines, self._partial = [*lines, self._partial], ""
        for line in lines:
            if visible := line.replace("\b", "").rstrip():
                self._tail.append(visible)
                if self._printer is not None:
                    self._printer.line(f"[{self._prefix}] {visible}")


_START = re.compile(r"(Traceback \(most recent call last\):|error: |Fatal Python error)")


def last_failure(lines: list[str], *, limit: int = 40) -> list[str]:
    """The end of an output: from the last traceback or error message on, or the last few lines."""
    starts = [number for number, line in enumerate(lines) if _START.match(line)]
    if not starts:
        return lines[-min(limit, 15) :]
    found = lines[starts[-1] :]
    return found if len(found) <= limit else [found[0], "...", *found[-(limit - 2) :]]


_STACK = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+ ")


def last_stack(lines: list[str], *, limit: int = 40) -> list[str]:
    """The stack of the main thread, which is the last to be written; else the last few lines."""
    starts = [number for number, line in enumerate(lines) if _STACK.match(line)]
    if not starts:
        return lines[-min(limit, 15) :]
    return lines[starts[-1] :][:limit]
