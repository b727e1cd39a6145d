"""Puts the shims into Keras, once, when the first tfdp strategy is made."""

from __future__ import annotations

import threading
from typing import Any

from tfdp.errors import UnsupportedError

_lock = threading.Lock()
_installed = False


def install() -> None:
    """Checks versions and backend, then installs the shims. Later calls do nothing.

    Raises:
        UnsupportedError: the versions or the backend are not supported; nothing is changed then.
    """
    global _installed
    with _lock:
        if _installed:
            return
        from tfdp.strategies.keras_compat import versions

        versions.check()
        gone = [
            f"{owner.__name__}.{name}" for owner, name, _ in _shims() if not hasattr(owner, name)
        ]
        if gone:
            raise UnsupportedError(
                f"this Keras has no {', '.join(gone)}, which tfdp builds on.",
                hint="Install a supported version of Keras; `tfdp doctor` lists them.",
            )
        for owner, name, shim in _shims():
            setattr(owner, name, shim)
        _installed = True


def _shims() -> list[tuple[Any, str, Any]]:
    from keras.src.backend.tensorflow import trainer as tf_trainer
    from keras.src.backend.tensorflow.optimizer import TFOptimizer
    from keras.src.callbacks.backup_and_restore import BackupAndRestore
    from keras.src.callbacks.callback_list import CallbackList
    from keras.src.callbacks.csv_logger import CSVLogger
    from keras.src.callbacks.model_checkpoint import ModelCheckpoint
    from keras.src.callbacks.tensorboard import TensorBoard
    from keras.src.layers.layer import Layer
    from keras.src.losses import loss as loss_module
    from keras.src.metrics.reduction_metrics import Mean, MeanMetricWrapper, Sum
    from keras.src.optimizers.base_optimizer import BaseOptimizer
    from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer
    from keras.src.random.seed_generator import SeedGenerator
    from keras.src.trainers.trainer import Trainer
    from tensorflow.python.data.ops import multi_device_iterator_ops
    from tensorflow.python.distribute import input_lib

    from tfdp.strategies.keras_compat import (
        beats,
        callbacks,
        fit_loop,
        iterators,
        layers,
        losses,
        metrics,
        optimizers,
        trainer,
    )

    return [
        (loss_module.Loss, "__call__", losses.call),
        (loss_module, "scale_loss_for_distribution", losses.scale),
        (loss_module, "unscale_loss_for_distribution", losses.unscale),
        (BaseOptimizer, "apply", optimizers.apply),
        (BaseOptimizer, "build", optimizers.build),
        (BaseOptimizer, "scale_loss", optimizers.scale_loss),
        (BaseOptimizer, "_backend_apply_gradients", optimizers.backend_apply_gradients),
        (TFOptimizer, "_all_reduce_sum_gradients", optimizers.all_reduce_sum_gradients),
        (TFOptimizer, "add_variable_from_reference", optimizers.add_variable_from_reference),
        (LossScaleOptimizer, "_common_apply", optimizers.scaled_apply),
        (LossScaleOptimizer, "scale_loss", optimizers.dynamic_scale_loss),
        (Layer, "add_loss", layers.add_loss),
        (Layer, "_get_own_losses", layers.get_own_losses),
        (Layer, "_clear_losses", layers.clear_losses),
        (SeedGenerator, "next", layers.next_seed),
        (tf_trainer.TensorFlowTrainer, "_make_function", trainer.make_function),
        (tf_trainer.TensorFlowTrainer, "make_predict_function", trainer.make_predict_function),
        (tf_trainer.TensorFlowTrainer, "predict_on_batch", trainer.predict_on_batch),
        (tf_trainer.TensorFlowTrainer, "_maybe_symbolic_build", trainer.maybe_symbolic_build),
        (tf_trainer.TFEpochIterator, "__init__", trainer.epoch_iterator_init),
        (tf_trainer.TensorFlowTrainer, "fit", fit_loop.fit),
        (
            tf_trainer.TensorFlowTrainer,
            "_get_metrics_result_or_logs",
            fit_loop.metrics_result_or_logs,
        ),
        (tf_trainer.TFEpochIterator, "_enumerate_iterator", fit_loop.enumerate_iterator),
        (CallbackList, "on_train_begin", fit_loop.train_begin),
        (CallbackList, "on_epoch_begin", beats.epoch_begin),
        (CallbackList, "on_epoch_end", beats.epoch_end),
        (CallbackList, "on_train_batch_end", beats.batch_end),
        (CallbackList, "on_test_begin", beats.evaluation_begin),
        (CallbackList, "on_test_end", beats.evaluation_end),
        (CallbackList, "on_train_end", beats.train_end),
        (Trainer, "get_metrics_result", trainer.get_metrics_result),
        (
            tf_trainer.TensorFlowTrainer,
            "_aggregate_additional_loss",
            losses.aggregate_additional_loss,
        ),
        (Mean, "update_state", metrics.update_mean),
        (Sum, "update_state", metrics.update_sum),
        (MeanMetricWrapper, "update_state", metrics.update_wrapper),
        (multi_device_iterator_ops, "_create_device_dataset", iterators.create_device_dataset),
        (
            input_lib._SingleWorkerDatasetIteratorBase,
            "get_next_as_list",
            iterators.get_next_as_list,
        ),
        (
            input_lib._SingleWorkerDatasetIteratorBase,
            "get_next_as_optional_list",
            iterators.get_next_as_optional_list,
        ),
        (ModelCheckpoint, "set_model", callbacks.set_checkpoint_model),
        (CSVLogger, "set_model", callbacks.set_csv_model),
        (TensorBoard, "set_model", callbacks.set_tensorboard_model),
        (BackupAndRestore, "_save_model", callbacks.save_backup),
        (BackupAndRestore, "on_train_end", callbacks.end_backup),
    ]
