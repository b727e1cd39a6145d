"""How several workers share the reading: chosen by what the source is, and said with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from tfdp.data.sources.base import RowSource, Source, StreamSource
from tfdp.errors import DataError


@dataclass(frozen=True)
class Policy:
    """How the workers share one source.

    Attributes:
      name: "data": all make the same tickets and read their own; "file": each reads whole files of
        its own; "off": each worker's source is its own already.
      reason: why, in a sentence without its full stop.
    """

    name: str
    reason: str

    @property
    def own(self) -> bool:
        """Whether a worker's batches are its own, so that the order depends on the workers."""
        return self.name != "data"

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def choose_policy(source: Source, asked: str = "auto") -> Policy:
    """The policy for a source.

    Args:
      source: what to share.
      asked: "auto", "data", "file" or "off", as in ``data.shard``.

    Raises:
      DataError: "file" for a source without files to share.
    """
    if asked == "off":
        return Policy("off", "data.shard is off: each worker trains on examples of its own")
    if source.per_worker and asked == "auto":
        return Policy("off", "the file pattern names {worker}: each worker has files of its own")
    if isinstance(source, RowSource):
        if asked == "file":
            raise DataError(
                f"data.shard is file, but {source.place} are rows that can be read in any order, "
                "not files that are read from front to back.",
                hint="Set data.shard: auto; each worker then reads its own rows alone.",
            )
        return Policy("data", "rows can be read in any order: each worker reads its own alone")
    if not isinstance(source, StreamSource):
        raise TypeError(f"{type(source).__name__} is neither a RowSource nor a StreamSource")
    files = len({source.file_of(segment) for segment in range(source.segments)})
    if asked == "file":
        return Policy(
            "file", f"data.shard is file: the workers share {files} files, and the order of the "
            "examples depends on the number of workers"
        )  # fmt: skip
    return Policy(
        "data",
        f"each worker reads the bytes of all {files} files and parses its own examples alone, so "
        "that the order is the same for any number of workers",
    )
