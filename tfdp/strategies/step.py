"""What a replica knows about the step that it is running.

The convention that makes N replicas equal one device:

* Before the reduction a replica holds the gradient of a *mean over its own rows*. A loss with
  another divisor (a mask, sample weights, a sum) is rescaled by `whole_batch_factor` so that it
  obeys the convention too.
* The reduction is a mean weighted by rows: replica r counts `rows_r / rows` (`row_share`). Then
  every row weighs the same however unevenly the batch was cut, a term that does not depend on
  the rows (a weight regulariser) keeps its size, and a replica without rows counts nothing.

That holds for the steps of `fit` and `train_on_batch`, whose code is written as for one device
(`managed`). A training loop that calls `strategy.run` itself follows TensorFlow's rules instead:
it divides its losses by the global batch and the reduction is a plain sum. There, too, Keras'
`Loss` objects return this replica's exact share of the whole batch's loss.

A step belongs to one replica thread of `strategy.run`; `current_step` finds it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfdp.collectives.error_feedback import CompressionState

_local = threading.local()


class ReplicaStep:
    """One replica's view of one step (in a graph: of every step that the trace will run).

    Args:
        strategy: the strategy whose `run` started the step; it has two replicas or more.
        rows: scalar int64, rows of this replica, or None where the step's arguments have none.
        total_rows: rows of all replicas, or None to have them reduced when first asked for.
        may_be_empty: False where it is certain that this replica has at least one row.
        managed: whether the step is one of Keras' own, see above.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        rows: tf.Tensor | None,
        total_rows: tf.Tensor | None,
        may_be_empty: bool,
        managed: bool,
    ) -> None:
        self.managed = managed
        self.strategy = strategy
        self.replicas: int = strategy.num_replicas_in_sync
        self.may_be_empty = may_be_empty and rows is not None
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self.losses: dict[int, list[Any]] = {}
        self.loss_weighted = False
        self.losses_computed = False
        self.gradients_reduced = False
        self.in_optimizer = False
        self._rows = rows
        self._total = total_rows
        self._assigned: dict[int, Any] = {}

    @property
    def rows(self) -> tf.Tensor:
        """Scalar int64: rows of this replica (1 where the step has no rows: all weigh the same)."""
        return tf.constant(1, tf.int64) if self._rows is None else self._rows

    @property
    def total_rows(self) -> tf.Tensor:
        """Scalar int64: rows of all replicas together."""
        if self._total is None:
            if self._rows is None:
                return tf.constant(self.replicas, tf.int64)
            with self._home():
                self._total = self.sum([self._rows])[0]
        return self._total

    def row_share(self, dtype: tf.DType = tf.float64) -> tf.Tensor:
        """Scalar: rows / total rows, 0 in a batch without rows."""
        if self._rows is None:
            return tf.constant(1.0 / self.replicas, dtype)
        share = tf.math.divide_no_nan(
            tf.cast(self.rows, tf.float64), tf.cast(self.total_rows, tf.float64)
        )
        return tf.cast(share, dtype)

    def whole_batch_factor(self, dtype: tf.DType = tf.float64) -> tf.Tensor:
        """Scalar: what makes a mean over this replica's rows of its share of the whole loss.

        Total rows / rows; 0 on a replica without rows; 1 where the reduction is a plain sum.
        """
        if not self.managed:
            return tf.constant(1.0, dtype)
        if self._rows is None:
            return tf.constant(float(self.replicas), dtype)
        inverse = tf.math.divide_no_nan(
            tf.cast(self.total_rows, tf.float64), tf.cast(self.rows, tf.float64)
        )
        return tf.cast(inverse, dtype)

    def sum(self, values: Sequence[Any]) -> list[Any]:
        """Sums each of the tensors or IndexedSlices over all replicas."""
        if not values:
            return []
        context = tf.distribute.get_replica_context()
        return list(context.all_reduce(tf.distribute.ReduceOp.SUM, list(values)))

    def sum_gradients(
        self, gradients: Sequence[Any], state: CompressionState | None = None
    ) -> list[Any]:
        """Like `sum`; between workers the values may be rounded, where `compression` asks for it.

        For gradients alone: rows, divisors and states of metrics have to arrive as they are.

        Args:
            gradients: tensors or IndexedSlices of this replica.
            state: of these gradients, where the compression keeps something.
        """
        extended = self.strategy.extended
        if not gradients or extended.tfdp_worker_reduction is None:
            return self.sum(gradients)
        return list(extended.tfdp_sum_over_workers(list(gradients), gradients=True, state=state))

    def sum_packed(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Sums small dense tensors over all replicas with one reduction for each dtype.

        Between workers the number of rows goes along with the first float64 numbers: a loss sums
        its divisor anyway, and every reduction costs a round trip.
        """
        if self._rows_can_join(tensors):
            *sums, rows = self._sum_packed([*tensors, tf.cast(self.rows, tf.float64)])
            self._total = tf.cast(rows, tf.int64)  # exact below 2**53
            return sums
        return self._sum_packed(tensors)

    def _rows_can_join(self, tensors: Sequence[tf.Tensor]) -> bool:
        """Whether the total is still to be found, and would not be cached in a branch."""
        if self._total is not None or self._rows is None:
            return False
        eager = tf.executing_eagerly()
        at_home = self.graph is None if eager else tf.compat.v1.get_default_graph() is self.graph
        return at_home and any(tensor.dtype == tf.float64 for tensor in tensors)

    def _sum_packed(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        results: list[tf.Tensor | None] = [None] * len(tensors)
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            places = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
            shapes = [tf.shape(tensors[i]) for i in places]
            flat = tf.concat([tf.reshape(tensors[i], [-1]) for i in places], axis=0)
            parts = tf.split(self.sum([flat])[0], [tf.reduce_prod(shape) for shape in shapes])
            for place, part, shape in zip(places, parts, shapes, strict=True):
                results[place] = tf.ensure_shape(tf.reshape(part, shape), tensors[place].shape)
        return [result for result in results if result is not None]

    def row_mean(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Mean over the replicas weighted by rows, of tensors that have one shape everywhere.

        Computed in float64. A replica without rows counts nothing, also where its value is NaN.
        """
        weighted = [self._finite(tensor) for tensor in tensors]
        return [
            tf.cast(total, tensor.dtype)
            for total, tensor in zip(self.sum_packed(weighted), tensors, strict=True)
        ]

    def drop_if_empty(self, gradients: Sequence[Any]) -> list[Any]:
        """The gradients, or zeros on a replica without rows.

        The mean of nothing is NaN, and 0 * NaN is NaN: what an empty replica computed must not
        reach the others. `tf.cond` forwards the tensors of the branch it takes without a copy.
        IndexedSlices have no rows there already.
        """
        gradients = list(gradients)
        dense = [i for i, g in enumerate(gradients) if isinstance(g, tf.Tensor)]
        if not self.may_be_empty or not dense:
            return gradients
        kept = tf.cond(
            self.rows > 0,
            lambda: [tf.identity(gradients[i]) for i in dense],
            lambda: [tf.zeros_like(gradients[i]) for i in dense],
        )
        for place, value in zip(dense, kept, strict=True):
            value.set_shape(gradients[place].shape)
            gradients[place] = value
        return gradients

    def note_assignment(self, variable: Any) -> None:
        """Remembers that this replica assigned its own copy of a model variable."""
        if not self.in_optimizer:
            self._assigned.setdefault(id(variable), variable)

    def agree_on_state(self) -> None:
        """Gives every replica the row-weighted mean of what each assigned to model variables.

        Moving statistics of an unsynchronised BatchNormalization, say: without this the replicas'
        models drift apart, and one without rows keeps NaN.
        """
        variables = list(self._assigned.values())
        self._assigned.clear()
        if not variables:
            return
        means = self.row_mean([variable.read_value() for variable in variables])
        for variable, mean in zip(variables, means, strict=True):
            variable.assign(mean)
        self._assigned.clear()

    @contextlib.contextmanager
    def inside_optimizer(self, *, reduced: bool = False) -> Iterator[None]:
        """Marks that assignments are the optimizer's, and whether gradients are reduced already."""
        before = self.in_optimizer, self.gradients_reduced
        self.in_optimizer = True
        self.gradients_reduced = reduced or self.gradients_reduced
        try:
            yield
        finally:
            self.in_optimizer, self.gradients_reduced = before

    def _finite(self, tensor: tf.Tensor) -> tf.Tensor:
        value = tf.cast(tensor, tf.float64)
        if self.may_be_empty:
            value = tf.where(self.rows > 0, value, tf.zeros_like(value))
        return value * self.row_share()

    def _home(self) -> contextlib.AbstractContextManager[Any]:
        """The graph that the step began in: what is cached must not live in a branch of a cond."""
        return contextlib.nullcontext() if self.graph is None else self.graph.as_default()


def current_step() -> ReplicaStep | None:
    """The step that the calling replica runs, or None outside `strategy.run`.

    None also where there is one replica: then nothing has to be done to equal one device.
    """
    step = getattr(_local, "step", None)
    if step is None or tf.distribute.get_replica_context() is None:
        return None
    return step


def in_step(
    make_step: Callable[[], ReplicaStep], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Wraps a replica function so that `current_step` is known while it runs."""

    @tf.autograph.experimental.do_not_convert
    def run(*args: Any, **kwargs: Any) -> Any:
        step = make_step()
        outer = getattr(_local, "step", None)
        _local.step = step
        try:
            result = function(*args, **kwargs)
            step.agree_on_state()
            return result
        finally:
            _local.step = outer

    return run
