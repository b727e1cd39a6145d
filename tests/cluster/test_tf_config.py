from __future__ import annotations

import json
from typing import Any

import pytest

from tfdp.cluster import ClusterInfo, read_tf_config
from tfdp.errors import ClusterError

TWO = ["host1:2222", "host2:2222"]


def read(config: Any) -> ClusterInfo | None:
    text = config if isinstance(config, str) else json.dumps(config)
    return read_tf_config({"TF_CONFIG": text})


def cluster_of(workers: Any, task: Any = None, **jobs: Any) -> dict[str, Any]:
    task = {"type": "worker", "index": 0} if task is None else task
    return {"cluster": {"worker": workers, **jobs}, "task": task}


@pytest.mark.parametrize("environ", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": " \n"}])
def test_not_set(environ: dict[str, str]) -> None:
    assert read_tf_config(environ) is None


@pytest.mark.parametrize("index", [0, 1])
def test_workers(index: int) -> None:
    info = read(cluster_of(TWO, {"type": "worker", "index": index}))
    assert info == ClusterInfo(("host1:2222", "host2:2222"), index, "worker")
    assert info.is_chief == (index == 0)
    assert info.address == TWO[index]


@pytest.mark.parametrize(
    ("task", "index", "is_chief"),
    [
        ({"type": "chief", "index": 0}, 0, True),
        ({"type": "worker", "index": 0}, 1, False),
        ({"type": "worker", "index": 1}, 2, False),
    ],
)
def test_a_chief_is_worker_0(task: dict[str, Any], index: int, is_chief: bool) -> None:
    info = read(cluster_of(TWO, task, chief=["host0:2222"]))
    assert info == ClusterInfo(("host0:2222", *TWO), index, task["type"])
    assert info.is_chief == is_chief


def test_a_chief_alone() -> None:
    info = read({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}})
    assert info == ClusterInfo(("a:1",), 0, "chief")


def test_what_platforms_add_is_ignored() -> None:
    extra = {"environment": "cloud", "rpc_layer": "grpc", "job": {}}
    assert read(cluster_of(TWO) | extra) == ClusterInfo(tuple(TWO), 0, "worker")


@pytest.mark.parametrize(
    ("workers", "index", "expected"),
    [
        (["a:1", "a:2", "b:1"], 0, 2),
        (["a:1", "A:2", "b:1"], 0, 2),
        (["a:1", "a:2", "b:1"], 2, 1),
        (["localhost:1", "127.0.0.1:2"], 1, 2),
        (["[::1]:1", "[::1]:2"], 1, 2),
    ],
)
def test_workers_on_host(workers: list[str], index: int, expected: int) -> None:
    info = read(cluster_of(workers, {"type": "worker", "index": index}))
    assert info is not None
    assert info.workers_on_host == expected


@pytest.mark.parametrize("address", ["a:1", "a-b.c_d:65535", "10.0.0.1:80", "[fe80::1%eth0]:2222"])
def test_addresses(address: str) -> None:
    assert read(cluster_of([address])) == ClusterInfo((address,), 0, "worker")


WORKER = {"type": "worker"}

MALFORMED: list[tuple[Any, str]] = [
    ("host1:2222", "is not JSON ("),
    ("{'cluster': {}}", "is not JSON ("),
    ("[" * 100_000, "is not JSON ("),
    ("[]", 'must be a JSON object, got "[]"'),
    ("null", 'must be a JSON object, got "null"'),
    ({}, 'has no "cluster" object, got null'),
    ({"cluster": {}}, 'has no "cluster" object, got {}'),
    ({"cluster": TWO}, 'has no "cluster" object, got ["host1:2222", "host2:2222"]'),
    ({"cluster": {"workers": TWO}}, 'names the job "workers"; data-parallel training has only'),
    (cluster_of(TWO, ps=["c:1"]), 'names the job "ps"; data-parallel training has only'),
    (cluster_of(TWO, evaluator=["c:1"]), 'names the job "evaluator"; data-parallel training has'),
    (cluster_of(TWO, chief=["c:1", "d:1"]), "names 2 chiefs, there can be only one: c:1, d:1"),
    (cluster_of(TWO, chief=[]), 'must have a list of addresses for "chief", got []'),
    (cluster_of([]), 'must have a list of addresses for "worker", got []'),
    (cluster_of(None), 'must have a list of addresses for "worker", got null'),
    (cluster_of("a:1"), 'must have a list of addresses for "worker", got "a:1"'),
    (cluster_of({"0": "a:1"}), 'must have a list of addresses for "worker", got {"0": "a:1"}'),
    (cluster_of(["a:1", 3]), 'has an address of "worker" that is no string: 3'),
    (cluster_of(["a"]), 'has the address "a": the port is missing, as in host:2222'),
    (cluster_of(["[::1]"]), 'has the address "[::1]": the port is missing, as in host:2222'),
    (cluster_of(["a:"]), 'has the address "a:": the port must be a number, got ""'),
    (cluster_of(["a:http"]), 'has the address "a:http": the port must be a number, got "http"'),
    (cluster_of(["a:²"]), 'has the address "a:²": the port must be a number'),
    (cluster_of(["a:-1"]), 'has the address "a:-1": the port must be a number, got "-1"'),
    (cluster_of(["a:0"]), 'has the address "a:0": the port must be from 1 to 65535, got 0'),
    (cluster_of(["a:65536"]), 'has the address "a:65536": the port must be from 1 to 65535'),
    (cluster_of(["a:" + "9" * 5000]), 'has the address "a:9999'),
    (cluster_of([":2222"]), 'has the address ":2222": "" is no host name or address'),
    (cluster_of(["grpc://a:1"]), 'has the address "grpc://a:1": "grpc://a" is no host name'),
    (
        cluster_of(["::1:2222"]),
        'has the address "::1:2222": "::1" is no host name or address (IPv6',
    ),
    (cluster_of(["a b:1"]), 'has the address "a b:1": "a b" is no host name'),
    (cluster_of(["a:1", "a:1"]), "names one address for two workers: a:1"),
    (cluster_of(["a:1", "A:01"]), "names one address for two workers: a:1 and A:01"),
    (
        cluster_of(["localhost:1", "127.0.0.1:1"]),
        "names one address for two workers: localhost:1 a",
    ),
    (cluster_of(["a:1"], chief=["a:1"]), "names one address for two workers: a:1"),
    ({"cluster": {"worker": TWO}}, 'has no "task" object, got null: which worker is this?'),
    (cluster_of(TWO, ["worker", 0]), 'has no "task" object, got ["worker", 0]'),
    (cluster_of(TWO, {"index": 0}), "has the task type null, but the cluster has: worker"),
    (
        cluster_of(TWO, {"type": ["worker"]}),
        'has the task type ["worker"], but the cluster has: wo',
    ),
    (
        cluster_of(TWO, {"type": "chief", "index": 0}),
        'has the task type "chief", but the cluster h',
    ),
    (cluster_of(TWO, {"type": "ps", "index": 0}), 'has the task type "ps", but the cluster has: w'),
    (cluster_of(TWO, WORKER), 'must have an integer at "task", "index", got null'),
    (cluster_of(TWO, WORKER | {"index": "0"}), 'must have an integer at "task", "index", got "0"'),
    (cluster_of(TWO, WORKER | {"index": 0.0}), 'must have an integer at "task", "index", got 0.0'),
    (
        cluster_of(TWO, WORKER | {"index": True}),
        'must have an integer at "task", "index", got true',
    ),
    (
        cluster_of(TWO, WORKER | {"index": 2}),
        'has the task index 2, but job "worker" has 2 tasks: 0',
    ),
    (
        cluster_of(TWO, WORKER | {"index": -1}),
        'has the task index -1, but job "worker" has 2 tasks',
    ),
    (cluster_of(["a:1"], WORKER | {"index": 1}), 'has the task index 1, but job "worker" has 1 ta'),
]


@pytest.mark.parametrize(("config", "problem"), MALFORMED)
def test_malformed(config: Any, problem: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read(config)
    assert caught.value.message.startswith(f"TF_CONFIG {problem}")
    assert len(caught.value.message) < 12_000
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("TF_CONFIG should look like {")


def test_the_example_in_the_hint_is_right() -> None:
    with pytest.raises(ClusterError) as caught:
        read("x")
    assert caught.value.hint is not None
    text = caught.value.hint.removeprefix("TF_CONFIG should look like ").partition(", with ")[0]
    assert read(text) == ClusterInfo(tuple(TWO), 0, "worker")
