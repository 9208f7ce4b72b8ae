"""A pipeline of generators: each stage starts on an item as soon as the one before yields it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import skate

LINES = """
the skate is a small relative of the ray
the ray is large and the skate is quick
quick and small the skate swims on
""".strip().splitlines()


@skate.remote(num_returns="streaming")
def read(copies: int) -> Iterator[str]:
    """A source that takes its time; nobody waits for its end."""
    for _ in range(copies):
        yield from LINES


@skate.remote
def count_words(line: str) -> Counter[str]:
    return Counter(line.split())


def word_count(copies: int) -> Counter[str]:
    # The references go straight from the reader into the counters: the driver sees no line.
    counts = [count_words.remote(line) for line in read.remote(copies)]
    return sum(skate.get(counts), Counter())


if __name__ == "__main__":
    skate.init()
    for word, count in word_count(copies=20).most_common(3):
        print(f"{word:<6} {count}")
