"""Names that Ray has or had and skate does not have, with what to write today.

One table for all who are asked for such a name: the libraries, and `import ray` on skate.
"""

from __future__ import annotations

from collections.abc import Iterable

_ACCELERATE = "use train.torch.TorchTrainer; Accelerator() finds the other workers in its loop"
_PRETRAINED = "use from_pretrained() on the folder of checkpoint.as_directory()"
_DISTRIBUTED = "give a trainer to tune.Tuner, as train.torch.TorchTrainer"
_LIGHTNING = "use train.torch.TorchTrainer with train.lightning.prepare_trainer"
_PIPELINES = "give dataset.map_batches() a class that makes a transformers.pipeline()"
_OWN_SOURCE = "give skate.data.read_datasource a Datasource of your own, or from_arrow a table"
_OWN_SINK = "give write_datasink a Datasink of your own, or write_parquet, and load the files"
_NO_TRACES = "give init(_tracing_startup_hook=...) a function that sets OpenTelemetry up"
_OWN_ROUTER = "derive a router of your own from serve.request_router.RequestRouter"
_OWN_ADAPTER = "derive from serve.task_processor.TaskProcessorAdapter, or use Celery's"
SEARCHERS = "use tune.search.optuna.OptunaSearch, or another searcher of tune.search"

_FILES = "read functions take file_extensions=, partition_filter= and partitioning= by themselves"

FORMER: dict[str, str] = {
    "data.Dataset.to_modin": "write modin.pandas.DataFrame(dataset.to_pandas())",
    "data.Dataset.to_spark": "write spark.createDataFrame(dataset.to_pandas()), or write_parquet",
    "data.Dataset.write_bigquery": _OWN_SINK,
    "data.Dataset.write_clickhouse": _OWN_SINK,
    "data.Dataset.write_kafka": _OWN_SINK,
    "data.Dataset.write_mongo": _OWN_SINK,
    "data.Dataset.write_snowflake": "write_sql takes the DB-API connection of its library",
    "data.Dataset.write_turbopuffer": _OWN_SINK,
    "data.checkpoint": "write_parquet(..., resume=True) goes on where a run was cut short",
    "data.datasource.BaseFileMetadataProvider": _FILES,
    "data.datasource.DefaultFileMetadataProvider": _FILES,
    "data.datasource.DefaultParquetMetadataProvider": _FILES,
    "data.datasource.FastFileMetadataProvider": _FILES,
    "data.datasource.FileExtensionFilter": _FILES,
    "data.datasource.FileMetadataProvider": _FILES,
    "data.datasource.ParquetMetadataProvider": _FILES,
    "data.from_list": "write data.from_items()",
    "data.from_mars": "Mars is no longer kept up; write from_pandas() of its frames",
    "data.from_modin": "write from_pandas(frame.modin.to_pandas())",
    "data.from_spark": "write from_arrow(frame.toArrow()), or read_parquet what Spark has written",
    "data.read_bigquery": _OWN_SOURCE,
    "data.read_clickhouse": _OWN_SOURCE,
    "data.read_databricks_tables": "read_sql takes a connection of databricks.sql.connect()",
    "data.read_delta_sharing_tables": "write from_pandas(delta_sharing.load_as_pandas(url))",
    "data.read_hudi": _OWN_SOURCE,
    "data.read_kafka": _OWN_SOURCE,
    "data.read_lerobot": _OWN_SOURCE,
    "data.read_mcap": _OWN_SOURCE,
    "data.read_mongo": "write from_items(list(collection.find())), or " + _OWN_SOURCE,
    "data.read_snowflake": "read_sql takes a connection of snowflake.connector.connect()",
    "data.read_unity_catalog": "read_delta takes the table's place and storage_options",
    "data.read_zarr": "write from_numpy() of its arrays, or " + _OWN_SOURCE,
    "data.range_arrow": "write data.range_table()",
    "experimental.set_resource": "say what there is in init(resources=...)",
    "serve.RayServeHandle": "it is serve.handle.DeploymentHandle",
    "serve.RayServeSyncHandle": "it is serve.handle.DeploymentHandle; .result() waits",
    "serve.TracingConfig": _NO_TRACES,
    "serve.build": "write serve.run(app)",
    "serve.connect": "serve finds a running instance by itself; leave it out",
    "serve.create_backend": "write @serve.deployment and serve.run(app)",
    "serve.create_endpoint": "write @serve.deployment and serve.run(app, route_prefix=...)",
    "serve.delete_backend": "write serve.delete(name)",
    "serve.delete_endpoint": "write serve.delete(name)",
    "serve.experimental.capacity_queue_router": _OWN_ROUTER,
    "serve.generated": "generate the classes of your messages from your own .proto files",
    "serve.get_deployment": "write serve.get_deployment_handle(name, app_name=...)",
    "serve.get_handle": "write serve.get_deployment_handle(name, app_name=...)",
    "serve.init": "write serve.start()",
    "serve.list_deployments": "write serve.status().applications[name].deployments",
    "serve.llm": "it is not offered; write a deployment around the engine of your models",
    "serve.set_traffic": "run the parts as deployments, with one in front that chooses",
    "serve.taskiq_task_processor": _OWN_ADAPTER,
    "serve.update_backend_config": "write deployment.options(...) and serve.run(app)",
    "train.gbdt_trainer": "use train.xgboost.XGBoostTrainer or train.lightgbm.LightGBMTrainer",
    "train.horovod": "Ray dropped Horovod; use train.torch.TorchTrainer",
    "train.huggingface.AccelerateTrainer": _ACCELERATE,
    "train.huggingface.HuggingFaceCheckpoint": _PRETRAINED,
    "train.huggingface.HuggingFacePredictor": _PIPELINES,
    "train.huggingface.TransformersCheckpoint": _PRETRAINED,
    "train.huggingface.TransformersPredictor": _PIPELINES,
    "train.huggingface.accelerate": _ACCELERATE,
    "train.huggingface.transformers.TransformersCheckpoint": _PRETRAINED,
    "train.huggingface.transformers.TransformersPredictor": _PIPELINES,
    "train.lightning.LightningCheckpoint": "use load_from_checkpoint() of the module's class",
    "train.lightning.LightningConfigBuilder": _LIGHTNING,
    "train.lightning.LightningPredictor": "use predict.torch.TorchPredictor",
    "train.lightning.LightningTrainer": _LIGHTNING,
    "tune.DurableTrainable": "derive from tune.Trainable; storage_path keeps what it saves",
    "tune.automl": SEARCHERS,
    "tune.durable": "give the trainable itself; storage_path keeps what it saves",
    "tune.integration.horovod": _DISTRIBUTED,
    "tune.integration.tensorflow": _DISTRIBUTED,
    "tune.integration.torch": _DISTRIBUTED,
    "tune.integration.wandb.WandbLogger": "use callbacks=[WandbLoggerCallback(project=...)]",
    "tune.logger.MLFLowLogger": "use callbacks=[MLflowLoggerCallback(experiment_name=...)]",
    "tune.search.dragonfly": SEARCHERS,
    "tune.search.flaml": SEARCHERS,
    "tune.search.sigopt": SEARCHERS,
    "tune.search.skopt": SEARCHERS,
    "tune.suggest.dragonfly": SEARCHERS,
    "tune.suggest.flaml": SEARCHERS,
    "tune.suggest.sigopt": SEARCHERS,
    "tune.suggest.skopt": SEARCHERS,
    "tune.track": "write tune.report()",
    "util.data": "Ray dropped MLDataset in 2.0; use data.Dataset",
    "util.horovod": "Ray dropped Horovod; use train.torch.TorchTrainer",
    "util.sgd": "Ray dropped it in 1.13; use train.torch.TorchTrainer",
    "workflow": "Ray dropped it in 2.48; call tasks with the results of others",
}


def hint(name: str) -> str | None:
    """Return what to write today for a name (without `skate.`) or for what it is a part of."""
    while name:
        if name in FORMER:
            return FORMER[name]
        name = name.rpartition(".")[0]
    return None


def no_such_name(owner: str, name: str, known: Iterable[str] = ()) -> str:
    """Return the text of the AttributeError for `skate.<owner>.<name>`, near misses included."""
    from skate._core.nearest import nearest_names

    text = f"{f'skate.{owner}' if owner else 'skate'} has no attribute {name!r}"
    if today := hint(f"{owner}.{name}" if owner else name):
        return f"{text}: {today}"
    near = [] if name.startswith("_") else nearest_names(name, known, 1)
    return f"{text}; did you mean {near[0]!r}?" if near else text
