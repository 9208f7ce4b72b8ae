"""Where modules that Ray has moved or dropped live in skate: rows for `_table.HOMES`."""

from __future__ import annotations

from skate._core.former_names import FORMER, SEARCHERS

_INSIDE = "skate.compat.parts.inside"
_PREPROCESSORS = (
    "batch_mapper", "chain", "concatenator", "discretizer", "encoder", "hasher", "imputer",
    "normalizer", "scaler", "tokenizer", "torch", "transformer", "vectorizer",
)  # fmt: skip

# Ray 1.12 and 1.13 had under `ray.ml` what became `ray.air`.
_ML: dict[str, tuple[str, ...]] = {
    "ray.ml": ("skate.air",),
    "ray.ml.config": ("skate.air.config", "skate.compat.parts.training.ml"),
    "ray.ml.predictor": (
        "skate.predict.predictor",
        "skate.predict",
        "skate.air.data_batch_type",
    ),
    "ray.ml.predictors": ("skate.predict",),
    "ray.ml.predictors.integrations": ("skate.predict",),
    "ray.ml.preprocessor": ("skate.data.preprocessor",),
    "ray.ml.preprocessors": ("skate.data.preprocessors",),
    "ray.ml.train": ("skate.train",),
    "ray.ml.train.integrations": ("skate.train",),
    "ray.ml.trainer": ("skate.compat.parts.training.ml", "skate.train.trainer"),
    "ray.ml.utils": (_INSIDE,),
}

HOMES: dict[str, tuple[str, ...]] = {
    **_ML,
    **{
        f"ray.{owner}.preprocessors.{name}": ("skate.data.preprocessors",)
        for owner in ("data", "ml")
        for name in _PREPROCESSORS
    },
    **dict.fromkeys(
        ("ray.data.preprocessors.utils", "ray.ml.preprocessors.utils"),
        ("skate.compat.parts.data.preprocessors", "skate.data.preprocessors"),
    ),
    **{
        f"ray.{path}": ("skate.compat.parts.tuning.searchers",)
        for path, advice in FORMER.items()
        if advice == SEARCHERS and path.startswith(("tune.search.", "tune.suggest."))
    },
    **dict.fromkeys(
        ("ray.air._internal.remote_storage", "ray.ml.utils.remote_storage"),
        ("skate.compat.parts.training.remote_storage", _INSIDE),
    ),
    **dict.fromkeys(
        ("ray.experimental.named_actors", "ray.util.named_actors"),
        ("skate.compat.parts.core.named_actors",),
    ),
    "ray.profiling": ("skate.util.profiling",),
    "ray.experimental.async_api": ("skate.compat.parts.core.async_api",),
    "ray.experimental.multiprocessing": (
        "skate.compat.parts.core.multiprocessing",
        "skate.util.multiprocessing",
    ),
    "ray.util.sklearn": ("skate.util.joblib",),
    "ray.data.grouped_dataset": ("skate.data.grouped_data",),
    "ray.rllib": ("skate.compat.parts.core.rllib",),
    "ray.air.callbacks.keras": ("skate.air.integrations.keras",),
    "ray.tune.trainable.session": ("skate.tune",),
}
