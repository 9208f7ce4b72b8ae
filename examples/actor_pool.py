"""A pool of actors that each load something expensive once and then answer many questions."""

from __future__ import annotations

import skate
from skate.util import ActorPool


@skate.remote
class Speller:
    def __init__(self) -> None:
        # Stands for a model that takes long to load.
        self.ones = "zero one two three four five six seven eight nine".split()

    def spell(self, number: int) -> str:
        return "-".join(self.ones[int(digit)] for digit in str(number))


def spell_all(numbers: list[int], actors: int) -> list[str]:
    pool = ActorPool([Speller.remote() for _ in range(actors)])
    return list(pool.map(lambda speller, number: speller.spell.remote(number), numbers))


if __name__ == "__main__":
    skate.init()
    for word in spell_all([7, 42, 365, 1729], actors=2):
        print(word)
