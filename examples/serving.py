"""A service of two deployments: texts come in over HTTP, and are scored in batches.

python examples/serving.py
"""

from __future__ import annotations

import asyncio
from typing import Any

import fastapi
import httpx

from skate import serve

app = fastapi.FastAPI()


@serve.deployment(max_ongoing_requests=32)
class Scorer:
    """Stands for a model that takes as long for sixteen texts as for one."""

    def __init__(self, words: list[str]) -> None:
        self.words = set(words)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.01)
    async def score(self, texts: list[str]) -> list[float]:
        return [self.share(text.lower().split()) for text in texts]

    def share(self, words: list[str]) -> float:
        return sum(word in self.words for word in words) / max(1, len(words))


@serve.deployment(num_replicas=2)
@serve.ingress(app)
class Api:
    def __init__(self, scorer: Any) -> None:
        self.scorer = scorer

    @app.post("/scores")
    async def scores(self, texts: list[str]) -> list[float]:
        responses = [self.scorer.score.remote(text) for text in texts]
        return list(await asyncio.gather(*responses))


def main() -> None:
    serve.start(http_options={"port": 0})
    serve.run(Api.bind(Scorer.bind(["good", "great"])), route_prefix="/api")
    texts = ["a good day", "so great", "nothing"]
    answer = httpx.post(f"{serve.http_address()}/api/scores", json=texts)
    for text, score in zip(texts, answer.json(), strict=True):
        print(f"{score:.2f}  {text}")
    serve.shutdown()


if __name__ == "__main__":
    main()
