"""Where public names live: one table, from public paths to homes.

Each module has the names of its homes. `new=old` offers a name of the home under another one. What
stands under the module's own path are modules below it, which `dir` lists. Of the modules here,
packages have a file, and offer their names by `skate._core.public_names.lazy_names`; older
spellings and Ray's aliases have none, and can be imported all the same.

`tests/test_paths.py` walks the table.
"""

from __future__ import annotations

from functools import cache

_CONFIGS = "CheckpointConfig FailureConfig RunConfig ScalingConfig SyncConfig"
_CONVERSIONS = "convert_batch_type_to_numpy convert_batch_type_to_pandas"
_CONVERSIONS += " convert_pandas_to_batch_type"
_OF_LOOPS = "get_checkpoint get_context get_dataset_shard report"
_SEARCHING = {
    "skate.tune.search": (
        "BasicVariantGenerator ConcurrencyLimiter Repeater SearchAlgorithm SearchGenerator "
        "Searcher create_searcher grid_search"
    )
}

_TOP = {
    "skate": {
        "skate": (
            "actor air client_builder compat dag data exceptions experimental job_config "
            "job_submission logging_config predict remote_function runtime_env serve "
            "testing train tune util"
        ),
        "skate.client_builder": "client",
        "skate.logging_config": "LoggingConfig",
    },
    "skate.job_submission": {
        "skate.job_submission._client": "JobSubmissionClient",
        "skate.job_submission._details": (
            "DriverInfo JobDetails JobErrorType JobInfo JobStatus JobType"
        ),
    },
    "skate.remote_function": {"skate._facade.remote": "RemoteFunction"},
    "skate.dag": {
        "skate.dag.class_node": "ClassMethodNode ClassNode",
        "skate.dag.compiled_dag_node": "CompiledDAG",
        "skate.dag.constants": "PARENT_CLASS_NODE_KEY PREV_CLASS_METHOD_CALL_KEY",
        "skate.dag.context": "DAGContext",
        "skate.dag.dag_node": "DAGNode",
        "skate.dag.function_node": "FunctionNode",
        "skate.dag.input_node": "DAGInputData InputAttributeNode InputNode",
        "skate.dag.output_node": "MultiOutputNode",
    },
    "skate.experimental": {
        "skate.experimental": "tf_utils tqdm_ray",
        "skate.experimental.dynamic_resources": "set_resource",
        "skate.experimental.locations": "get_local_object_locations get_object_locations",
        "skate.experimental.tensor_transport": (
            "CommunicatorMetadata TensorTransportManager TensorTransportMetadata "
            "register_tensor_transport wait_tensor_freed"
        ),
        "skate.experimental.tf_utils": "TensorFlowVariables",
    },
    "skate.util": {
        "skate.util": (
            "collective executor joblib metrics multiprocessing queue scheduling_strategies state"
        ),
        "skate.util.executor": "CallCrashedError Executor",
    },
    "skate.util.collective": {
        "skate.util.collective.backend_registry": "register_collective_backend",
        "skate.util.collective.collective": (
            "allgather allreduce barrier broadcast create_collective_group "
            "destroy_collective_group get_collective_group_size get_rank gloo_available "
            "init_collective_group is_backend_available is_group_initialized nccl_available recv "
            "reduce reducescatter send"
        ),
        "skate.util.collective.types": "Backend ReduceOp",
    },
    "skate.util.joblib.ray_backend": {"skate.util.joblib._backend": "RayBackend=SkateBackend"},
    "skate.util.multiprocessing": {
        "multiprocessing": "JoinableQueue TimeoutError",
        "skate.util.multiprocessing._results": "AsyncResult IMapIterator",
        "skate.util.multiprocessing.pool": "Pool",
    },
    "skate.util.serialization": {
        "skate._core.serialization": "deregister_serializer register_serializer",
    },
}

_DATA = {
    "skate.data": {
        "skate.data": (
            "aggregate block checkpoint collate_fn context dataset dataset_pipeline datasource "
            "datatype exceptions expressions extensions grouped_data iterator preprocessor "
            "preprocessors random_access_dataset stats"
        ),
        "skate.data._arrow.schema": "Schema",
        "skate.data._execution.compute": "ActorPoolStrategy TaskPoolStrategy",
        "skate.data._execution.mixing": "MixStoppingCondition",
        "skate.data._execution.options": "ExecutionOptions ExecutionResources",
        "skate.data._io.from_memory": (
            "from_arrow from_arrow_refs from_blocks from_daft from_dask from_duckdb "
            "from_huggingface from_items from_numpy from_numpy_refs from_pandas from_pandas_refs "
            "from_polars from_tf from_torch range range_table range_tensor sql"
        ),
        "skate.data._io.read": (
            "read_avro read_binary_files read_csv read_datasource read_images read_json "
            "read_numpy read_orc read_parquet read_sql read_text read_tfrecords read_webdataset"
        ),
        "skate.data._io.read_lakes": "read_delta read_iceberg read_lance",
        "skate.data._io.read_recordings": "read_audio read_videos",
        "skate.data._plan.seeds": "RandomSeedConfig",
        "skate.data._settings.context": "DataContext DatasetContext=DataContext",
        "skate.data.collate_fn": (
            "ArrowBatchCollateFn CollateFn NumpyBatchCollateFn PandasBatchCollateFn"
        ),
        "skate.data.dataset": "Dataset MaterializedDataset",
        "skate.data.dataset_pipeline": "DatasetPipeline",
        "skate.data.datasource": (
            "BlockBasedFileDatasink Datasink Datasource ReadTask RowBasedFileDatasink SaveMode"
        ),
        "skate.data.grouped_data": "GroupedData",
        "skate.data.iterator": "DataIterator DatasetIterator=DataIterator NodeIdStr",
        "skate.data.preprocessor": "Preprocessor",
        "skate.data.sources.files": "FileShuffleConfig",
        "skate.data.stats": "DatasetSummary",
    },
    "skate.data.preprocessors": {
        "skate.data.preprocessor": "Preprocessor PreprocessorNotFittedError",
        "skate.data.preprocessors.chain": "BatchMapper Chain",
        "skate.data.preprocessors.columns": "Concatenator SimpleImputer TorchVisionPreprocessor",
        "skate.data.preprocessors.discretizers": "CustomKBinsDiscretizer UniformKBinsDiscretizer",
        "skate.data.preprocessors.encoders": (
            "Categorizer LabelEncoder MultiHotEncoder OneHotEncoder OrdinalEncoder"
        ),
        "skate.data.preprocessors.scalers": (
            "MaxAbsScaler MinMaxScaler Normalizer PowerTransformer RobustScaler StandardScaler"
        ),
        "skate.data.preprocessors.text": (
            "CountVectorizer FeatureHasher HashingVectorizer Tokenizer"
        ),
    },
}

_TRAIN = {
    "skate.train": {
        "skate.train": (
            "base_trainer batch_predictor callbacks collective constants context error predictor "
            "session trainer"
        ),
        "skate.train.callbacks": "TrainingCallback",
        "skate.train.trainer": "CheckpointStrategy Trainer TrainingIterator",
    },
    "skate.train.batch_predictor": {"skate.predict.batch_predictor": "BatchPredictor"},
    "skate.train.context": {
        "skate._run.context": "TrainContext",
        "skate._run.session": "get_context",
    },
    "skate.train.error": {"skate._run.session": "SessionMisuseError"},
    "skate.train.huggingface": {
        "skate.train.huggingface": "transformers",
        "skate.train.huggingface.transformers": (
            "HuggingFaceTrainer RayTrainReportCallback TrainReportCallback TransformersTrainer "
            "prepare_trainer"
        ),
    },
    "skate.train.lightgbm": {"skate.predict.lightgbm": "LightGBMPredictor"},
    "skate.train.predictor": {
        "skate.predict": "BatchFormat Predictor PredictorNotSerializableException",
        "skate.predict.batch_conversion": "DataBatchType TYPE_TO_ENUM",
    },
    "skate.train.sklearn": {"skate.predict.sklearn": "SklearnPredictor"},
    "skate.train.tensorflow": {
        "skate.predict.tensorflow": "TensorflowPredictor",
        "skate.train.tensorflow": "keras",
    },
    "skate.train.torch": {"skate.predict.torch": "TorchPredictor"},
    "skate.train.torch.config": {"skate.train.torch._config": "TorchBackend TorchConfig"},
    "skate.train.torch.train_loop_utils": {
        "skate.train.torch": (
            "accelerate backward enable_reproducibility get_device get_devices "
            "prepare_data_loader prepare_model prepare_optimizer"
        ),
    },
    "skate.train.xgboost": {"skate.predict.xgboost": "XGBoostPredictor"},
    "skate.predict": {
        "skate.predict._batches": "BatchFormat",
        "skate.predict.batch_predictor": "BatchPredictor",
        "skate.predict.lightgbm": "LightGBMPredictor",
        "skate.predict.predictor": "Predictor PredictorNotSerializableException",
        "skate.predict.sklearn": "SklearnPredictor",
        "skate.predict.tensorflow": "TensorflowPredictor",
        "skate.predict.torch": "TorchPredictor",
        "skate.predict.xgboost": "XGBoostPredictor",
    },
}

_TUNE = {
    # A trial's process needs few of these: it is started quickly because the others wait.
    "skate.tune": {
        "skate._run.callbacks": "Callback",
        "skate._run.checkpoint": "Checkpoint",
        "skate._run.config": "CheckpointConfig FailureConfig RunConfig SyncConfig",
        "skate._run.context": "TuneContext=TrainContext",
        "skate._run.result": "Result",
        "skate._run.session": "get_checkpoint get_context report",
        "skate.tune.analysis.experiment_analysis": "Analysis ExperimentAnalysis",
        "skate.tune.error": "TuneError",
        "skate.tune.execution.placement_groups": "PlacementGroupFactory",
        "skate.tune.execution.session": (
            "checkpoint_dir get_trial_dir get_trial_id get_trial_name get_trial_resources "
            "is_session_enabled make_checkpoint_dir save_checkpoint"
        ),
        "skate.tune.experiment.experiment": "Experiment",
        "skate.tune.progress_reporter": "CLIReporter JupyterNotebookReporter ProgressReporter",
        "skate.tune.registry": "register_env register_trainable",
        "skate.tune.result_grid": "ResultGrid",
        "skate.tune.running": "run run_experiments",
        "skate.tune.schedulers": "create_scheduler",
        "skate.tune.search": "create_searcher grid_search",
        "skate.tune.search.sample": (
            "choice lograndint loguniform qlograndint qloguniform qrandint qrandn quniform "
            "randint randn sample_from uniform"
        ),
        "skate.tune.stopper.stopper": "Stopper",
        "skate.tune.trainable.trainable": "Trainable",
        "skate.tune.trainable.util": "with_parameters with_resources",
        "skate.tune.tune_config": "ResumeConfig TuneConfig",
        "skate.tune.tuner": "Tuner",
    },
    "skate.tune.analysis": {"skate.tune.analysis.experiment_analysis": "ExperimentAnalysis"},
    "skate.tune.callback": {"skate._run.callbacks": "Callback CallbackList"},
    "skate.tune.context": {
        "skate._run.context": "TuneContext=TrainContext",
        "skate._run.session": "get_context",
    },
    "skate.tune.experiment": {
        "skate.tune.experiment.experiment": "Experiment",
        "skate.tune.experiment.trial": "Trial",
    },
    "skate.tune.search.ax": {"skate.tune.search.ax.ax_search": "AxSearch"},
    "skate.tune.search.bayesopt": {
        "skate.tune.search.bayesopt.bayesopt_search": "BayesOptSearch",
    },
    "skate.tune.search.bohb": {
        "skate.tune.search.bohb.bohb_search": "BOHB=TuneBOHB TuneBOHB",
    },
    "skate.tune.search.hebo": {"skate.tune.search.hebo.hebo_search": "HEBOSearch"},
    "skate.tune.search.hyperopt": {
        "skate.tune.search.hyperopt.hyperopt_search": "HyperOptSearch",
    },
    "skate.tune.search.nevergrad": {
        "skate.tune.search.nevergrad.nevergrad_search": "NevergradSearch",
    },
    "skate.tune.search.optuna": {"skate.tune.search.optuna.optuna_search": "OptunaSearch"},
    "skate.tune.search.zoopt": {"skate.tune.search.zoopt.zoopt_search": "ZOOptSearch"},
    "skate.tune.stopper": {
        "skate.tune.stopper.experiment_plateau": "ExperimentPlateauStopper",
        "skate.tune.stopper.function_stopper": "FunctionStopper",
        "skate.tune.stopper.maximum_iteration": "MaximumIterationStopper",
        "skate.tune.stopper.noop": "NoopStopper",
        "skate.tune.stopper.stopper": "CombinedStopper Stopper",
        "skate.tune.stopper.timeout": "TimeoutStopper",
        "skate.tune.stopper.trial_plateau": "TrialPlateauStopper",
    },
    "skate.tune.suggest": _SEARCHING,
    "skate.tune.suggest.basic_variant": {
        "skate.tune.search.basic_variant": "BasicVariantGenerator",
    },
    "skate.tune.suggest.ax": {"skate.tune.search.ax": "AxSearch"},
    "skate.tune.suggest.bayesopt": {"skate.tune.search.bayesopt": "BayesOptSearch"},
    "skate.tune.suggest.bohb": {"skate.tune.search.bohb": "TuneBOHB"},
    "skate.tune.suggest.hebo": {"skate.tune.search.hebo": "HEBOSearch"},
    "skate.tune.suggest.hyperopt": {"skate.tune.search.hyperopt": "HyperOptSearch"},
    "skate.tune.suggest.nevergrad": {"skate.tune.search.nevergrad": "NevergradSearch"},
    "skate.tune.suggest.optuna": {"skate.tune.search.optuna": "OptunaSearch"},
    "skate.tune.suggest.zoopt": {"skate.tune.search.zoopt": "ZOOptSearch"},
    "skate.tune.trainable": {
        "skate.tune.trainable.function_trainable": "FunctionTrainable wrap_function",
        "skate.tune.trainable.trainable": "Trainable",
        "skate.tune.trainable.util": "with_parameters with_resources",
    },
    # Nothing imports this one: functions that use the name `tune` would take it along to the
    # process of each trial, and with it all that a search needs and a trial does not.
    "skate.tune.tune": {"skate.tune.running": "run run_experiments"},
    "skate.tune.utils": {
        "skate.tune.utils._checks": (
            "diagnose_serialization validate_save_restore validate_warmstart wait_for_gpu"
        ),
        "skate.tune.utils.util": (
            "date_str deep_update flatten_dict merge_dicts unflatten_dict unflatten_list_dict "
            "unflattened_lookup"
        ),
    },
}

_SERVE = {
    "skate.serve": {
        "skate.serve": (
            "air_integrations batching config context deployment_graph drivers exceptions "
            "gradio_integrations grpc_util handle http_adapters metrics multiplex schema"
        ),
        "skate.serve._api": (
            "RunTarget _run _run_many delete get_app_handle get_deployment_handle run run_many "
            "shutdown shutdown_async start status"
        ),
        "skate.serve._deployment": "Application Deployment deployment",
        "skate.serve._grpc.start": "grpc_address",
        "skate.serve._http.address": "http_address",
        "skate.serve._http.ingress": "ingress",
        "skate.serve._replica.deployment_actors": (
            "get_deployment_actor get_deployment_actor_context"
        ),
        "skate.serve.air_integrations": "PredictorDeployment",
        "skate.serve.batching": "batch",
        "skate.serve.config": "ControllerOptions HTTPOptions",
        "skate.serve.context": "get_replica_context get_trace_context",
        "skate.serve.drivers": "DAGDriver",
        "skate.serve.multiplex": "get_multiplexed_model_id multiplexed",
    },
}

# The names of Ray AIR, an era of Ray, and the paths of its beginning.
_AIR = {
    "skate.air": {
        "skate.air": "callbacks checkpoint config integrations predictors result session util",
        "skate.train": f"Checkpoint DataConfig Result {_CONFIGS}",
        "skate.train._dataset_config": "DatasetConfig",
        "skate.predict": "BatchPredictor Predictor",
        "skate.predict.batch_conversion": "DataBatchType",
    },
    "skate.air.batch_predictor": {"skate.predict": "BatchPredictor"},
    "skate.air.callbacks": {},
    "skate.air.callbacks.comet": {"skate._run.loggers.comet": "CometLoggerCallback"},
    "skate.air.callbacks.mlflow": {
        "skate._run.loggers.mlflow": "MLflowLoggerCallback setup_mlflow",
    },
    "skate.air.callbacks.wandb": {"skate._run.loggers.wandb": "WandbLoggerCallback setup_wandb"},
    "skate.air.checkpoint": {"skate.train": "Checkpoint"},
    "skate.air.config": {
        "skate.train": _CONFIGS,
        "skate.train._dataset_config": "DatasetConfig",
    },
    "skate.air.constants": {
        "skate.train.constants": (
            "EVALUATION_DATASET_KEY MAX_REPR_LENGTH MODEL_KEY PREPROCESSOR_KEY TENSOR_COLUMN_NAME "
            "TRAIN_DATASET_KEY"
        ),
    },
    "skate.air.data_batch_type": {"skate.predict.batch_conversion": "DataBatchType"},
    "skate.air.predictor": {"skate.predict": "Predictor"},
    "skate.air.predictors": {},
    "skate.air.predictors.integrations": {},
    "skate.air.predictors.integrations.lightgbm": {"skate.predict": "LightGBMPredictor"},
    "skate.air.predictors.integrations.sklearn": {"skate.predict": "SklearnPredictor"},
    "skate.air.predictors.integrations.tensorflow": {"skate.predict": "TensorflowPredictor"},
    "skate.air.predictors.integrations.torch": {"skate.predict": "TorchPredictor"},
    "skate.air.predictors.integrations.xgboost": {"skate.predict": "XGBoostPredictor"},
    "skate.air.predictors.predictor": {"skate.predict": "Predictor"},
    "skate.air.result": {"skate.train": "Result"},
    "skate.air.session": {
        "skate.train.session": (
            f"{_OF_LOOPS} get_experiment_name get_local_rank get_local_world_size get_node_rank "
            "get_trial_dir get_trial_id get_trial_name get_trial_resources get_world_rank "
            "get_world_size"
        ),
    },
    "skate.air.train": {},
    "skate.air.train.integrations": {},
    "skate.air.train.integrations.torch": {
        "skate.train.torch": "TorchConfig TorchTrainer load_checkpoint",
    },
    "skate.air.util": {},
    "skate.air.util.check_ingest": {
        "skate.train.check_ingest": "DummyTrainer make_local_dataset_iterator",
    },
    "skate.air.util.data_batch_conversion": {
        "skate.predict.batch_conversion": (
            f"BatchFormat BlockFormat DataType {_CONVERSIONS} "
            + " ".join(f"_{name}={name}" for name in _CONVERSIONS.split())
        ),
    },
}

# What has another name in Ray, for `import ray` on skate.
_COMPAT = {
    "skate.compat.parts.tests": {},
    "skate.compat.parts.training.lightning_utils": {
        "skate.train.lightning._package": "import_lightning=lightning_module",
    },
    "skate.compat.parts.training.ml": {
        "skate.train": "ScalingConfigDataClass=ScalingConfig",
        "skate.train.base_trainer": "Trainer=BaseTrainer",
    },
    "skate.compat.parts.tuning.runner": {
        "skate.tune.execution.controller": "TrialRunner=TuneController",
    },
    "skate.compat.parts.tuning.sample": {
        "skate.tune.search.sample": "_BackwardsCompatibleNumpyRng=Rng",
    },
}

PATHS: dict[str, dict[str, str]] = {
    **_TOP, **_DATA, **_TRAIN, **_TUNE, **_SERVE, **_AIR, **_COMPAT,
}  # fmt: skip

# Where modules were whose classes and functions pickles may name, and where they are now.
FORMER_MODULES: dict[str, str] = {
    "skate._actor": "skate._facade.actor",
    "skate._errors": "skate._core.errors",
    "skate._ids": "skate._core.ids",
    "skate._refs": "skate._core.refs",
    "skate._remote": "skate._facade.remote",
    "skate._serialization": "skate._core.serialization",
    "skate.data._aggregate_base": "skate.data._aggregates.base",
    "skate.data._aggregate_values": "skate.data._aggregates.values",
    "skate.data._blocks": "skate.data._arrow.blocks",
    "skate.data._compute": "skate.data._execution.compute",
    "skate.data._context": "skate.data._settings.context",
    "skate.data._execution_options": "skate.data._execution.options",
    "skate.data._mixing": "skate.data._execution.mixing",
    "skate.data._pandas_tensors": "skate.data._arrow.pandas_tensors",
    "skate.data._partitioning": "skate.data._io.partitioning",
    "skate.data._schema": "skate.data._arrow.schema",
    "skate.data._seeds": "skate.data._plan.seeds",
    "skate.data._sinks": "skate.data._io.sinks",
    "skate.data._tensors": "skate.data._arrow.tensors",
}


@cache
def homes(module: str) -> dict[str, tuple[str, str]]:
    """Return, for each name of a public module, the module it lives in and its name there."""
    return dict(_rows(module))


def _rows(module: str) -> list[tuple[str, tuple[str, str]]]:
    rows = []
    for home, names in PATHS.get(module, {}).items():
        for name in names.split():
            public, _, there = name.partition("=")
            below = (f"{module}.{public}", "")  # the module itself, and no name in it
            rows.append((public, below if home == module else (home, there or public)))
    return rows


def is_module(name: str) -> bool:
    """Return whether `name` is a module by this table, with or without a file."""
    return name in PATHS or name in FORMER_MODULES


def is_package(name: str) -> bool:
    """Return whether the table has modules below `name`."""
    return any(path.startswith(f"{name}.") for path in PATHS)


def describe(name: str) -> str:
    """Return the docstring of a module that has no file."""
    homes_of = FORMER_MODULES.get(name) or ", ".join(PATHS[name]) or "the modules below"
    return f"Another path to names of {homes_of}."
