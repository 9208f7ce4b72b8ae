"""The same program on one machine and on a Ray cluster: only the environment differs.

python examples/cluster.py
SKATE_ADDRESS=auto python examples/cluster.py      # on a machine of the cluster
"""

from __future__ import annotations

import os

import skate


@skate.remote
def place(number: int) -> tuple[int, str]:
    return number, skate.get_runtime_context().get_node_id()


def main() -> None:
    answers = skate.get([place.remote(number) for number in range(8)])
    machines = {node for _, node in answers}
    where = os.environ.get("SKATE_ADDRESS", "this machine")
    print(f"{len(answers)} tasks on {where}: {len(machines)} machine(s)")


if __name__ == "__main__":
    main()
