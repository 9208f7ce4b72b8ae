"""A checkpoint and a predictor as a deployment, as Ray had it until 2.8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skate.serve import http_adapters
from skate.serve._application.import_paths import import_attribute
from skate.serve._deployment import deployment
from skate.serve.batching import batch

__all__ = ["PredictorDeployment"]


class _Predictions:
    """Answers requests with the predictions of a model from a checkpoint."""

    def __init__(
        self,
        predictor_cls: object,
        checkpoint: Any,
        http_adapter: str | Callable[..., Any] = http_adapters.json_to_ndarray,
        batching_params: Mapping[str, Any] | bool | None = None,
        predict_kwargs: Mapping[str, Any] | None = None,
        **predictor_from_checkpoint_kwargs: Any,
    ) -> None:
        """Make the predictor.

        Args:
            predictor_cls: A Predictor, or its import path.
            checkpoint: What it is made from.
            http_adapter: Makes the input of a request, or its import path.
            batching_params: Those of `serve.batch`, to predict for several requests at once, each
                with one sample; without it, each request is a batch.
            predict_kwargs: For `predict`.
            predictor_from_checkpoint_kwargs: For `from_checkpoint`.
        """
        cls = _resolved(predictor_cls)
        self.predictor = cls.from_checkpoint(checkpoint, **predictor_from_checkpoint_kwargs)
        self.adapter = _resolved(http_adapter)
        self.predict_kwargs = dict(predict_kwargs or {})
        self._together = None
        if isinstance(batching_params, Mapping):
            self._together = batch(**batching_params)(self._predict_together)

    async def __call__(self, request: object) -> Any:
        return await self.predict(await self.adapter(request))

    async def predict(self, data: Any) -> Any:
        """Return the predictions for a batch, or for a sample that becomes a part of one."""
        if self._together is not None:
            return await self._together(data)
        return self.predictor.predict(data, **self.predict_kwargs)

    async def _predict_together(self, samples: list[Any]) -> list[Any]:
        import numpy as np

        found = self.predictor.predict(np.stack(samples), **self.predict_kwargs)
        if not isinstance(found, Mapping):
            return list(found)
        rows = zip(*found.values(), strict=True)
        return [dict(zip(found, row, strict=True)) for row in rows]


def _resolved(value: object) -> Any:
    return import_attribute(value) if isinstance(value, str) else value


PredictorDeployment: Any = deployment(_Predictions, name="PredictorDeployment")
