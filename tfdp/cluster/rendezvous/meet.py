"""`meet`: the one door of this package."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

from tfdp.cluster.absence import tell_absent
from tfdp.cluster.rendezvous.meeting import Meeting
from tfdp.cluster.rendezvous.messages import Verdict
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.errors import ClusterError

_HINT = (
    "Start all workers with the same program, versions, config and list of workers, each with an "
    "index of its own, within {timeout:g} s of each other (--start-timeout or TFDP_START_TIMEOUT)."
)


def meet(cluster: ClusterInfo, facts: Mapping[str, str | int], timeout_seconds: float) -> None:
    """Returns once every worker has seen every other one and they agree; call it on all of them.

    The workers talk over TCP on the ports that TensorFlow will use, and leave these ports free.
    They decide together: a problem that one of them finds is raised on all that can be reached.
    Whoever can reach these ports can make the start fail, as they could with TensorFlow's own
    server afterwards: the ports belong behind a firewall.

    Args:
      cluster: the group, and which of it this process is.
      facts: what must be equal on all workers, by name: versions, a digest of the config, the
        number of replicas.
      timeout_seconds: how long to wait for the others, from this call on.

    Raises:
      ClusterError: lists what is wrong: a worker that did not come, a name that does not resolve,
        a port in use, two workers with one index, or what the workers differ in.
    """
    meeting = Meeting(cluster, {name: str(value) for name, value in facts.items()}, timeout_seconds)
    verdict = _run(meeting)
    problems = verdict.problems
    if problems:
        tell_absent(verdict.absence)
        listed = problems[0] if len(problems) == 1 else "".join(f"\n- {p}" for p in problems)
        raise ClusterError(
            f"The workers cannot start together: {listed}",
            hint=_HINT.format(timeout=timeout_seconds),
        )


def _run(meeting: Meeting) -> Verdict:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(meeting.run())
    # In a notebook the thread's own event loop is busy with running this very cell.
    verdicts: list[Verdict] = []
    thread = threading.Thread(target=lambda: verdicts.append(asyncio.run(meeting.run())))
    thread.start()
    thread.join()
    return verdicts[0]
