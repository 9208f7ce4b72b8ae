"""skate.data: datasets for training and batch inference.

    read_* / from_* ──► Dataset (a _plan) ──► _optimizer ──► _executor ──► rows, batches, files
                                                                │
                     Arrow's kernels: threads of this process ◄─┤
                     your functions: tasks, your classes: actors ◄┘  (_stages, _transforms)

A dataset is a stream of blocks (`_blocks`), which are Arrow tables. Arrays of one shape are
Arrow's FixedShapeTensor, arrays of several shapes `RaggedTensorType` (`_tensors`), plain values
the column `item`. Nothing runs until rows are asked for. Then the plan is rewritten so that less
is read, and neighbouring steps are fused, so that rows cross the border of a process once. Blocks
come in order, and only a few are under way: a consumer that stops stops the readers. sort, groupby
and the like (`_exchange`, `grouped_data`) see all rows; what does not fit into memory is dealt out
to partitions in the object store, which spills to disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.data import aggregate, expressions, preprocessors
    from skate.data._arrow.schema import Schema
    from skate.data._execution.compute import ActorPoolStrategy, TaskPoolStrategy
    from skate.data._execution.mixing import MixStoppingCondition
    from skate.data._io.from_memory import (
        from_arrow,
        from_arrow_refs,
        from_blocks,
        from_dask,
        from_huggingface,
        from_items,
        from_numpy,
        from_numpy_refs,
        from_pandas,
        from_pandas_refs,
        from_tf,
        from_torch,
        range,
        range_table,
        range_tensor,
    )
    from skate.data._io.read import (
        read_avro,
        read_binary_files,
        read_csv,
        read_datasource,
        read_delta,
        read_iceberg,
        read_images,
        read_json,
        read_numpy,
        read_orc,
        read_parquet,
        read_sql,
        read_text,
        read_tfrecords,
        read_webdataset,
    )
    from skate.data._plan.seeds import RandomSeedConfig
    from skate.data._settings.context import DataContext, ExecutionOptions, ExecutionResources
    from skate.data.collate_fn import (
        ArrowBatchCollateFn,
        CollateFn,
        NumpyBatchCollateFn,
        PandasBatchCollateFn,
    )
    from skate.data.dataset import Dataset, MaterializedDataset
    from skate.data.dataset_pipeline import DatasetPipeline
    from skate.data.datasource import (
        BlockBasedFileDatasink,
        Datasink,
        Datasource,
        ReadTask,
        RowBasedFileDatasink,
        SaveMode,
    )
    from skate.data.grouped_data import GroupedData
    from skate.data.iterator import DataIterator, NodeIdStr
    from skate.data.preprocessor import Preprocessor
    from skate.data.sources.files import FileShuffleConfig

    DatasetContext = DataContext  # its name in older versions of Ray
    DatasetIterator = DataIterator

# Where each name lives. Workers run functions of this package and need few of its modules, so
# each is loaded when it is first used.
_HOMES = {
    "_execution.compute": "ActorPoolStrategy TaskPoolStrategy",
    "_settings.context": "DataContext ExecutionOptions ExecutionResources",
    "_io.from_memory": (
        "from_arrow from_arrow_refs from_blocks from_dask from_huggingface from_items from_numpy "
        "from_numpy_refs from_pandas from_pandas_refs from_tf from_torch range "
        "range_table range_tensor"
    ),
    "_execution.mixing": "MixStoppingCondition",
    "_io.read": (
        "read_avro read_binary_files read_csv read_datasource read_delta read_iceberg read_images "
        "read_json read_numpy read_orc read_parquet read_sql read_text read_tfrecords "
        "read_webdataset"
    ),
    "_arrow.schema": "Schema",
    "_plan.seeds": "RandomSeedConfig",
    "collate_fn": "ArrowBatchCollateFn CollateFn NumpyBatchCollateFn PandasBatchCollateFn",
    "dataset": "Dataset MaterializedDataset",
    "dataset_pipeline": "DatasetPipeline",
    "datasource": (
        "BlockBasedFileDatasink Datasink Datasource ReadTask RowBasedFileDatasink SaveMode"
    ),
    "grouped_data": "GroupedData",
    "iterator": "DataIterator NodeIdStr",
    "preprocessor": "Preprocessor",
    "sources.files": "FileShuffleConfig",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_OLD_NAMES = {"DatasetContext": "DataContext", "DatasetIterator": "DataIterator"}
_MODULES = (
    "aggregate",
    "block",
    "collate_fn",
    "context",
    "dataset",
    "dataset_pipeline",
    "datasource",
    "datatype",
    "exceptions",
    "expressions",
    "extensions",
    "grouped_data",
    "iterator",
    "preprocessor",
    "preprocessors",
    "random_access_dataset",
    "stats",
)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    current = _OLD_NAMES.get(name, name)
    if current in _HOME:
        found = getattr(import_module(f"skate.data.{_HOME[current]}"), current)
    elif name in _MODULES:
        found = import_module(f"skate.data.{name}")
    else:
        from skate._facade.former_names import no_such_name

        raise AttributeError(no_such_name("data", name, _HOME))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_OLD_NAMES, *_MODULES})


__all__ = [
    "ActorPoolStrategy",
    "ArrowBatchCollateFn",
    "BlockBasedFileDatasink",
    "CollateFn",
    "DataContext",
    "DataIterator",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "DatasetPipeline",
    "Datasink",
    "Datasource",
    "ExecutionOptions",
    "ExecutionResources",
    "FileShuffleConfig",
    "GroupedData",
    "MaterializedDataset",
    "MixStoppingCondition",
    "NodeIdStr",
    "NumpyBatchCollateFn",
    "PandasBatchCollateFn",
    "Preprocessor",
    "RandomSeedConfig",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "aggregate",
    "expressions",
    "from_arrow",
    "from_arrow_refs",
    "from_blocks",
    "from_dask",
    "from_huggingface",
    "from_items",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_tf",
    "from_torch",
    "preprocessors",
    "range",
    "range_table",
    "range_tensor",
    "read_avro",
    "read_binary_files",
    "read_csv",
    "read_datasource",
    "read_delta",
    "read_iceberg",
    "read_images",
    "read_json",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_sql",
    "read_text",
    "read_tfrecords",
    "read_webdataset",
]
