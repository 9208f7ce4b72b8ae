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

from skate.data import aggregate, expressions
from skate.data._compute import ActorPoolStrategy, TaskPoolStrategy
from skate.data._context import DataContext, ExecutionOptions, ExecutionResources
from skate.data._from import (
    from_arrow,
    from_arrow_refs,
    from_blocks,
    from_huggingface,
    from_items,
    from_numpy,
    from_numpy_refs,
    from_pandas,
    from_pandas_refs,
    from_tf,
    from_torch,
    range,
    range_tensor,
)
from skate.data._read import (
    read_binary_files,
    read_csv,
    read_datasource,
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
from skate.data._schema import Schema
from skate.data.dataset import Dataset, MaterializedDataset
from skate.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    Datasource,
    ReadTask,
    RowBasedFileDatasink,
    SaveMode,
)
from skate.data.grouped_data import GroupedData
from skate.data.iterator import DataIterator
from skate.data.sources.files import FileShuffleConfig

DatasetContext = DataContext  # its name in older versions of Ray
DatasetIterator = DataIterator

__all__ = [
    "ActorPoolStrategy",
    "BlockBasedFileDatasink",
    "DataContext",
    "DataIterator",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "Datasink",
    "Datasource",
    "ExecutionOptions",
    "ExecutionResources",
    "FileShuffleConfig",
    "GroupedData",
    "MaterializedDataset",
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
    "from_huggingface",
    "from_items",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_tf",
    "from_torch",
    "range",
    "range_tensor",
    "read_binary_files",
    "read_csv",
    "read_datasource",
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
