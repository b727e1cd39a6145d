"""``tfdp bench``"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tfdp.bench.sizes import DEFAULT_SIZES, parse_size
from tfdp.cli.bench_training import add_peers, add_scaling, add_timeline
from tfdp.cli.common import add_set_argument, prepare_runtime
from tfdp.cli.help_text import paragraph, runtime_help
from tfdp.cli.numbers import count, many, numbers, seconds_or_zero
from tfdp.config import load_config


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of ``tfdp``."""
    parser = commands.add_parser(
        "bench",
        help="measure this machine",
        description=paragraph(
            "Measure on this machine how fast replicas train, exchange gradients and are fed."
        ),
    )
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    _add_allreduce(benchmarks)
    add_scaling(benchmarks)
    add_peers(benchmarks)
    add_timeline(benchmarks)
    _add_hosts(benchmarks)
    _add_input(benchmarks)
    _add_chaos(benchmarks)


def _add_allreduce(benchmarks: Any) -> None:
    parser = benchmarks.add_parser(
        "allreduce",
        help="time the all-reduce of every reducer that can run here",
        description=paragraph(
            "Time the sum of a float32 buffer over all replicas, with every reducer that can run "
            "here, in turn. algbw = size / time and busbw = algbw * 2 (n - 1) / n for n replicas, "
            "as nccl-tests defines them; 1 kB is 1024 bytes, 1 GB/s is 10^9 bytes a second. Of "
            "several workers the slowest counts."
        ),
        epilog=runtime_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--workers", metavar="N", type=count, default=1, help="processes (default 1)"
    )
    parser.add_argument(
        "--devices",
        metavar="D",
        type=count,
        help="replicas in each: GPUs, or logical CPU devices where there is no GPU "
        "(default 2 in one process, 1 in several)",
    )
    parser.add_argument(
        "--sizes",
        metavar="SIZE,...",
        type=_sizes,
        default=DEFAULT_SIZES,
        help="sizes of a replica's buffer, as in 4kB,1MB (default 1 kB to 64 MB, times 4)",
    )
    parser.add_argument(
        "--reducers",
        metavar="NAME,...",
        type=_names,
        help="what to measure, as in ring,mpi,mpi+bf16 (default: all that can run here)",
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=count,
        help="how often every reducer has its turn (default 3, with --peers 7)",
    )
    parser.add_argument(
        "--repetitions",
        metavar="N",
        type=count,
        default=10,
        help="of every size in each round (default 10)",
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write everything, each repetition, to FILE"
    )
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw time and bandwidth by size")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="also stock TensorFlow's RING and, with --peer-python, Gloo; all in turn, one ratio "
        "for each round (then 7 by default)",
    )
    parser.add_argument(
        "--peer-python", metavar="PATH", help="a Python interpreter that has PyTorch"
    )
    parser.set_defaults(run=run_allreduce)


def _add_hosts(benchmarks: Any) -> None:
    parser = benchmarks.add_parser(
        "hosts",
        help="time all-reduces between two hosts on a slow link, and count the bytes",
        description=paragraph(
            "Make two network namespaces with a link of limited speed between them, start workers "
            "in each, and sum a buffer with every reducer in turn. Shown: the time, the bytes that "
            "each end of the link has sent for one sum over the bytes of the buffer, what the "
            "formula says, and the ratio of times to the first reducer. The kernel lets only root "
            "do this."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--reducers",
        metavar="NAME,...",
        type=_names,
        default=("ring", "two_level", "two_level+bf16"),
        help="(default ring,two_level,two_level+bf16)",
    )
    parser.add_argument(
        "--workers-per-host", metavar="N", type=count, default=1, help="processes (default 1)"
    )
    parser.add_argument(
        "--devices", metavar="D", type=count, default=2, help="replicas of each (default 2)"
    )
    parser.add_argument(
        "--size", metavar="SIZE", type=_size, default=16 * 1024**2, help="(default 16MB)"
    )
    parser.add_argument(
        "--tensors",
        metavar="N",
        type=count,
        default=1,
        help="sum the buffer as N equal tensors, as gradients are: those of 4 MB and more are "
        "buckets, and work on one goes on while another is sent (default 1)",
    )
    parser.add_argument(
        "--rate", metavar="RATE", default="1gbit", help="of the link, for tc (default 1gbit)"
    )
    parser.add_argument("--rounds", metavar="N", type=count, default=7, help="(default 7)")
    parser.add_argument(
        "--repetitions", metavar="N", type=count, default=2, help="in each round (default 2)"
    )
    parser.add_argument(
        "--peer-python", metavar="PATH", help="a Python interpreter that has PyTorch, for Gloo"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to FILE")
    parser.set_defaults(run=run_hosts)


def run_hosts(options: argparse.Namespace) -> int:
    """Measures and prints; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the options, the network, a worker or the file.
    """
    prepare_runtime()

    from tfdp.bench.command import run_hosts as run
    from tfdp.bench.hosts import HostsOptions

    wanted = HostsOptions(
        reducers=options.reducers,
        workers_per_host=options.workers_per_host,
        devices=options.devices,
        size=options.size,
        tensors=options.tensors,
        rate=options.rate,
        rounds=options.rounds,
        repetitions=options.repetitions,
        peer_python=options.peer_python,
    )
    return run(wanted, options.json)


def _add_chaos(benchmarks: Any) -> None:
    parser = benchmarks.add_parser(
        "chaos",
        help="kill, stop and starve the workers of a run, and compare what it comes to",
        description=paragraph(
            "Train a small model on two workers twice: in peace, and while workers are killed "
            "(before the first step, in a step, in a save, in a validation, at an epoch's end), "
            "stopped, slowed down, kept from writing and told to end, and a checkpoint is damaged. "
            "Show for each fault whether the run went on, after how long, and how many steps it "
            "took again; and whether the final weights are those of the run in peace, to the bit. "
            "The exit code is 1 if not."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--steps", metavar="N", type=many, default=600, help="of each run (default 600)"
    )
    parser.add_argument(
        "--faults",
        metavar="WORD,...",
        type=_names,
        default=(),
        help="only faults whose name has one of these words in it, as in SIGSTOP,validation",
    )
    parser.add_argument(
        "--rounds", metavar="N", type=count, default=1, help="how often each strikes (default 1)"
    )
    parser.add_argument(
        "--pause",
        metavar="S",
        type=seconds_or_zero,
        default=0.0,
        help="seconds from one fault survived to the next (default 0)",
    )
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="keep both runs and all logs in DIR"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to FILE")
    parser.set_defaults(run=run_chaos)


def run_chaos(options: argparse.Namespace) -> int:
    """Runs and prints; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the options, this machine or the run in peace.
    """
    from tfdp.bench.chaos.command import ChaosWishes, run

    return run(
        ChaosWishes(
            steps=options.steps,
            faults=options.faults,
            rounds=options.rounds,
            pause_seconds=options.pause,
            directory=options.keep,
            json=options.json,
        )
    )


def _add_input(benchmarks: Any) -> None:
    parser = benchmarks.add_parser(
        "input",
        help="time the input of configs, or of made-up data, beside plain tf.data",
        description=paragraph(
            "Time an epoch of each CONFIG's training examples, shuffled, decoded and batched, as "
            "tfdp and as plain tf.data that does the same work, in turn, shared by 1, 2 and 4 "
            "pipelines that run at the same time. Also: the time to the first batch; what each "
            "stage adds to an epoch, and so what limits (read: the order, and the bytes of "
            "streams; decode; map: scale, cast, data.transform; copy: into the replicas' pieces "
            "and to the caller); and the memory of this process over some epochs. Without CONFIG: "
            "made-up examples in files of several kinds."
        ),
        epilog=runtime_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("configs", metavar="CONFIG", nargs="*", help="YAML files")
    add_set_argument(
        parser,
        "change a key of every CONFIG; may be repeated",
    )
    parser.add_argument(
        "--kinds",
        metavar="NAME,...",
        type=_names,
        help="made-up data, as in npz,tfrecord (default, without CONFIG: npz, csv, parquet, "
        "tfrecord, tfrecord_by_file, whose pipelines read files of their own, and image_folder)",
    )
    parser.add_argument(
        "--rows",
        metavar="N,...",
        type=numbers,
        default=(100_000,),
        help="how many made-up examples; several numbers show whether costs are linear "
        "(default 100,000; of image_folder at most 5,000)",
    )
    parser.add_argument(
        "--pipelines",
        metavar="N,...",
        type=numbers,
        default=(1, 2, 4),
        help="how many share the examples (default 1,2,4)",
    )
    parser.add_argument(
        "--repetitions", metavar="N", type=count, default=5, help="pairs of epochs (default 5)"
    )
    parser.add_argument(
        "--epochs",
        metavar="N",
        type=count,
        default=10,
        help="over which memory is watched (default 10)",
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write everything, each repetition, to FILE"
    )
    parser.set_defaults(run=run_input)


def run_input(options: argparse.Namespace) -> int:
    """Measures and prints; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with a config, its data or the file.
    """
    configs = [(path, load_config(path, options.overrides)) for path in options.configs]
    prepare_runtime()

    from tfdp.bench.command import run_input as run
    from tfdp.bench.input import InputOptions
    from tfdp.bench.input_made import KINDS

    made = options.kinds or (() if configs else tuple(KINDS))
    wanted = InputOptions(
        configs=tuple(
            (Path(path).stem, config.data, Path(config.module_directory or "."))
            for path, config in configs
        ),
        made=made,
        rows=options.rows,
        pipelines=options.pipelines,
        repetitions=options.repetitions,
        epochs=options.epochs,
    )
    return run(wanted, options.json)


def run_allreduce(options: argparse.Namespace) -> int:
    """Measures and prints; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the devices, the reducers, the workers or the file.
    """
    prepare_runtime()

    from tfdp.bench.allreduce import AllReduceOptions
    from tfdp.bench.command import run_allreduce as run

    wanted = AllReduceOptions(
        workers=options.workers,
        devices=options.devices or (2 if options.workers == 1 else 1),
        sizes=options.sizes,
        reducers=options.reducers,
        rounds=options.rounds or (7 if options.peers else 3),
        repetitions=options.repetitions,
    )
    return run(
        wanted,
        options.json,
        options.plot,
        peers=options.peers,
        peer_python=options.peer_python,
    )


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({parse_size(part) for part in text.split(",")}))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))
