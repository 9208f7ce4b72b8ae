"""A checkpoint and a predictor as a deployment, as Ray had it until 2.8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.serve import http_adapters
from skate.serve._application.import_paths import import_attribute
from skate.serve._deployment import deployment
from skate.serve._http.ingress import ingress
from skate.serve.batching import batch
from skate.serve.drivers import SimpleSchemaIngress

__all__ = ["PredictorDeployment", "SimpleSchemaIngress"]


class _Predictions(SimpleSchemaIngress):
    """Answers requests with the predictions of a model from a checkpoint."""

    def __init__(
        self,
        predictor_cls: object,
        checkpoint: Any,
        http_adapter: object = http_adapters.json_to_ndarray,
        batching_params: Mapping[str, Any] | bool | None = None,
        predict_kwargs: Mapping[str, Any] | None = None,
        **predictor_from_checkpoint_kwargs: Any,
    ) -> None:
        """Make the predictor.

        Args:
            predictor_cls: A Predictor, or its import path.
            checkpoint: What it is made from.
            http_adapter: Makes the input of a request, as for `drivers.load_http_adapter`.
            batching_params: Those of `serve.batch`, to predict for several requests at once, each
                with one sample; without it, each request is a batch.
            predict_kwargs: For `predict`.
            predictor_from_checkpoint_kwargs: For `from_checkpoint`.
        """
        super().__init__(http_adapter)
        cls: Any = predictor_cls
        cls = import_attribute(cls) if isinstance(cls, str) else cls
        self.predictor = cls.from_checkpoint(checkpoint, **predictor_from_checkpoint_kwargs)
        self.predict_kwargs = dict(predict_kwargs or {})
        self._together = None
        if isinstance(batching_params, Mapping):
            self._together = batch(**batching_params)(self._predict_together)

    async def predict(self, inp: Any) -> Any:
        """Return the predictions for a batch, or for a sample that becomes a part of one."""
        if self._together is not None:
            return await self._together(inp)
        return self.predictor.predict(inp, **self.predict_kwargs)

    async def _predict_together(self, samples: list[Any]) -> list[Any]:
        import numpy as np

        found = self.predictor.predict(np.stack(samples), **self.predict_kwargs)
        if not isinstance(found, Mapping):
            return list(found)
        rows = zip(*found.values(), strict=True)
        return [dict(zip(found, row, strict=True)) for row in rows]


PredictorDeployment: Any = deployment(ingress()(_Predictions), name="PredictorDeployment")
