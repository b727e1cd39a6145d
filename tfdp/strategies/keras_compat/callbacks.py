"""Files that callbacks write: by the chief alone, to one place.

Saving can read values that are parts of a sum on each worker, and such a read is a collective:
a worker that skipped it would leave the others waiting. So every worker runs the callback, and
those that are not the chief write to a directory of their own that is removed at exit.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from typing import Any

from keras.src.callbacks.backup_and_restore import BackupAndRestore
from keras.src.callbacks.callback import Callback
from keras.src.callbacks.csv_logger import CSVLogger
from keras.src.callbacks.model_checkpoint import ModelCheckpoint
from keras.src.callbacks.tensorboard import TensorBoard

_stock_set_model = Callback.set_model
_stock_tensorboard_set_model = TensorBoard.set_model
_stock_backup_save = BackupAndRestore._save_model
_stock_backup_train_end = BackupAndRestore.on_train_end

_BACKUP_PATHS = (
    "_weights_path",
    "_training_metadata_path",
    "_prev_weights_path",
    "_prev_training_metadata_path",
)


def set_checkpoint_model(self: ModelCheckpoint, model: Any) -> None:
    """`ModelCheckpoint.set_model`."""
    _stock_set_model(self, model)
    if not _is_chief(model):
        self.filepath = _aside(self.filepath)


def set_csv_model(self: CSVLogger, model: Any) -> None:
    """`CSVLogger.set_model`."""
    _stock_set_model(self, model)
    if not _is_chief(model):
        self.filename = _aside(self.filename)
        os.makedirs(os.path.dirname(self.filename), exist_ok=True)


def set_tensorboard_model(self: TensorBoard, model: Any) -> None:
    """`TensorBoard.set_model`."""
    if not _is_chief(model):
        self.log_dir = _aside(self.log_dir)
    _stock_tensorboard_set_model(self, model)


def save_backup(self: BackupAndRestore) -> None:
    """`BackupAndRestore._save_model`: all workers restore what the chief saved."""
    if _is_chief(self.model):
        _stock_backup_save(self)
        return
    paths = {name: getattr(self, name) for name in _BACKUP_PATHS if hasattr(self, name)}
    directory = self.backup_dir
    try:
        self.backup_dir = _aside(directory)
        for name, path in paths.items():
            setattr(self, name, _aside(path))
        _stock_backup_save(self)
    finally:
        self.backup_dir = directory
        for name, path in paths.items():
            setattr(self, name, path)


def end_backup(self: BackupAndRestore, logs: Any = None) -> None:
    """`BackupAndRestore.on_train_end`: the chief removes the backup."""
    if _is_chief(self.model):
        _stock_backup_train_end(self, logs)


def _is_chief(model: Any) -> bool:
    return bool(getattr(model.distribute_strategy, "tfdp_is_chief", True))


def _aside(path: Any) -> str:
    """The same path below this worker's own temporary directory."""
    own = _own_directory()
    path = str(path)
    if path.startswith(own):
        return path
    local = path.replace("://", os.sep) if "://" in path else os.path.abspath(path)
    return os.path.join(own, local.lstrip(os.sep))


@functools.cache
def _own_directory() -> str:
    directory = tempfile.mkdtemp(prefix="tfdp-worker-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
