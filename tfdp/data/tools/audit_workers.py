"""Workers whose data a function of the user's makes: each in a process, as in training.

Such a function may ask TF_CONFIG which worker it is, and may leave anything behind in its process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdp.cluster.detect import tf_config_text
from tfdp.data.policy import Policy
from tfdp.data.tools.collect import Findings, Place, Share, Tick, collect
from tfdp.data.tools.subject import Subject
from tfdp.errors import ConfigError, DataError, TfdpError, WorkerError

if TYPE_CHECKING:
    from tfdp.data.tools.audit import AuditOptions

_KINDS = {"ConfigError": ConfigError, "DataError": DataError}
_LINES = 20


def collect_apart(
    subject: Subject, options: AuditOptions, tick: Tick
) -> tuple[Findings | None, list[Findings]]:
    """What one process without workers would train on, and what each of the workers would.

    The first is None where the function can only be called in a worker, on data of its own.

    Raises:
      ConfigError, DataError: as the function, or reading its data, has raised them.
      WorkerError: a process has ended without saying why.
    """
    if options.workers == 1:
        examples = subject.part(options.part)
        places = (Place(), Place(0, 1, options.replicas))
        first, second = (
            collect(
                subject,
                examples,
                options.part,
                place,
                epochs=options.epochs,
                by=options.by,
                tick=tick,
            )
            for place in places
        )
        return first, [second]
    lock = threading.Lock()

    def locked(count: int) -> None:
        with lock:
            tick(count)

    places_of_workers = [
        Place(w, options.workers, options.replicas) for w in range(options.workers)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reference = pool.submit(_collect_in_process, subject, options, Place(), locked)
        found = [
            pool.submit(_collect_in_process, subject, options, place, locked)
            for place in places_of_workers
        ]
        workers = [each.result() for each in found]
        try:
            return reference.result(), workers
        except TfdpError:
            if workers[0].policy.own:
                return None, workers
            raise


def _collect_in_process(
    subject: Subject, options: AuditOptions, place: Place, tick: Tick
) -> Findings:
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    if place.workers > 1:
        # Nobody connects: the addresses only say how many workers there are.
        addresses = [f"127.0.0.1:{port}" for port in range(1, place.workers + 1)]
        environment["TF_CONFIG"] = tf_config_text(addresses, place.worker)
    with tempfile.TemporaryDirectory(prefix="tfdp-audit-") as folder:
        task = {
            "subject": subject.to_json(),
            "part": options.part,
            "place": [place.worker, place.workers, place.replicas],
            "epochs": options.epochs,
            "by": options.by,
            "folder": folder,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tfdp.data.tools.audit_workers"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()  # and stays open: its end tells the process that we are gone
            said = _listen(process, tick)
        finally:
            process.kill()
            process.wait()
        result = Path(folder, "result.json")
        if not result.exists():
            who = f"worker {place.worker}" if place.workers > 1 else "the process without workers"
            raise WorkerError(
                f"{who} ended while its data were audited (exit code {process.returncode}):\n{said}"
            )
        return _read(json.loads(result.read_text(encoding="utf-8")), place, Path(folder))


def _listen(process: subprocess.Popen[str], tick: Tick) -> str:
    last: deque[str] = deque(maxlen=_LINES)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("tick "):
            tick(int(line.split()[1]))
        else:
            last.append(line.rstrip())
    process.wait()
    return "\n".join(last)


def _read(result: dict[str, Any], place: Place, folder: Path) -> Findings:
    if "error" in result:
        kind = _KINDS.get(result["error"], DataError)
        who = f"worker {place.worker}: " if place.workers > 1 else ""
        raise kind(f"{who}{result['message']}", hint=result["hint"])
    with np.load(folder / "ids.npz", allow_pickle=False) as arrays:
        shares = tuple(
            Share(
                worker=place.worker,
                replica=each["replica"],
                epoch=each["epoch"],
                ids=arrays[f"ids{number}"],
                sizes=arrays[f"sizes{number}"],
                padding=each["padding"],
            )
            for number, each in enumerate(result["shares"])
        )
        sweep = arrays.get("sweep")
    return Findings(place, Policy(*result["policy"]), result["by"], shares, sweep)


def _main() -> None:
    """In a worker's process: the task comes as one line of JSON on standard input."""
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(task["folder"])
    result: dict[str, Any]
    try:
        result = _work(task, folder)
    except TfdpError as error:
        result = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    temporary = folder / "result.part"
    temporary.write_text(json.dumps(result), encoding="utf-8")
    temporary.rename(folder / "result.json")


def _work(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    subject = Subject.from_json(task["subject"])
    place = Place(*task["place"])
    examples = subject.part(task["part"], place.worker if place.workers > 1 else None)
    found = collect(
        subject,
        examples,
        task["part"],
        place,
        epochs=task["epochs"],
        by=task["by"],
        tick=lambda count: print(f"tick {count}", flush=True),
    )
    arrays = {f"ids{number}": share.ids for number, share in enumerate(found.shares)}
    arrays |= {f"sizes{number}": share.sizes for number, share in enumerate(found.shares)}
    if found.sweep is not None:
        arrays["sweep"] = found.sweep
    np.savez(folder / "ids.npz", **arrays)  # type: ignore[arg-type]
    return {
        "policy": [found.policy.name, found.policy.reason],
        "by": found.by,
        "shares": [
            {"replica": each.replica, "epoch": each.epoch, "padding": each.padding}
            for each in found.shares
        ],
    }


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    _main()
