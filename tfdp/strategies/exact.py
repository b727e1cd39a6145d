"""What the mirrored and the multi-worker strategy share."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfdp.collectives import Reducer, hierarchy
from tfdp.collectives.base import Implementation
from tfdp.collectives.between_workers import WorkerReduction
from tfdp.collectives.buckets import DEFAULT_BUCKET_BYTES
from tfdp.collectives.error_feedback import CompressionState
from tfdp.data.digest import remember_first_batch
from tfdp.data.file_shards import files_fault, first_digest, share_files
from tfdp.data.split import check_same_rows, count_rows, shard_batches, split_rows, static_rows
from tfdp.errors import DataError, UnsupportedError
from tfdp.strategies.keras_compat import tensorflow_parts as tfp
from tfdp.strategies.keras_compat import variables
from tfdp.strategies.keras_compat.iterators import iterate_on_host, stays_on_host
from tfdp.strategies.step import ReplicaStep, in_step

_log = logging.getLogger("tfdp")


class ExactStrategy:
    """Mixin for a `tf.distribute.Strategy` whose replicas equal one device."""

    tfdp_exact = True
    tfdp_reducer: Reducer
    tfdp_tuning: dict[str, Any] | None = None
    extended: Any
    num_replicas_in_sync: int

    @functools.cached_property
    def _tfdp_digests(self) -> list[list[int]]:
        return []

    def tfdp_use(self, reducer: Reducer, bucket_bytes: int) -> None:
        """Lets what is traced from now on be reduced so; all workers do the same."""
        self.tfdp_reducer = reducer
        self.extended.tfdp_use(reducer, bucket_bytes)

    @property
    def tfdp_is_chief(self) -> bool:
        """Whether this process writes the files."""
        return self._tfdp_place()[0] == 0

    @property
    def tfdp_sums_accumulators(self) -> bool:
        """Whether gradient accumulators are kept as each replica's part of a sum."""
        return self.num_replicas_in_sync > 1

    @contextlib.contextmanager
    def tfdp_creating_accumulator(self) -> Iterator[None]:
        """Variables created inside hold a part on each replica and read as the sum."""
        self.extended.tfdp_parts_of_a_sum = True
        try:
            yield
        finally:
            self.extended.tfdp_parts_of_a_sum = False

    def tfdp_split(self, batch: Any) -> Any:
        """Shares a whole batch in memory out between the local replicas.

        Args:
            batch: arrays or tensors with one leading dimension; the same on every worker.

        Returns:
            The structure of `batch` with `tf.distribute.DistributedValues`.
        """
        parts = split_rows(batch, *self._tfdp_place())
        return tfp.per_replica(parts)

    def run(
        self,
        fn: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        options: Any = None,
    ) -> Any:
        """`tf.distribute.Strategy.run`, where each replica knows its share of the rows."""
        return self.tfdp_run(fn, args, kwargs, options, managed=False)

    def tfdp_run(
        self,
        fn: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        options: Any = None,
        *,
        managed: bool,
    ) -> Any:
        """`run`; `managed` says whether the convention of `ReplicaStep` holds."""
        if self.num_replicas_in_sync == 1:
            return super().run(fn, args, kwargs, options)  # type: ignore[misc]
        local = [
            tfp.select_replica(replica, (args, kwargs or {}))
            for replica in range(len(self.extended.worker_devices))
        ]
        rows = [count_rows(part) for part in local]
        total = self._tfdp_total_rows(rows)
        may_be_empty = any(not static_rows(part) for part in local)
        converted = tfp.convert_like_run(fn)

        @tf.autograph.experimental.do_not_convert
        def replica_fn(rows: Any, args: Any, kwargs: Any) -> Any:
            def make_step() -> ReplicaStep:
                return ReplicaStep(self, rows, total, may_be_empty, managed)

            return in_step(make_step, converted)(*args, **kwargs)

        passed = None if rows[0] is None else tfp.per_replica(rows)
        return super().run(replica_fn, (passed, args, kwargs or {}), None, options)  # type: ignore[misc]

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Shares every global batch out between the replicas, evenly, to the last row.

        Args:
            dataset: batches of the global size. All workers must produce the same batches in the
                same order; a worker keeps its part of each. A data set whose
                `auto_shard_policy` is OFF holds this worker's own examples instead. With FILE
                each worker reads files of its own, if there are enough; else the policy is DATA.
            options: as in TensorFlow.
        """
        if not isinstance(dataset, tf.data.Dataset):
            return super().experimental_distribute_dataset(dataset, options)  # type: ignore[misc]
        if self.num_replicas_in_sync == 1:
            return self._tfdp_iterated(
                lambda ahead: super(ExactStrategy, self).experimental_distribute_dataset(  # type: ignore[misc]
                    ahead(dataset), options
                ),
                options,
            )
        workload = getattr(dataset, "tfdp_workload", None)
        if workload is not None:
            return self._tfdp_distribute_workload(dataset, workload, options)
        worker, workers, replicas = self._tfdp_place()
        policy = dataset.options().experimental_distribute.auto_shard_policy
        policies = tf.data.experimental.AutoShardPolicy
        by_file = workers > 1 and policy == policies.FILE and self._tfdp_can_share_files(dataset)
        own = by_file or (workers > 1 and policy == policies.OFF)
        if own and not by_file:
            worker, workers = 0, 1
        spec = dataset.element_spec
        check_same_rows(spec)
        digests: list[int] = []
        if workers > 1 and not own:
            dataset = remember_first_batch(dataset, digests)

        def this_workers_share() -> tf.data.Dataset:
            share = share_files if by_file else shard_batches
            return share(dataset, worker, workers, replicas)

        distributed = self._tfdp_distribute_share(this_workers_share, own, options)
        distributed.tfdp_element_spec = spec
        distributed.tfdp_own_shards = own
        if by_file:
            distributed.tfdp_batches = None  # only the end will tell
        if workers > 1 and not own:
            self._tfdp_digests.append(digests)
        return distributed

    def _tfdp_can_share_files(self, dataset: Any) -> bool:
        """Whether all workers find that they can; says why not."""
        workers = self._tfdp_place()[1]
        fault = files_fault(dataset, workers)
        found = self.tfdp_gather_from_workers(0 if fault else 1)
        seen = self.tfdp_gather_from_workers(first_digest(dataset))
        if fault is None and 0 in found:
            fault = f"worker {found.index(0)} cannot read its files"
        if fault is None and len(set(seen)) > 1:
            fault = "the workers read the files in different orders; give shuffles a seed"
        if fault is not None:
            _log.warning("auto_shard_policy FILE is taken for DATA: %s", fault)
        return fault is None

    def _tfdp_distribute_workload(self, dataset: Any, workload: Any, options: Any) -> Any:
        """Shares batches out whose expensive part is still to be done, for a replica's part only.

        Args:
            dataset: the finished batches, of which only the types are looked at.
            workload: see `tfdp.data.batches.Workload`.
            options: as in TensorFlow.
        """
        worker, workers, replicas = self._tfdp_place()
        own = workers > 1 and workload.policy.own
        digests: list[int] = []

        def watched(tickets: tf.data.Dataset) -> tf.data.Dataset:
            return remember_first_batch(tickets, digests, workload.fingerprint())

        watch = None if workers == 1 or own else watched

        def this_workers_share() -> tf.data.Dataset:
            return workload.share(worker, workers, replicas, watch)

        distributed = self._tfdp_distribute_share(this_workers_share, own, options)
        distributed.tfdp_element_spec = dataset.element_spec
        distributed.tfdp_own_shards = own
        if own:
            distributed.tfdp_batches = workload.length(worker, workers)
        if workers > 1 and not own:
            self._tfdp_digests.append(digests)
        return distributed

    def _tfdp_distribute_share(
        self, share: Callable[[], tf.data.Dataset], own: bool, options: Any
    ) -> Any:
        """Hands the elements of this worker's share to its replicas in turn."""
        with self._tfdp_step_counts_may_differ(own):
            return self._tfdp_iterated(
                lambda ahead: self.distribute_datasets_from_function(  # type: ignore[attr-defined]
                    lambda context: ahead(share()), options
                ),
                options,
            )

    def _tfdp_iterated(self, distribute: Callable[[Any], Any], options: Any) -> Any:
        """What `distribute` makes, iterated without a pipeline on each replica where that can be.

        Args:
            distribute: called with a function that it applies to each of its data sets.
            options: the user's, who may have asked for something else.
        """
        devices = self.extended.worker_devices
        if options is not None or not stays_on_host(devices):
            return distribute(lambda dataset: dataset)
        distributed = distribute(lambda dataset: dataset.prefetch(len(devices)))
        iterate_on_host(distributed)
        return distributed

    def tfdp_check_same_batches(self) -> None:
        """Compares what the workers read as the first batch of a pass over the data.

        Called by all workers together, once for each pass.

        Raises:
            DataError: on every worker, if one reads other batches than the chief: each example
                has to be read by all workers and used by one.
        """
        digest = 0
        for digests in self._tfdp_digests:
            if digests:
                digest = digests.pop()
            digests.clear()
        others = self.tfdp_gather_from_workers(digest)
        different = [str(worker) for worker, other in enumerate(others) if other != others[0]]
        if different:
            raise DataError(
                f"worker {', '.join(different)} reads other batches than worker 0: some examples "
                "would be used twice and others never.",
                hint="Every worker has to produce the same global batches in the same order: give "
                "shuffles, splits and generators a seed (keras.utils.set_random_seed). If each "
                "worker reads its own files on purpose, set the data set's auto_shard_policy to "
                "OFF.",
            )

    def tfdp_agree_on_steps(self, batches: int | None, own_shards: bool) -> int | None:
        """How many steps all workers take, where each has found `batches` batches.

        Args:
            batches: of this worker; None where only reaching the end will tell.
            own_shards: whether the workers read data of their own, which may differ in length.

        Returns:
            The largest of the workers' numbers, or None if one does not know.

        Raises:
            DataError: on every worker, if their numbers differ though they read the same data.
        """
        found = self.tfdp_gather_from_workers(-1 if batches is None else batches)
        if len(set(found)) == 1 or own_shards:
            return None if -1 in found else max(found)
        said = ", ".join(
            f"worker {worker}: {'unknown' if count < 0 else count}"
            for worker, count in enumerate(found)
        )
        raise DataError(
            f"the workers have data of different lengths (batches: {said}), and would wait for "
            "each other for ever.",
            hint="Every worker has to produce the same global batches. If each reads its own "
            "files on purpose, set the data set's auto_shard_policy to OFF.",
        )

    def tfdp_gather_from_workers(self, value: int) -> list[int]:
        """One integer (below 2**31) of each worker, in the order of the workers."""
        return [value]

    def tfdp_gather_numbers(self, numbers: Sequence[int]) -> list[list[int]]:
        """As many int64 numbers of each worker, in the order of the workers; a collective."""
        return [list(numbers)]

    @contextlib.contextmanager
    def _tfdp_step_counts_may_differ(self, differ: bool) -> Iterator[None]:
        """Whether replicas have to ask each other, at each step, who still has data."""
        before = self.extended.experimental_enable_get_next_as_optional
        self.extended.experimental_enable_get_next_as_optional = differ
        try:
            yield
        finally:
            self.extended.experimental_enable_get_next_as_optional = before

    def _tfdp_place(self) -> tuple[int, int, int]:
        """`(worker, workers, replicas per worker)`."""
        replicas = len(self.extended.worker_devices)
        worker = int(getattr(self.extended, "_id_in_cluster", 0))
        return worker, self.num_replicas_in_sync // replicas, replicas

    def _tfdp_total_rows(self, rows: Sequence[tf.Tensor | None]) -> tf.Tensor | None:
        """Rows of all replicas where this process sees them all, else None."""
        known = [count for count in rows if count is not None]
        if len(known) < self.num_replicas_in_sync:
            return None
        return tf.add_n(known)


class ExactExtended:
    """Mixin for the `extended` part: where replicas meet, and where they reduce by themselves."""

    tfdp_parts_of_a_sum = False
    tfdp_bucket_bytes = DEFAULT_BUCKET_BYTES
    tfdp_implementation = Implementation.AUTO
    tfdp_cross_device_ops: tf.distribute.CrossDeviceOps | None = None
    tfdp_worker_reduction: WorkerReduction | None = None
    tfdp_gradient_reduction: WorkerReduction | None = None

    @property
    def tfdp_reduces_across_replicas(self) -> bool:
        """Whether the reducer sees all local replicas' values at once."""
        return self.tfdp_cross_device_ops is not None

    def tfdp_collective_ops(self) -> Any:
        """The collective ops that a replica calls for itself."""
        raise NotImplementedError

    def tfdp_sum_when(self, condition: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        """In cross-replica context: the sums of `values` where the condition holds.

        Args:
            condition: a boolean scalar that is the same on all replicas.
            values: tensors, one of each replica each.
        """
        replicas = range(len(self.worker_devices))  # type: ignore[attr-defined]
        first = tfp.select_replica(0, condition)
        local = [list(tfp.select_replica(r, tuple(values))) for r in replicas]

        def reduce() -> list[Any]:
            sums = self.batch_reduce_to(  # type: ignore[attr-defined]
                tf.distribute.ReduceOp.SUM, [(value, value) for value in values]
            )
            return [list(tfp.select_replica(r, tuple(sums))) for r in replicas]

        def keep() -> list[Any]:
            return [[tf.identity(tensor) for tensor in tensors] for tensors in local]

        result = tf.cond(first, reduce, keep)
        return tuple(tfp.per_replica(parts) for parts in zip(*result, strict=True))

    def tfdp_sum_over_workers(
        self,
        values: Sequence[Any],
        when: Any = None,
        *,
        gradients: bool = False,
        state: CompressionState | None = None,
    ) -> list[Any]:
        """In a replica: sums over all replicas, once for each worker between the workers.

        Args:
            values: tensors or IndexedSlices of this replica.
            when: a boolean scalar, the same everywhere; where it is False nothing is reduced.
            gradients: whether they may be rounded on the way, if `compression` was asked for.
            state: what a compression goes on from, where it keeps something.

        Raises:
            UnsupportedError: called in a branch or a nested `tf.function`.
        """
        if not tfp.replicas_can_meet():
            raise UnsupportedError(
                "this cross-device reduction cannot be used inside a branch (tf.cond) or a nested "
                "tf.function: all replicas have to come to it in one order.",
                hint='Use cross_device_ops="ring", or move the reduction out of the branch.',
            )
        reduction = self.tfdp_gradient_reduction if gradients else self.tfdp_worker_reduction
        if len(self.worker_devices) == 1:  # type: ignore[attr-defined]
            return hierarchy.sum_between_workers(
                reduction, values, when, bucket_bytes=self.tfdp_bucket_bytes, state=state
            )

        def meet(strategy: Any, when: Any, *values: Any) -> tuple[Any, ...]:
            del strategy
            return self._tfdp_sum_in_two_levels(reduction, values, when, state)

        context = tf.distribute.get_replica_context()
        return list(context.merge_call(meet, args=(when, *values)))

    def _tfdp_sum_in_two_levels(
        self,
        reduction: WorkerReduction | None,
        values: Sequence[Any],
        when: Any,
        state: CompressionState | None,
    ) -> tuple[Any, ...]:
        """In cross-replica context: sums inside the worker, between workers, and hands out."""
        devices = self.worker_devices  # type: ignore[attr-defined]
        condition = None if when is None else tfp.select_replica(0, when)
        replicas = range(len(devices))
        locals_ = [[tfp.select_replica(r, value) for r in replicas] for value in values]
        sums = hierarchy.sum_between_workers(
            reduction,
            [hierarchy.sum_inside(each) for each in locals_],
            condition,
            bucket_bytes=self.tfdp_bucket_bytes,
            state=state,
        )
        return tuple(tfp.per_replica(hierarchy.spread(each, devices)) for each in sums)

    def _use_merge_call(self) -> bool:
        # Inside a replica Keras and TensorFlow then update the replica's own copy of a variable.
        # Keras' `cond`s (accumulation, loss scaling) work that way only.
        return bool(tf.distribute.in_cross_replica_context())

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        if self.tfdp_parts_of_a_sum:
            kwargs["synchronization"] = tf.VariableSynchronization.ON_READ
            kwargs["aggregation"] = tf.VariableAggregation.SUM
        return variables.adopt(super()._create_variable(next_creator, **kwargs))  # type: ignore[misc]

    def _replica_ctx_all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        if self.tfdp_worker_reduction is not None:
            total = self.tfdp_sum_over_workers(tf.nest.flatten(value))
            if reduce_op == tf.distribute.ReduceOp.MEAN:
                replicas = self._num_replicas_in_sync  # type: ignore[attr-defined]
                total = [each / tf.cast(replicas, each.dtype) for each in total]
            return tf.nest.pack_sequence_as(value, total)
        meet = tf.executing_eagerly() or (
            self.tfdp_reduces_across_replicas and tfp.replicas_can_meet()
        )
        if meet:
            return tfp.StrategyExtended._replica_ctx_all_reduce(self, reduce_op, value, options)
        if options is None:
            options = tf.distribute.experimental.CommunicationOptions(
                bytes_per_pack=self.tfdp_bucket_bytes, implementation=self.tfdp_implementation
            )
        replica = tf.distribute.get_replica_context()._replica_id
        return self.tfdp_collective_ops()._all_reduce(reduce_op, value, replica, options)
