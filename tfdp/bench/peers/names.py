"""The names of the models that are measured. The command line reads them: nothing heavy here."""

from __future__ import annotations

from typing import Final

NAMES: Final = ("resnet_small", "many_small_tensors", "large_embedding", "resnet50")
"""`resnet_small`: tfdp's own, width 16. `many_small_tensors`: 32 layers of 64 units with layer
normalisation, 130 tensors, 0.14 M parameters. `large_embedding`: 200,000 rows of 64, 12.8 M
parameters; as a dense gradient 51 MB. `resnet50`: Keras' ResNet-50 on 32x32 pixels, 23.6 M
parameters."""

OTHERS: Final = ("stock", "stock_threads", "gloo")
"""What tfdp is compared with: TensorFlow's strategy with tfdp's settings of the process, the same
with TensorFlow's default threads, PyTorch on Gloo."""
