"""``tfdp data``"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from tfdp.cli.common import add_config_arguments, add_set_argument, prepare_runtime
from tfdp.cli.help_text import paragraph
from tfdp.cli.numbers import count, count_or_zero
from tfdp.cluster.tf_config import ClusterInfo
from tfdp.config import Config, load_config
from tfdp.config.checks import service_address
from tfdp.config.names import DATA_SETS
from tfdp.errors import ConfigError


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of ``tfdp``."""
    parser = commands.add_parser(
        "data",
        help="look at, check, convert and prepare data",
        description=paragraph("Tools for data sets, apart from training."),
    )
    tools = parser.add_subparsers(title="tools", metavar="TOOL", required=True)
    _add_audit(tools)
    _add_convert(tools)
    _add_peek(tools)
    _add_prepare(tools)
    _add_serve(tools)


def _add_audit(tools: Any) -> None:
    parser = tools.add_parser(
        "audit",
        help="count what each replica would train on; exit with 1 if an example is lost or doubled",
        description=paragraph(
            "Run the input of CONFIG for every worker and replica, without training and without "
            "decoding, and count: examples, batches, empty batches, examples that are lost or come "
            "twice. A function of your own (data.function) is called in a process for each worker, "
            "with a TF_CONFIG, and once without: what the workers read together has to be what "
            "one process reads. Workers with files or data of their own are told apart by content, "
            "everything else by row or place in a file."
        ),
        epilog=paragraph(
            "exit code: 0 each example comes as often as CONFIG says, also where data.remainder: "
            "drop leaves some out; 1 an example is lost, doubled, or not one that a single process "
            "would read; others as for tfdp train."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_arguments(parser)
    parser.add_argument(
        "--workers", metavar="W", type=count, help="default: those of TF_CONFIG, else 1"
    )
    parser.add_argument(
        "--replicas", metavar="R", type=count, help="of each worker; default: as CONFIG says"
    )
    parser.add_argument(
        "--epochs", metavar="E", type=count, default=1, help="how many to look at (default 1)"
    )
    _add_part(parser)
    parser.add_argument(
        "--by",
        choices=("place", "content"),
        help="what tells examples apart (default: content where workers have data of their own)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=run_audit)


def _add_convert(tools: Any) -> None:
    parser = tools.add_parser(
        "convert",
        help="write any source to TFRecord shards",
        description=paragraph(
            "Write the examples of SOURCE, in their order and as they are (no scaling, no "
            "transform), to TFRecord files in OUT, with a manifest.json: rows and SHA-256 of each "
            "file, where they are from, and the arguments with which the source tfrecord reads "
            "them back. The same input and options give the same bytes, whatever --jobs is. A "
            "conversion that was stopped or killed goes on when the command is given again: "
            "finished files that are as they were written are kept."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_source(parser)
    parser.add_argument(
        "out", metavar="OUT", type=Path, help="a folder: empty, missing, or of this conversion"
    )
    parser.add_argument(
        "--shards", metavar="N", type=count, default=16, help="how many files (default 16)"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=count,
        help="processes that write (default: one for each 50,000 examples, up to the cores)",
    )
    _add_part(parser)
    parser.set_defaults(run=run_convert)


def _add_peek(tools: Any) -> None:
    parser = tools.add_parser(
        "peek",
        help="show a few examples, and statistics",
        description=paragraph(
            "Show the first examples of SOURCE as they are stored (not scaled, transformed or "
            "shuffled), pictures drawn in characters or colours, and of many examples the least, "
            "most and mean value, how often each class comes, and missing values (NaN, empty "
            "text)."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_source(parser)
    parser.add_argument(
        "-n", dest="examples", metavar="N", type=count, default=5, help="examples (default 5)"
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=_rows,
        default=10_000,
        help="how many examples the statistics look at, from the first (default 10,000; 0: all)",
    )
    parser.add_argument(
        "--save", metavar="FILE.png", type=Path, help="write the pictures to one PNG file"
    )
    _add_part(parser)
    parser.set_defaults(run=run_peek)


def _add_prepare(tools: Any) -> None:
    parser = tools.add_parser(
        "prepare",
        help="make a data set of tensorflow-datasets from files on this machine",
        description=paragraph(
            "Prepare the data set NAME for the source tfds, from original files on this machine; "
            "nothing is downloaded. fashion_mnist_local: Fashion-MNIST from its four IDX files, as "
            "the Debian package dataset-fashion-mnist installs them."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="fashion_mnist_local")
    parser.add_argument(
        "--from",
        dest="files",
        metavar="DIR",
        type=Path,
        help="folder with the original files (default /usr/share/datasets/fashion-mnist)",
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        default=None,
        help="folder of prepared data sets (default: TFDS_DATA_DIR, else ~/tensorflow_datasets)",
    )
    parser.set_defaults(run=run_prepare)


def _add_serve(tools: Any) -> None:
    parser = tools.add_parser(
        "serve",
        help="run a tf.data service that decodes the examples of training workers",
        description=paragraph(
            "Start a dispatcher and workers of TensorFlow's tf.data service, print the address, "
            "and serve until SIGTERM or Ctrl-C. A config with data.service set to the address, or "
            "a script that uses tf.data.experimental.service, then has its training examples read, "
            "decoded and transformed here. On more machines: --dispatcher with that address. Files "
            "have to be where they are for the training workers. TensorFlow's servers listen on "
            "all interfaces and know no password: keep the ports behind a firewall."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=count_or_zero,
        default=1,
        help="in this process; one keeps all cores busy (default 1; 0: the dispatcher alone)",
    )
    parser.add_argument(
        "--dispatcher",
        metavar="ADDRESS",
        type=_address,
        help="grpc://host:port of one that runs elsewhere (default: start one here)",
    )
    parser.add_argument(
        "--host",
        default="localhost",
        help="the name by which the other machines reach this one (default localhost: there are "
        "none)",
    )
    parser.add_argument(
        "--port", metavar="P", type=_port, default=0, help="of the dispatcher (default: a free one)"
    )
    parser.set_defaults(run=run_serve)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help=f"a config, or the name of a source: {', '.join(DATA_SETS)}",
    )
    add_set_argument(
        parser,
        "change a key of the config, as in --set data.on_error=skip; with the name of a "
        "source: one of its arguments, as in --set directory=images; the value is YAML; may be "
        "repeated",
    )


def _add_part(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--part",
        choices=("train", "validation"),
        default="train",
        help="which examples (default train)",
    )


def run_audit(options: argparse.Namespace) -> int:
    """Audits; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the config or the data.
    """
    config = load_config(options.config, options.overrides)
    cluster = prepare_runtime()

    from tfdp.data.tools.audit import AuditOptions
    from tfdp.data.tools.commands import run_audit as run
    from tfdp.data.tools.subject import subject_of

    wanted = AuditOptions(
        part=options.part,
        workers=options.workers or _workers(config, cluster),
        replicas=options.replicas or _replicas(config),
        epochs=options.epochs,
        by=options.by,
    )
    return run(subject_of(config), wanted, as_json=options.json)


def run_convert(options: argparse.Namespace) -> int:
    """Converts; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the source or the folder.
    """
    prepare_runtime()

    from tfdp.data.tools.commands import run_convert as run
    from tfdp.data.tools.convert import ConvertOptions
    from tfdp.data.tools.subject import find_subject

    wanted = ConvertOptions(part=options.part, shards=options.shards, jobs=options.jobs)
    return run(find_subject(options.source, options.overrides), options.out, wanted)


def run_peek(options: argparse.Namespace) -> int:
    """Shows; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the source or the file.
    """
    prepare_runtime()

    from tfdp.data.tools.commands import run_peek as run
    from tfdp.data.tools.subject import find_subject

    subject = find_subject(options.source, options.overrides)
    return run(subject, options.part, options.examples, options.rows, options.save)


def run_prepare(options: argparse.Namespace) -> int:
    """Prepares; returns the exit code.

    Raises:
      TfdpError: whatever is wrong with the name, the files or the folder.
    """
    prepare_runtime()

    from tfdp.data.tools.commands import run_prepare as run

    usual = os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    return run(options.name, options.files, options.data_dir or Path(usual).expanduser())


def run_serve(options: argparse.Namespace) -> int:
    """Serves until it is told to end; returns the exit code.

    Raises:
      TfdpError: the port is in use, or nobody answers at the dispatcher's address.
    """
    prepare_runtime()

    from tfdp.data.serve import ServeOptions, serve

    if options.dispatcher is not None and options.port:
        raise ConfigError("--port is the dispatcher's, and --dispatcher names one elsewhere")
    if options.dispatcher is not None and not options.workers:
        raise ConfigError("--workers is 0 and the dispatcher is elsewhere: nothing is to be done")
    wanted = ServeOptions(options.workers, options.dispatcher, options.host, options.port)
    serve(wanted, lambda address: print(f"data.service: {address}", flush=True))
    return 0


def _address(text: str) -> str:
    problem = service_address(text)
    if problem is not None:
        raise argparse.ArgumentTypeError(problem)
    return text


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'must be a port, 0 to 65535, got "{text}"')
    return int(text)


def _rows(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f'must be a number of examples, got "{text}"')
    return int(text)


def _workers(config: Config, cluster: ClusterInfo | None) -> int:
    if cluster is None or config.strategy.kind not in ("auto", "multi_worker"):
        return 1
    return len(cluster.workers)


def _replicas(config: Config) -> int:
    """The devices of a worker, as the strategy would take them."""
    import tensorflow as tf

    from tfdp.config.strategy import device_count

    if config.strategy.kind == "single":
        return 1
    gpus = len(tf.config.list_physical_devices("GPU"))
    return device_count(config.strategy.devices_with(gpus)) or 1
