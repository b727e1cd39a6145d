"""The cluster that this process is told of: well-formed, with names and a port that work."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

from tfdp.cluster.detect import detect_cluster, detect_environment
from tfdp.cluster.doctor.base import Finding, Patient, failed, passed, warned
from tfdp.cluster.rendezvous.sockets import listener, split
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.errors import ClusterError


def check_network(patient: Patient) -> Iterator[Finding]:
    """The cluster, then its host names, then this worker's port."""
    try:
        environment = detect_environment(patient.environ)
        cluster = detect_cluster(patient.environ)
    except ClusterError as error:
        yield failed("cluster", error.message, error.hint or "")
        return
    if cluster is None or environment is None:
        yield _no_cluster(needed=patient.needs_cluster)
        yield _names(("localhost",), patient.timeout_seconds)
        return
    count = len(cluster.workers)
    yield passed("cluster", f"worker {cluster.index} of {count}, from {environment.name}")
    hosts = tuple(dict.fromkeys(split(worker)[0] for worker in cluster.workers))
    yield _names(hosts, patient.timeout_seconds)
    yield _port(cluster)


def _no_cluster(*, needed: bool) -> Finding:
    message = "none: TF_CONFIG is not set, and no scheduler has started this"
    if not needed:
        return passed("cluster", message)
    return warned(
        "cluster",
        f"{message}; the config has strategy.kind: multi_worker",
        "Start it with tfdp launch --workers N CONFIG, or under a scheduler.",
    )


def _names(hosts: tuple[str, ...], timeout_seconds: float) -> Finding:
    """Looks all names up at once, in threads that may be left behind."""
    problems: dict[str, str] = dict.fromkeys(hosts, "no answer from the name server")

    def look_up(host: str) -> None:
        try:
            socket.getaddrinfo(host, None)
            del problems[host]
        except (OSError, UnicodeError) as error:
            problems[host] = getattr(error, "strerror", None) or str(error)

    threads = [threading.Thread(target=look_up, args=(h,), daemon=True) for h in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_seconds / len(threads))
    found = dict(problems)
    if not found:
        return passed("dns", f"{', '.join(hosts[:4])}{' and more' if len(hosts) > 4 else ''}")
    told = "; ".join(f"{host} does not resolve ({reason})" for host, reason in found.items())
    return failed("dns", told, "Correct the names, or add them to /etc/hosts or the name server.")


def _port(cluster: ClusterInfo) -> Finding:
    port = split(cluster.address)[1]
    try:
        listener(cluster.workers, cluster.index).close()
    except OSError as error:
        return failed(
            "port",
            f"{port} cannot be used: {os.strerror(error.errno or 0).lower()}",
            f"End the program that uses it (ss -ltnp 'sport = :{port}'), or take another port.",
        )
    return passed("port", f"{port} is free")
