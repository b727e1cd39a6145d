"""One process of PyTorch's DistributedDataParallel on Gloo; run by a Python that has torch.

Its arguments are the job as JSON and the path of the socket. It imports nothing of tfdp but the
file beside it, by its path.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> int:
    job = json.loads(arguments[0])
    rank, workers = job["rank"], job["workers"]
    beside = _beside("turns")

    def prepare() -> Any:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(job["threads"])
        torch.manual_seed(1)
        store = dist.TCPStore(job["host"], job["port"], workers, rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=workers)
        if "model" in job:
            steps = _training(torch, job["model"], job["global_batch"] // workers)
            beside.seconds_of(steps, 3)
            return lambda what, count: beside.seconds_of(steps, count)
        return _reducing(torch, dist, beside)

    # Connecting to the measuring process first: it waits for all ranks.
    code: int = beside.serve(arguments[1], rank, prepare)
    return code


def _training(torch: Any, name: str, rows: int) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    models = _beside("torch_models")
    model = models.build(name)
    inputs, labels = models.make_batch(name, rows)
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-3)
    loss_function = torch.nn.CrossEntropyLoss()

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(parallel(inputs), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _reducing(torch: Any, dist: Any, beside: Any) -> Any:
    def take(what: str, count: int, size: int) -> Any:
        buffer = torch.zeros(size // 4)  # whose sum stays what it is

        def reduce() -> None:
            dist.all_reduce(buffer)

        beside.seconds_of(reduce, 2)
        return beside.seconds_of(reduce, count)

    return take


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    sys.exit(main(sys.argv[1:]))
