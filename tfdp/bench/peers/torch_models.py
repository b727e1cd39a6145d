"""The measured models once more, in PyTorch: the same layers, shapes and numbers of parameters.

Needs torch and NumPy, and nothing of tfdp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

CLASSES = 10
_EMBEDDING_ROWS, _EMBEDDING_WIDTH, _WORDS = 200_000, 64, 32
_SMALL_LAYERS, _SMALL_WIDTH = 32, 64


def build(name: str) -> Any:
    """The model, in training mode, on the CPU."""
    makers: dict[str, Any] = {
        "resnet50": ResNet50,
        "many_small_tensors": ManySmallTensors,
        "large_embedding": LargeEmbedding,
        "resnet_small": ResNetSmall,
    }
    return makers[name]().train()


def make_batch(name: str, rows: int) -> Any:
    """Made-up inputs and labels."""
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, CLASSES, rows))
    if name == "large_embedding":
        return torch.from_numpy(rng.integers(0, _EMBEDDING_ROWS, (rows, _WORDS))), labels
    shape: tuple[int, ...] = (_SMALL_WIDTH,) if name == "many_small_tensors" else (3, 32, 32)
    return torch.from_numpy(rng.normal(size=(rows, *shape)).astype(np.float32)), labels


class Bottleneck(nn.Module):
    """As Keras' ResNet-50 (version 1) has it: biases, and the stride in the first convolution."""

    def __init__(self, inside: int, filters: int, stride: int, projects: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, filters, 1, stride),
            nn.BatchNorm2d(filters, eps=1.001e-5),
            nn.ReLU(inplace=True),
            nn.Conv2d(filters, filters, 3, padding=1),
            nn.BatchNorm2d(filters, eps=1.001e-5),
            nn.ReLU(inplace=True),
            nn.Conv2d(filters, 4 * filters, 1),
            nn.BatchNorm2d(4 * filters, eps=1.001e-5),
        )
        self.shortcut = nn.Identity()
        if projects:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, 4 * filters, 1, stride),
                nn.BatchNorm2d(4 * filters, eps=1.001e-5),
            )

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Sequential):
    """23,608,202 parameters, moving statistics included, as the one in Keras with ten classes."""

    def __init__(self) -> None:
        layers: list[Any] = [
            nn.Conv2d(3, 64, 7, 2, 3),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        inside = 64
        for filters, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for block in range(blocks):
                first = block == 0
                layers.append(Bottleneck(inside, filters, stride if first else 1, first))
                inside = 4 * filters
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, CLASSES)]
        super().__init__(*layers)


class ResNetSmall(nn.Sequential):
    """tfdp's `resnet_small` at width 16, one block a stage."""

    def __init__(self) -> None:
        layers: list[Any] = [
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        ]
        inside = 16
        for stage in range(3):
            layers.append(_Basic(inside, 16 * 2**stage, 1 if stage == 0 else 2))
            inside = 16 * 2**stage
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, CLASSES))


class _Basic(nn.Module):
    def __init__(self, inside: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or inside != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.shortcut(x))


class ManySmallTensors(nn.Module):
    """32 residual layers of 64 units with layer normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(_SMALL_WIDTH, _SMALL_WIDTH) for _ in range(_SMALL_LAYERS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(_SMALL_WIDTH) for _ in range(_SMALL_LAYERS))
        self.head = nn.Linear(_SMALL_WIDTH, CLASSES)

    def forward(self, x: Any) -> Any:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(x + torch.relu(layer(x)))
        return self.head(x)


class LargeEmbedding(nn.Module):
    """200,000 rows of 64, averaged over 32 words, and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(_EMBEDDING_ROWS, _EMBEDDING_WIDTH)
        self.head = nn.Sequential(nn.Linear(_EMBEDDING_WIDTH, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, words: Any) -> Any:
        return self.head(self.table(words).mean(dim=1))
