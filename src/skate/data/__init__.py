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
and the like (`_execution/exchange.py`, `grouped_data`) see all rows; what does not fit into memory
is divided and finished by tasks, in partitions in the object store, which spills to disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names
from skate.data._early_start import expect_tasks

expect_tasks()  # beside what else the program imports

if TYPE_CHECKING:
    from skate.data import (
        aggregate as aggregate,
    )
    from skate.data import (
        block as block,
    )
    from skate.data import (
        checkpoint as checkpoint,
    )
    from skate.data import (
        collate_fn as collate_fn,
    )
    from skate.data import (
        context as context,
    )
    from skate.data import (
        dataset as dataset,
    )
    from skate.data import (
        dataset_pipeline as dataset_pipeline,
    )
    from skate.data import (
        datasource as datasource,
    )
    from skate.data import (
        datatype as datatype,
    )
    from skate.data import (
        exceptions as exceptions,
    )
    from skate.data import (
        expressions as expressions,
    )
    from skate.data import (
        extensions as extensions,
    )
    from skate.data import (
        grouped_data as grouped_data,
    )
    from skate.data import (
        iterator as iterator,
    )
    from skate.data import (
        preprocessor as preprocessor,
    )
    from skate.data import (
        preprocessors as preprocessors,
    )
    from skate.data import (
        random_access_dataset as random_access_dataset,
    )
    from skate.data import (
        stats as stats,
    )
    from skate.data._arrow.schema import Schema
    from skate.data._execution.compute import ActorPoolStrategy, TaskPoolStrategy
    from skate.data._execution.mixing import MixStoppingCondition
    from skate.data._execution.options import ExecutionOptions, ExecutionResources
    from skate.data._io.from_memory import (
        from_arrow,
        from_arrow_refs,
        from_blocks,
        from_daft,
        from_dask,
        from_duckdb,
        from_huggingface,
        from_items,
        from_numpy,
        from_numpy_refs,
        from_pandas,
        from_pandas_refs,
        from_polars,
        from_tf,
        from_torch,
        range,
        range_table,
        range_tensor,
        sql,
    )
    from skate.data._io.read import (
        read_avro,
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
    from skate.data._io.read_lakes import read_delta, read_iceberg, read_lance
    from skate.data._io.read_recordings import read_audio, read_videos
    from skate.data._plan.seeds import RandomSeedConfig
    from skate.data._settings.context import DataContext
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
    from skate.data.stats import DatasetSummary

    DatasetContext = DataContext  # its name in older versions of Ray
    DatasetIterator = DataIterator
else:
    __getattr__, __dir__ = lazy_names(__name__)


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
    "DatasetSummary",
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
    "from_daft",
    "from_dask",
    "from_duckdb",
    "from_huggingface",
    "from_items",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_polars",
    "from_tf",
    "from_torch",
    "preprocessors",
    "range",
    "range_table",
    "range_tensor",
    "read_audio",
    "read_avro",
    "read_binary_files",
    "read_csv",
    "read_datasource",
    "read_delta",
    "read_iceberg",
    "read_images",
    "read_json",
    "read_lance",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_sql",
    "read_text",
    "read_tfrecords",
    "read_videos",
    "read_webdataset",
    "sql",
]
