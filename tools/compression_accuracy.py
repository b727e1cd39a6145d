"""What compression of gradients does to the accuracy on Fashion-MNIST, with several seeds.

    python tools/compression_accuracy.py [--seeds 3] [--epochs 3] [--rows 8000] [--json FILE]

Trains a small convolutional network (106,026 parameters) on two workers, once for each seed and
each compression, with the same initial weights and batches for a seed, and prints the accuracy on
the test images of the bundled subset: mean and standard deviation over the seeds, and how far each
mean is from that of the uncompressed runs, in standard errors of their difference.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any, Final

METHODS: Final = ("none", "fp16", "bf16", "powersgd", "topk")
RANK: Final = 4
RATIO: Final = 0.05
BATCH: Final = 64


def train(seeds: int, epochs: int, rows: int, methods: list[str]) -> dict[str, list[float]]:
    """In a worker: the accuracies of each compression, one for each seed."""
    import keras

    import tfdp
    from tfdp.collectives.compression import Compression, compress
    from tfdp.data.images import fashion_mnist

    strategy: Any = tfdp.strategy("multi_worker", cross_device_ops="two_level")
    (x, y), (x_test, y_test) = fashion_mnist(None)
    x, y = x[:rows].reshape(-1, 28, 28, 1) / 255.0, y[:rows]
    x_test = x_test.reshape(-1, 28, 28, 1) / 255.0
    found: dict[str, list[float]] = {method: [] for method in methods}
    for seed in range(seeds):
        for method in methods:
            # A process joins one group; the compression of its gradients can be exchanged.
            wanted = Compression(method, rank=RANK, ratio=RATIO)
            extended = strategy.extended
            extended.tfdp_gradient_reduction = compress(extended.tfdp_worker_reduction, wanted)
            keras.utils.set_random_seed(seed)
            with strategy.scope():
                model = _model(keras)
                model.compile(
                    keras.optimizers.SGD(0.05, momentum=0.9),
                    "sparse_categorical_crossentropy",
                    metrics=["accuracy"],
                )
            model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0)
            _, accuracy = model.evaluate(x_test, y_test, batch_size=500, verbose=0)
            print(f"seed {seed}, {method}: {accuracy:.4f}", flush=True)
            found[method].append(float(accuracy))
    return found


def _model(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )


def table(found: dict[str, list[float]]) -> list[str]:
    """One line for each compression."""
    base = found["none"]
    lines = ["| compression | accuracy, mean ± standard deviation | difference to none |"]
    lines.append("|---|---|---|")
    for method, values in found.items():
        mean = statistics.mean(values)
        spread = statistics.stdev(values) if len(values) > 1 else math.nan
        difference = mean - statistics.mean(base)
        error = math.sqrt((spread**2 + statistics.stdev(base) ** 2) / len(values))
        said = "" if method == "none" else f"{difference:+.4f} ({difference / error:+.1f} errors)"
        lines.append(f"| {method} | {mean:.4f} ± {spread:.4f} | {said} |")
    return lines


def main() -> None:
    """Launches the workers and prints the table."""
    import tfdp

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    arguments = (options.seeds, options.epochs, options.rows, list(METHODS))
    workers = tfdp.launch(train, workers=2, args=arguments, start_timeout=120)
    assert workers[0] == workers[1], "the workers' models differ"
    print("\n".join(table(workers[0])))
    if options.json is not None:
        options.json.write_text(json.dumps(workers[0], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
