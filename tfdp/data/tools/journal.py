"""What a folder of shards holds: a journal while it is made, a manifest when it is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfdp.data.tools.shards import PARTIAL, Shard, Written, digest_of
from tfdp.errors import RunError

MANIFEST = "manifest.json"
JOURNAL = ".convert.json"
FORMAT_VERSION = 1


class Journal:
    """Which shards of a conversion are finished.

    Args:
      folder: of the shards; made if it is missing.
      job: what is converted, and how: a folder belongs to one job.
      shards: all there will be.

    Raises:
      RunError: the folder holds something else, or cannot be written.
    """

    def __init__(self, folder: Path, job: Mapping[str, Any], shards: Sequence[Shard]) -> None:
        self._folder = folder
        self._job = json.loads(json.dumps(job))
        self._shards = shards
        self.finished: dict[int, Written] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._look()
        except OSError as error:
            raise RunError(f"{folder}: cannot be used: {error.strerror}.") from error

    def add(self, shard: Shard, written: Written) -> None:
        """Notes a finished shard."""
        self.finished[shard.number] = written
        self._save(JOURNAL, {"job": self._job, "shards": self._listed()})

    def abandon(self) -> None:
        """Removes all that was written: it has turned out to be wrong."""
        for number in self.finished:
            (self._folder / self._shards[number].name).unlink(missing_ok=True)
        (self._folder / JOURNAL).unlink(missing_ok=True)
        self.finished.clear()

    def complete(self, reading: Mapping[str, Any]) -> Path:
        """Writes the manifest, and drops the journal.

        Args:
          reading: what the source ``tfrecord`` needs to read the shards back.
        """
        path = self._save(
            MANIFEST,
            {
                "version": FORMAT_VERSION,
                "rows": sum(each.rows for each in self.finished.values()),
                **reading,
                "shards": self._listed(),
                "job": self._job,
            },
        )
        (self._folder / JOURNAL).unlink(missing_ok=True)
        return path

    def _look(self) -> None:
        """Finds out what is there, and keeps the shards that are as they were written."""
        known = {shard.name: shard for shard in self._shards}
        found = sorted(path.name for path in self._folder.iterdir())
        notes = [name for name in (JOURNAL, MANIFEST) if name in found]
        left = [name for name in found if name.startswith(".part-") and name.endswith(PARTIAL)]
        strange = set(found) - set(known) - {JOURNAL, MANIFEST} - set(left)
        if strange or (found and not notes):
            raise self._refused(f"holds {sorted(strange or found)[0]!r}, which is not of this job")
        for name in notes:
            content = self._read(name)
            if content.get("job") != self._job:
                raise self._refused(f"holds another conversion ({_difference(content, self._job)})")
            self._keep(content.get("shards", []), known)
        for name in left:
            (self._folder / name).unlink(missing_ok=True)

    def _keep(self, listed: Sequence[Mapping[str, Any]], known: Mapping[str, Shard]) -> None:
        for each in listed:
            shard = known[each["file"]]
            path = self._folder / shard.name
            written = Written(each["rows"], each["bytes"], each["sha256"])
            if path.is_file() and digest_of(path) == written.sha256:
                self.finished[shard.number] = written

    def _read(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self._folder / name).read_text(encoding="utf-8"))
        except ValueError as error:
            raise self._refused(f"{name} in it is damaged ({error})") from None
        return content if isinstance(content, dict) else {}

    def _refused(self, reason: str) -> RunError:
        return RunError(
            f"{self._folder}: {reason}.",
            hint="Name a folder that is empty or not there, or the folder of the same conversion.",
        )

    def _listed(self) -> list[dict[str, Any]]:
        return [
            {"file": self._shards[number].name, **asdict(self.finished[number])}
            for number in sorted(self.finished)
        ]

    def _save(self, name: str, content: Mapping[str, Any]) -> Path:
        """The whole file or, if anything fails, the one that was there before."""
        path = self._folder / name
        temporary = self._folder / f".part-{name}{PARTIAL}"
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(json.dumps(content, indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}.") from error
        finally:
            temporary.unlink(missing_ok=True)
        return path


def _difference(content: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    other = content.get("job")
    if not isinstance(other, Mapping):
        return "one that cannot be read"
    key = next(key for key in {**other, **job} if other.get(key) != job.get(key))
    return f"{key}: {other.get(key)!r}, not {job.get(key)!r}"
