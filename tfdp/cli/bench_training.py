"""``tfdp bench scaling``, ``peers`` and ``timeline``: the speed of training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tfdp.bench.peers.names import NAMES, OTHERS
from tfdp.cli.help_text import paragraph
from tfdp.cli.numbers import count, numbers, positive
from tfdp.config.suggest import unknown


def add_scaling(benchmarks: Any) -> None:
    """Adds ``scaling``."""
    parser = benchmarks.add_parser(
        "scaling",
        help="samples/s and efficiency on 1 to N replicas, and what a step's time goes into",
        description=paragraph(
            "Train a model on made-up data on several numbers of replicas, in turn, and show "
            "samples a second and the efficiency, samples a second per replica over those of the "
            "first number of replicas. weak: --batch rows for each replica. strong: --batch rows "
            "for all together. Communication is what a step takes longer than the same step whose "
            "gradients are not summed; input is the time to draw a batch when nothing else runs; "
            "compute is the rest."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    replicas = parser.add_mutually_exclusive_group()
    replicas.add_argument(
        "--devices",
        metavar="N,...",
        type=numbers,
        help="replicas as devices of one process (default 1,2)",
    )
    replicas.add_argument("--workers", metavar="N,...", type=numbers, help="replicas as processes")
    parser.add_argument(
        "--model",
        metavar="NAME",
        type=model_name,
        default=NAMES[0],
        help=f"one of {', '.join(NAMES)} (default {NAMES[0]})",
    )
    parser.add_argument(
        "--kind", choices=("weak", "strong", "both"), default="both", help="(default both)"
    )
    parser.add_argument("--batch", metavar="ROWS", type=count, default=32, help="(default 32)")
    parser.add_argument(
        "--reducer", metavar="NAME", default="auto", help="cross-device ops (default auto)"
    )
    parser.add_argument(
        "--cores-per-worker",
        metavar="C",
        type=count,
        help="confine each worker to C cores of its own (default: all share all)",
    )
    _add_turns(parser, steps=5)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to FILE")
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw it")
    parser.set_defaults(run=run_scaling)


def run_scaling(options: argparse.Namespace) -> int:
    """Measures and prints; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the options, a worker or the files.
    """
    from tfdp.bench.command import run_scaling as run
    from tfdp.bench.scaling import KINDS, ScalingOptions

    counts = options.workers or options.devices or (1, 2)
    wanted = ScalingOptions(
        model=options.model,
        counts=tuple(sorted(set(counts))),
        processes=options.workers is not None,
        kinds=KINDS if options.kind == "both" else (options.kind,),
        batch=options.batch,
        reducer=options.reducer,
        cores=options.cores_per_worker,
        rounds=options.rounds,
        steps=options.steps,
    )
    return run(wanted, options.json, options.plot)


def add_peers(benchmarks: Any) -> None:
    """Adds ``peers``."""
    parser = benchmarks.add_parser(
        "peers",
        help="train the same models with tfdp, stock TensorFlow and PyTorch, in turn",
        description=paragraph(
            "Train models on made-up data with tfdp, with TensorFlow's own "
            "MultiWorkerMirroredStrategy and, where a Python that has it is named, with PyTorch's "
            "DistributedDataParallel on Gloo. All stay alive and one works at a time; each round "
            "gives one ratio for each pair. The medians and the spread are shown. The peers are "
            "not part of tfdp: python3 -m venv peers && peers/bin/pip install torch numpy."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--models",
        metavar="NAME,...",
        type=model_names,
        default=("resnet50",),
        help=f"some of {', '.join(NAMES)} (default resnet50)",
    )
    parser.add_argument("--workers", metavar="N", type=count, default=2, help="(default 2)")
    parser.add_argument(
        "--batch", metavar="ROWS", type=count, default=64, help="global batch (default 64)"
    )
    parser.add_argument(
        "--reducers",
        metavar="NAME,...",
        type=lambda text: tuple(p.strip() for p in text.split(",") if p.strip() != "none"),
        default=("mpi",),
        help="of tfdp, as in mpi,two_level+bf16 (default mpi), or none",
    )
    parser.add_argument(
        "--against",
        metavar="NAME,...",
        type=_others,
        default=OTHERS,
        help=f"some of {', '.join(OTHERS)} (default all), or none: TensorFlow's strategy with "
        "tfdp's settings of the process, the same with its default threads, PyTorch on Gloo",
    )
    parser.add_argument(
        "--peer-python", metavar="PATH", help="a Python interpreter that has PyTorch"
    )
    parser.add_argument(
        "--bare", action="store_true", help="also tfdp on one device beside Keras without tfdp"
    )
    _add_turns(parser, steps=4)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to FILE")
    parser.set_defaults(run=run_peers)


def run_peers(options: argparse.Namespace) -> int:
    """Measures and prints; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the options, a worker or the file.
    """
    from tfdp.bench.command import run_peers as run
    from tfdp.bench.peers.compare import PeersOptions

    wanted = PeersOptions(
        models=options.models,
        global_batch=options.batch,
        workers=options.workers,
        reducers=options.reducers,
        against=options.against,
        peer_python=options.peer_python,
        bare=options.bare,
        rounds=options.rounds,
        steps=options.steps,
    )
    return run(wanted, options.json)


def add_timeline(benchmarks: Any) -> None:
    """Adds ``timeline``."""
    parser = benchmarks.add_parser(
        "timeline",
        help="what runs when in a training step, and how much communication is hidden",
        description=paragraph(
            "Train a model on made-up data with gradients in buckets, in one buffer, and with "
            "nothing sent. Show the share of the communication that runs while the backward pass "
            "still does; predict what buckets should save over one buffer from the parts of the "
            "steps, and measure what they save."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        type=model_name,
        default=NAMES[0],
        help=f"one of {', '.join(NAMES)} (default {NAMES[0]})",
    )
    parser.add_argument(
        "--workers", metavar="N", type=count, default=2, help="processes (default 2)"
    )
    parser.add_argument(
        "--devices", metavar="D", type=count, help="replicas of each (default 1; 2 in one process)"
    )
    parser.add_argument(
        "--reducer",
        metavar="NAME",
        help="two_level (default) or mpi between workers; ring between devices of one process",
    )
    parser.add_argument(
        "--batch", metavar="ROWS", type=count, default=64, help="global batch (default 64)"
    )
    parser.add_argument(
        "--bucket-mb", metavar="MB", type=positive, help="size of the buckets (default 4)"
    )
    _add_turns(parser, steps=3)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to FILE")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="write the steps as a Chrome trace, for chrome://tracing or ui.perfetto.dev",
    )
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw them")
    parser.set_defaults(run=run_timeline)


def run_timeline(options: argparse.Namespace) -> int:
    """Measures and prints; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the options, a worker or the files.
    """
    from tfdp.bench.command import run_timeline as run
    from tfdp.bench.timeline import TimelineOptions

    alone = options.workers == 1
    wanted = TimelineOptions(
        model=options.model,
        workers=options.workers,
        devices=options.devices or (2 if alone else 1),
        reducer=options.reducer or ("ring" if alone else "two_level"),
        batch=options.batch,
        bucket_mb=options.bucket_mb or "auto",
        rounds=options.rounds,
        steps=options.steps,
    )
    return run(wanted, options.json, options.trace, options.plot)


def model_name(text: str) -> str:
    """The name of a model that is measured.

    Raises:
      ArgumentTypeError: there is none of that name.
    """
    if text not in NAMES:
        raise argparse.ArgumentTypeError(unknown(text, NAMES, what="model"))
    return text


def model_names(text: str) -> tuple[str, ...]:
    """As `model_name`, several."""
    return tuple(model_name(part.strip()) for part in text.split(","))


def _others(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip() != "none")
    for name in names:
        if name not in OTHERS:
            raise argparse.ArgumentTypeError(unknown(name, OTHERS, what="peer"))
    return names


def _add_turns(parser: Any, steps: int) -> None:
    parser.add_argument(
        "--rounds", metavar="N", type=count, default=7, help="turns of each (default 7)"
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=count,
        default=steps,
        help=f"in each turn, whose median counts (default {steps})",
    )
