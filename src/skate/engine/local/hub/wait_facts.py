"""Why something that is waited for does not come: the facts, for errors, words and commands.

A wait is for objects, an object comes from a piece of work, and work may wait too: for arguments,
for resources that others hold, for the work before it, or inside a `get` of its own. `WaitGraph`
follows this as far as the hub's tables and the answers of workers (`TellWaits`) lead:

    get ──► B.f ──resources──► A (idle, holds CPU: 2)
    get ──► A.f ──waits──► A.g ──behind──► A.f        a cycle: nobody will ever go on

Nothing here writes, asks or changes anything. The engine's lock is held.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from skate.engine.local.hub.resources import UNIT, from_units

if TYPE_CHECKING:
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.groups import HubGroup
    from skate.engine.local.hub.inventory import Row
    from skate.engine.local.hub.resources import Demand, ResourcePool
    from skate.engine.local.hub.state import State
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.messages import TellWaits
    from skate.engine.local.objects import ObjectEntry

_MOST_NODES = 500
_MOST_EDGES = 16  # of one node
_MOST_HOLDERS = 8
_MOST_ROWS = 10
_MOST_DRAWN = 100  # nodes of a drawing
_MOST_STEPS = 5  # of a chain, in a sentence
STOPPED = ("T", "t")  # by a signal, or by a debugger


class WaitNode:
    """Something that does not come, why, and what it waits for itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cause = "running"
        self.says = ""  # the cause as words that follow the name
        self.pid: int | None = None
        self.where = ""  # in the user's code
        self.needs: dict[str, float] = {}
        self.free: dict[str, float] = {}
        self.holders: list[Row] = []
        self.edges: list[WaitNode] = []
        self.any_of = False  # one of the edges is enough, as for resources
        self.live = False  # nothing keeps it from going on

    def drawn(self) -> Row:
        return {
            "name": self.name,
            "cause": self.cause,
            "pid": self.pid,
            "where": self.where,
            "live": self.live,
            "text": _step(self),
        }

    def row(self, object_id: int) -> Row:
        return {
            "object_id": f"{object_id:056x}",
            "name": self.name,
            "cause": self.cause,
            "worker_pid": self.pid,
            "where": self.where,
            "required_resources": self.needs,
            "free_resources": self.free,
            "holders": self.holders,
            "waits_for": [node.name for node in self.edges],
            "deadlock": [node.name for node in cycle_from(self)],
            "text": sentence(self),
        }


class WaitGraph:
    """The nodes behind some objects, each looked at once."""

    def __init__(
        self,
        state: State,
        machine: ResourcePool,
        said: Mapping[int, TellWaits],  # by process number
        silent: frozenset[int],  # processes that were asked, and have not answered
        process_state: Callable[[int], str],  # of a pid, as in /proc
    ) -> None:
        self._state = state
        self._machine = machine
        self._said = said
        self._silent = silent
        self._process_state = process_state
        self._nodes: dict[Any, WaitNode] = {}
        self._to_look_at: deque[Callable[[], None]] = deque()

    def rows(self, entries: Iterable[ObjectEntry]) -> list[Row]:
        """Return a row for each of the first objects that are not there."""
        pending = [entry for entry in entries if entry.kind is None][:_MOST_ROWS]
        roots = [(entry.id, self._of_entry(entry)) for entry in pending]
        self._look()
        return [node.row(id) for id, node in roots]

    def drawing(self, wanted: Sequence[ObjectEntry], under_way: Iterable[HubTask]) -> Row:
        """Return all nodes and the edges between them, by the numbers of the nodes.

        Args:
            wanted: What the driver waits for.
            under_way: Work to look at besides.
        """
        pending = [entry for entry in wanted if entry.kind is None][:_MOST_ROWS]
        roots = [*dict.fromkeys(self._of_entry(entry) for entry in pending)]
        for task in islice(under_way, _MOST_DRAWN):
            self._of_task(task)
        self._look()
        shown = [*self._nodes.values()][:_MOST_DRAWN]
        numbers = {node: number for number, node in enumerate(shown)}
        stuck = {node for root in shown for node in cycle_from(root)}
        return {
            "nodes": [{**node.drawn(), "deadlock": node in stuck} for node in shown],
            "edges": [
                [numbers[node], numbers[edge]]
                for node in shown
                for edge in dict.fromkeys(node.edges)
                if edge in numbers
            ],
            "driver_waits_for": [numbers[node] for node in roots if node in numbers],
            "reasons": [sentence(node) for node in roots],
        }

    def _look(self) -> None:
        while self._to_look_at and len(self._nodes) < _MOST_NODES:
            self._to_look_at.popleft()()
        self._find_live()

    def _find_live(self) -> None:
        changed = True
        while changed:
            changed = False
            for node in self._nodes.values():
                if not node.live and node.edges:
                    node.live = (any if node.any_of else all)(edge.live for edge in node.edges)
                    changed |= node.live

    def _node(self, key: object, name: str, look: Callable[[WaitNode], None]) -> WaitNode:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = WaitNode(name)
            self._to_look_at.append(lambda: look(node))
        return node

    # -- objects -------------------------------------------------------------------------------

    def _of_entry(self, entry: ObjectEntry) -> WaitNode:
        task, group = entry.task, self._state.groups.get(entry.id)
        if task is not None:
            return self._of_task(task)
        if group is not None:
            return self._of_group(group)
        for worker in self._state.workers.values():
            if entry.id in worker.promised:
                return self._of_id(worker, entry.id)
        return self._node(entry.id, "an object", _nothing_known)

    def _of_id(self, worker: WorkerProcess, id: int) -> WaitNode:
        """Find what a worker waits for: an object, or a call that only it knows of."""
        said = self._said.get(worker.number)
        calls = {call: (actor, method) for call, actor, method in (said.calls if said else ())}
        actor_id, method = calls.get(id, (0, ""))
        actor = self._state.actors.get(actor_id)
        if actor is not None:
            name = f"{actor.class_name}.{method}"
            return self._node(id, name, lambda node: self._look_at_call(node, id, actor))
        entry = self._state.entries.get(id)
        if entry is None or entry.id in worker.promised:
            return self._node(id, f"a value of process {worker.pid}", _nothing_known)
        return self._of_entry(entry)

    def _of_task(self, task: HubTask) -> WaitNode:
        name = task.name
        if task.actor is not None and not task.method:
            name = f"{task.actor.class_name}.__init__"
        return self._node(task.id, name, lambda node: self._look_at_task(node, task))

    def _of_group(self, group: HubGroup) -> WaitNode:
        name = f"placement group {group.name!r}" if group.name else "a placement group"
        demand = group.whole_demand()
        return self._node(group.id, name, lambda node: self._needs(node, demand, [self._machine]))

    # -- work ----------------------------------------------------------------------------------

    def _look_at_task(self, node: WaitNode, task: HubTask) -> None:
        if task.missing:
            missing = [entry for _, entry in task.dependencies if entry.kind is None]
            node.cause = "arguments"
            node.says = "waits for its arguments, from"
            node.edges = [self._of_entry(entry) for entry in missing[:_MOST_EDGES]]
        elif task.worker is not None:
            self._look_at_worker(node, task.id, task.worker, task)
        elif task.actor is not None and task.method:
            self._look_at_unsent(node, task, task.actor)
        else:
            self._look_at_queued(node, task)

    def _look_at_unsent(self, node: WaitNode, task: HubTask, actor: HubActor) -> None:
        before = actor.held_up_by(task)
        if before is not None:
            node.cause, node.edges = "queue", [self._of_task(before)]
            node.says = f"comes after {before.name}, which was called before it"
        else:
            node.cause, node.edges = "starting", [self._of_task(actor.creation)]
            node.says = f"waits until {_actor_name(actor)} has started"

    def _look_at_queued(self, node: WaitNode, task: HubTask) -> None:
        shape = task.plan.shape
        if shape is None:
            _nothing_known(node)
        elif shape.group is not None and shape.group.state == "PENDING":
            node.cause, node.edges = "resources", [self._of_group(shape.group)]
            node.says = "waits for its placement group"
        else:
            group, index = shape.group, shape.bundle
            pools = [self._machine] if group is None else group.pools
            self._needs(node, shape.demand, pools if index < 0 else pools[index : index + 1])

    def _look_at_call(self, node: WaitNode, id: int, actor: HubActor) -> None:
        """Explain a call that went from worker to actor directly."""
        if actor.worker is None:
            node.cause, node.edges = "starting", [self._of_task(actor.creation)]
            node.says = f"waits until {_actor_name(actor)} has started"
        else:
            self._look_at_worker(node, id, actor.worker, None)

    # -- processes -----------------------------------------------------------------------------

    def _look_at_worker(
        self, node: WaitNode, id: int, worker: WorkerProcess, task: HubTask | None
    ) -> None:
        node.pid = worker.pid or None
        if not worker.pid:
            node.cause, node.live = "starting", True
            node.says = "waits for a process to start"
            return
        if self._process_state(worker.pid) in STOPPED:
            node.cause = "stopped"
            go_on = f"kill -CONT {worker.pid} lets it go on"
            node.says = f"is in process {worker.pid}, which is stopped ({go_on})"
            return
        said = self._said.get(worker.number)
        running = self._running(worker)
        if id not in running and running:
            first = next(iter(running))
            node.cause = "queue"
            node.says = f"is behind {running[first][0]} in process {worker.pid}"
            node.edges = [self._of_running(worker, first, running[first][0])]
            return
        _, node.where, reason = running.get(id, ("", "", ""))
        awaited = self._awaited(worker, id)
        if awaited:
            node.cause = "waiting"
            node.says = f"runs in process {worker.pid}{_at(node.where)} and waits for"
            node.edges = [self._of_id(worker, one) for one in awaited[:_MOST_EDGES]]
            return
        node.live = True
        node.says = f"runs in process {worker.pid}{_at(node.where)}"
        if reason:
            node.cause = "library"
            node.says += f": {reason}"
        elif worker.number in self._silent and said is None:
            node.cause = "silent"
            node.says += ", in code that keeps Python's lock: it does not answer"
        elif task is not None and self._is_paused(task):
            node.cause = "backpressure"
            node.says += ", paused until more of its items are taken"

    def _running(self, worker: WorkerProcess) -> dict[int, tuple[str, str, str]]:
        """Return what a process works on, name, place and reason by id: as it has said itself, or
        as the hub assumes."""
        said = self._said.get(worker.number)
        if said is not None:
            return {id: (name, where, reason) for id, name, where, reason in said.running}
        tasks = list(worker.in_flight.values())
        if worker.actor is None or not worker.actor.concurrent:
            tasks = tasks[:1]
        return {task.id: (task.name, "", "") for task in tasks}

    def _of_running(self, worker: WorkerProcess, id: int, name: str) -> WaitNode:
        task = worker.in_flight.get(id)
        if task is not None:
            return self._of_task(task)
        return self._node(id, name, lambda node: self._look_at_worker(node, id, worker, None))

    def _awaited(self, worker: WorkerProcess, id: int) -> list[int]:
        said = self._said.get(worker.number)
        if said is not None:
            return [one for who, ids in said.waits if who in (id, 0) for one in ids]
        return [one for ids in worker.waits.values() for one in ids]

    def _is_paused(self, task: HubTask) -> bool:
        limit = (task.plan.settings or {}).get("backpressure")
        entry = self._state.entries.get(task.id)
        stream = entry.stream if entry is not None else None
        return bool(limit and stream is not None and stream.produced - stream.taken >= limit)

    # -- resources -----------------------------------------------------------------------------

    def _needs(self, node: WaitNode, demand: Demand, pools: Sequence[ResourcePool]) -> None:
        free = {
            name: max((pool.free.get(name, 0) for pool in pools), default=0) for name in demand
        }
        lacking = [name for name, amount in demand.items() if free[name] < amount]
        node.needs = from_units(demand)
        node.free = {name: max(0, free[name]) / UNIT for name in lacking}
        if not lacking:
            node.cause, node.live = "starting", True
            node.says = "waits for a process to start"
            return
        node.cause, node.any_of = "resources", True
        node.says = f"needs {_amounts(node.needs)}, and {_amounts(node.free)} is free"
        for worker in self._state.workers.values():
            taken = worker.allocation
            if taken is None or taken.pool not in pools:
                continue
            held = {n: taken.demand.get(n, 0) for n in lacking}
            held["CPU"] = held.get("CPU", 0) - taken.lent_cpu
            if any(amount > 0 for amount in held.values()):
                self._add_holder(node, worker, from_units(held))
        for group in self._state.groups.values():
            held = {name: group.whole_demand().get(name, 0) for name in lacking}
            if self._machine in pools and group.state == "CREATED" and any(held.values()):
                self._add_group(node, group, from_units(held))

    def _add_holder(self, node: WaitNode, worker: WorkerProcess, held: dict[str, float]) -> None:
        if len(node.holders) >= _MOST_HOLDERS:
            return
        running = self._running(worker)
        actor = worker.actor
        name = _actor_name(actor) if actor is not None else next(iter(running.values()), ("",))[0]
        node.holders.append(
            {
                "name": name or "a worker",
                "pid": worker.pid or None,
                "resources": held,
                "seconds": round(time.monotonic() - worker.since, 1),
                "idle": not running,
            }
        )
        for id, (called, *_) in running.items():
            node.edges.append(self._of_running(worker, id, called))

    def _add_group(self, node: WaitNode, group: HubGroup, held: dict[str, float]) -> None:
        name = f"placement group {group.name!r}" if group.name else "a placement group"
        row = {"name": name, "pid": None, "resources": held, "seconds": None, "idle": False}
        if len(node.holders) < _MOST_HOLDERS:
            node.holders.append(row)


# -- cycles -------------------------------------------------------------------------------------


def cycle_from(node: WaitNode) -> list[WaitNode]:
    """Return the nodes of a cycle of waits that a node leads to, none of which can go on."""
    path: list[WaitNode] = []
    seen: set[WaitNode] = set()
    while node not in seen:
        seen.add(node)
        path.append(node)
        stuck = next((edge for edge in node.edges if not edge.live), None)
        if node.live or stuck is None:
            return []
        node = stuck
    return path[path.index(node) :]


# -- words --------------------------------------------------------------------------------------


def sentence(node: WaitNode) -> str:
    """Return, in words, why a node does not come."""
    cycle = cycle_from(node)
    steps: list[str] = []
    seen: set[WaitNode] = set()
    while node not in seen and len(steps) < _MOST_STEPS:
        seen.add(node)
        steps.append(_step(node))
        following = next((e for e in node.edges if not e.live), next(iter(node.edges), None))
        if following is None:
            break
        node = following
    text = "; ".join(steps)
    return f"deadlock: {text}" if cycle else text


def _step(node: WaitNode) -> str:
    text = f"{node.name} {node.says}"
    if node.holders:
        return f"{text}; {' and '.join(map(_held_by, node.holders))}"
    if node.cause in ("arguments", "waiting") and node.edges:
        names = [*dict.fromkeys(edge.name for edge in node.edges)]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{text} {', '.join(names[:3])}{more}"
    return text


def _held_by(holder: Row) -> str:
    pid = f" (process {holder['pid']})" if holder["pid"] else ""
    idle = ", idle," if holder["idle"] else ""
    since = f" for {holder['seconds']:.0f} s" if holder["seconds"] is not None else ""
    return f"{holder['name']}{pid}{idle} has held {_amounts(holder['resources'])}{since}"


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {amount:g}" for name, amount in amounts.items())


def _actor_name(actor: HubActor) -> str:
    return f"actor {actor.class_name}" + (f" {actor.name!r}" if actor.name else "")


def _at(where: str) -> str:
    return f" at {where}" if where else ""


def _nothing_known(node: WaitNode) -> None:
    node.cause, node.says, node.live = "unknown", "is not there", True


def process_state(pid: int) -> str:
    """Return the letter of a process's state, as `ps` shows it; "" if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_stopped(pid: int) -> bool:
    return process_state(pid) in STOPPED
