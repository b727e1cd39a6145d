"""`fit`, `evaluate`, `predict` and the `*_on_batch` methods under several replicas."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from keras.src import backend, tree
from keras.src.backend.tensorflow import trainer as tf_trainer
from keras.src.trainers import trainer as base_trainer

from tfdp.errors import DataError, UnsupportedError
from tfdp.strategies.keras_compat import fit_loop
from tfdp.strategies.keras_compat.beats import StepBeats, with_beats
from tfdp.strategies.keras_compat.gathering import Place
from tfdp.strategies.keras_compat.metrics import is_of_whole_batch, mark
from tfdp.strategies.step import ReplicaStep, current_step

_Trainer = tf_trainer.TensorFlowTrainer
_stock_make_function = _Trainer._make_function
_stock_make_predict_function = _Trainer.make_predict_function
_stock_symbolic_build = _Trainer._maybe_symbolic_build
_stock_predict_on_batch = _Trainer.predict_on_batch
_stock_metrics_result = base_trainer.Trainer.get_metrics_result
_stock_epoch_iterator_init = tf_trainer.TFEpochIterator.__init__


def make_function(self: Any, step_function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function that trains or tests on the next batch of an iterator.

    With `steps_per_execution` several steps run for one call of the callbacks, one after another
    from Python: the numbers are those of Keras' loop inside a graph.
    """
    strategy = self.distribute_strategy
    _check_built_inside(self)
    trains = step_function != self.test_step
    if not _replicates(strategy):
        return with_beats(_stock_make_function(self, step_function), trains=trains)
    _check_supported(self)
    beats = StepBeats(trains=trains)

    @tf.autograph.experimental.do_not_convert
    def replica_step(data: Any) -> Any:
        for metric in self.metrics:
            _show_whole_batch(metric)
        return _logs_of_whole_batch(step_function(data))

    @tf.autograph.experimental.do_not_convert
    def one_step(data: Any) -> Any:
        beats.traces()
        outputs = strategy.tfdp_run(replica_step, (data,), managed=True)
        return tree.map_structure(
            lambda value: strategy.experimental_local_results(value)[0], outputs
        )

    compiled = _Compiled(one_step)

    @self._autoconvert_optionals
    def take_step(data: Any) -> Any:
        return one_step(data) if self.run_eagerly else compiled(data)

    def function(iterator: Any) -> Any:
        outputs = None
        first = _is_new_pass(self, iterator)
        for _ in range(self.steps_per_execution):
            try:
                beats.reads()
                batch = _next_batch(iterator, strategy)
                beats.runs()
                if first:
                    strategy.tfdp_check_same_batches()
                    first = False
                compiled.spec = getattr(iterator, "element_spec", None)
                outputs = take_step(batch)
                beats.ends()
            except (StopIteration, tf.errors.OutOfRangeError):
                if outputs is None:
                    raise
                break
        return outputs

    return function


class _Compiled:
    """A step that is traced for the types of the data set, not for those of each batch.

    A batch in memory knows its number of rows, and the types of the data set mostly do not. Keras
    weighs the logged loss of each output by the rows that it knows when it traces: it must not
    know more here than on one device. And a last batch that is smaller needs no second trace.
    """

    spec: Any = None
    """Types of the elements of the data set; None where only the batches tell."""

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self._step = step
        self._traced: list[tuple[Any, Callable[[Any], Any]]] = []

    def __call__(self, data: Any) -> Any:
        for spec, function in self._traced:
            if spec == self.spec:
                return function(data)
        signature = None
        if self.spec is not None:
            signature = [_without_absent(data, self.spec)]
        function = tf.function(self._step, input_signature=signature, reduce_retracing=True)
        self._traced.append((self.spec, function))
        return function(data)


def _without_absent(data: Any, spec: Any) -> Any:
    """The types of the data, with None for a component that is absent."""
    return tree.map_structure_up_to(
        data, lambda leaf, leaf_spec: None if leaf is None else leaf_spec, data, spec
    )


def _is_new_pass(model: Any, iterator: Any) -> bool:
    """Whether several workers begin another pass over their data with this iterator."""
    if model.distribute_strategy._tfdp_place()[1] == 1 or not hasattr(iterator, "get_next"):
        return False
    last = getattr(model, "_tfdp_last_iterator", lambda: None)()
    object.__setattr__(model, "_tfdp_last_iterator", weakref.ref(iterator))
    return last is not iterator


def _next_batch(iterator: Any, strategy: Any) -> Any:
    """The next batch, shared out between the replicas.

    Taken outside the step's graph: where the data end, a graph that holds both has counted the
    iteration and drawn the seeds of a step that it then finds no data for.
    """
    if hasattr(iterator, "get_next"):
        return iterator.get_next()
    return strategy.tfdp_split(next(iterator))


def make_predict_function(self: Any, force: bool = False) -> Any:
    """Keras' own, after the check that the replicas can run it."""
    if _replicates(self.distribute_strategy):
        _check_supported(self)
    return _stock_make_predict_function(self, force)


def predict_on_batch(self: Any, x: Any) -> Any:
    """Predicts each row once, in order."""
    strategy = self.distribute_strategy
    if not _replicates(strategy):
        return _stock_predict_on_batch(self, x)
    self.make_predict_function()
    outputs = self.predict_function([strategy.tfdp_split((x,))])
    return tree.map_structure(tf_trainer.convert_to_np_if_not_ragged, outputs)


def get_metrics_result(self: Any) -> Any:
    """Metric values of the whole batch, also inside a step."""
    step = current_step()
    if step is None:
        return _stock_metrics_result(self)
    states = _sum_states(step, self.metrics_variables)
    with backend.StatelessScope(state_mapping=states):
        results = _stock_metrics_result(self)
    return tree.map_structure(mark, results)


def maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
    """Builds the model from the types of the data, without taking a batch from it."""
    strategy = self._distribute_strategy
    if iterator is not None:
        fit_loop.remember_epoch_iterator(self, iterator)
    _check_built_inside(self)
    if strategy is None or not _replicates(strategy):
        _stock_symbolic_build(self, iterator=iterator, data_batch=data_batch)
        return
    _check_supported(self)
    if iterator is not None:
        data_batch = tree.map_structure(_symbolic, iterator.tfdp_element_spec)
    else:
        data_batch = tree.map_structure(_symbolic, data_batch)
    if any(leaf is not None and leaf.shape is None for leaf in tree.flatten(data_batch)):
        _stock_symbolic_build(self, iterator=iterator, data_batch=None)
        return
    with strategy.scope():
        self._symbolic_build(data_batch=data_batch)


def epoch_iterator_init(
    self: Any, distribute_strategy: Any = None, *args: Any, **kwargs: Any
) -> None:
    """`TFEpochIterator.__init__`, which also keeps the types of a whole batch."""
    _stock_epoch_iterator_init(self, distribute_strategy, *args, **kwargs)
    dataset = self._distributed_dataset
    self.tfdp_element_spec = getattr(
        dataset, "tfdp_element_spec", getattr(dataset, "element_spec", None)
    )
    strategy = self._distribute_strategy
    if _replicates(strategy) and strategy._tfdp_place()[1] > 1:
        own_shards = getattr(dataset, "tfdp_own_shards", True)
        batches = getattr(dataset, "tfdp_batches", self.data_adapter.num_batches)
        steps = strategy.tfdp_agree_on_steps(batches, own_shards)
        self.data_adapter = _AgreedLength(self.data_adapter, steps)
        self._num_batches = steps


def _replicates(strategy: Any) -> bool:
    return getattr(strategy, "tfdp_exact", False) and strategy.num_replicas_in_sync > 1


def _check_built_inside(model: Any) -> None:
    """Refuses a model built outside the scope in which its optimizer was made."""
    made_in = getattr(model.optimizer, "_distribution_strategy", None)
    if _replicates(made_in) and model._distribute_strategy is not made_in:
        raise UnsupportedError(
            "the model was built outside the strategy's scope, and compiled inside: its weights "
            "are on one device only.",
            hint="Build and compile inside `with strategy.scope():`.",
        )


def _check_supported(model: Any) -> None:
    """Refuses what cannot be exact, before anything runs."""
    if model.jit_compile:
        raise UnsupportedError(
            "jit_compile=True: XLA cannot compile a step whose replicas are on several devices.",
            hint='Compile the model with jit_compile=False (or leave it at "auto").',
        )
    made_in = getattr(model.optimizer, "_distribution_strategy", model.distribute_strategy)
    if made_in is not model.distribute_strategy:
        raise UnsupportedError(
            "the model was built inside the strategy's scope, and its optimizer outside: the "
            "optimizer's state would be on one device only.",
            hint="Build and compile inside `with strategy.scope():`.",
        )
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False):
            raise UnsupportedError(
                f"the layer {layer.name!r} is stateful: its state belongs to the rows of one "
                "batch in one order, and each replica sees only some of them.",
                hint="Use stateful=False, or train this model on one device.",
            )
    for tensor in getattr(model, "inputs", None) or []:
        if tensor.shape and tensor.shape[0] is not None:
            raise UnsupportedError(
                f"the model's input {tensor.name!r} has the fixed batch size {tensor.shape[0]}, "
                "and a replica works on its share of a batch only.",
                hint="Declare the input without a batch size: keras.Input(shape=...).",
            )


def _logs_of_whole_batch(outputs: Any) -> Any:
    """What a step returns, such that every replica returns the same: that of the whole batch."""
    step = current_step()
    if step is None:
        return outputs
    leaves = tree.flatten(outputs)
    local = [i for i, leaf in enumerate(leaves) if leaf is not None and not is_of_whole_batch(leaf)]
    tensors = [tf.convert_to_tensor(leaves[i]) for i in local]
    for k, tensor in enumerate(tensors):
        if tensor.shape.rank and tensor.shape[0] is None and tensor.dtype != tf.string:
            place = Place(step, tf.shape(tensor, out_type=tf.int64)[0])
            leaves[local[k]] = place.gather(tensor)  # a value for each row
    numeric = [
        k
        for k, tensor in enumerate(tensors)
        if tensor.shape.is_fully_defined() and (tensor.dtype.is_floating or tensor.dtype.is_integer)
    ]
    means = step.row_mean([tensors[k] for k in numeric]) if numeric else []
    for k, mean in zip(numeric, means, strict=True):
        leaves[local[k]] = mean
    return tree.pack_sequence_as(outputs, leaves)


def _sum_states(step: ReplicaStep, variables: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Each metric variable with the sum of the replicas' values."""
    summed = [v for v in variables if v.aggregation == "sum"]
    values = step.sum_packed([tf.convert_to_tensor(v.value) for v in summed])
    return list(zip(summed, values, strict=True))


def _show_whole_batch(metric: Any) -> None:
    """Lets a `train_step` of one's own ask a metric for the value of the whole batch.

    Inside a step a metric has seen the rows of one replica. Keras' own steps ask through
    `get_metrics_result`; those of its guides ask each metric.
    """
    if "result" in vars(metric):
        return
    stock_result = metric.result

    def result(*args: Any, **kwargs: Any) -> Any:
        step = current_step()
        if step is None or backend.in_stateless_scope():
            return stock_result(*args, **kwargs)
        states = _sum_states(step, metric.variables)
        with backend.StatelessScope(state_mapping=states):
            value = stock_result(*args, **kwargs)
        return tree.map_structure(mark, value)

    object.__setattr__(metric, "result", result)


def _symbolic(leaf: Any) -> Any:
    """A type with shape and dtype for one component of a batch; None for an absent one."""
    if isinstance(leaf, tf.distribute.DistributedValues):
        leaf = leaf.values[0]
    if hasattr(leaf, "_value_specs"):  # the spec of a value that each replica has its own of
        leaf = leaf._value_specs[0]
    if leaf is None or isinstance(leaf, (tf.OptionalSpec, tf.NoneTensorSpec)):
        return None
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        leaf = tf.convert_to_tensor(leaf)
    shape = tf.TensorShape(leaf.shape)
    if shape.rank is None:
        return _Unknown()
    if shape.rank == 0:
        raise DataError(
            "a component of the data is a single number, and has no rows to share out between "
            "the replicas.",
            hint="Batch the data set: dataset.batch(global_batch_size).",
        )
    return backend.KerasTensor((None, *shape.as_list()[1:]), backend.standardize_dtype(leaf.dtype))


class _AgreedLength:
    """A data adapter whose length is the one that all workers agreed on."""

    def __init__(self, adapter: Any, num_batches: int | None) -> None:
        self._adapter = adapter
        self.num_batches = num_batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)


class _Unknown:
    """A component whose rank is known only when it is seen."""

    shape = None
