"""Whether the workload's memory is where its CPUs are."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome, Setting
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.ends import alike
from probes.cpulist import format_cpulist
from probes.host import ProbeError, known
from probes.numa import HAS_MEMORY, POOL_DIR, Numa, OwnMemory, Pool
from probes.topology import NODE_DIR

SMALL_BYTES = 16 << 20
"""Less is the start-up of a process, of which nothing depends."""


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.NUMA."""
    numa = known(ctx.observation.facts.numa)
    if len(numa.cpus) == 1:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="all memory is of one node")
        return

    def judge(cpu: int) -> tuple[Outcome, str]:
        node = _node(numa, cpu)
        problems = [*_of_node(numa, node), *_of_workload(ctx, numa, cpu, node)]
        if problems:
            return Outcome.WARN, f"on node {node}: {'; '.join(problems)}"
        if gap := next(_gaps(ctx, numa, cpu), None):
            raise gap
        if not ctx.own_on(cpu):
            return Outcome.NOT_APPLICABLE, f"on node {node}; no own thread is here whose memory could be judged"
        return Outcome.PASS, f"on node {node}, and so is what is seen of the workload's memory"

    yield from alike(
        ctx, rule, judge, evidence=lambda cpus: _evidence(ctx, numa, cpus), fix=lambda cpus: _fix(ctx, numa, cpus)
    )


def _node(numa: Numa, cpu: int) -> int:
    node = numa.node_of(cpu)
    if node is None:
        unread = (cpus for cpus in numa.cpus.values() if isinstance(cpus, ProbeError))
        raise next(unread, ProbeError(NODE_DIR, f"no node names CPU {cpu}"))
    return node


def _of_node(numa: Numa, node: int) -> Iterator[str]:
    if not isinstance(numa.memory, ProbeError) and node not in numa.memory:
        yield "it has no memory"
    for size, total in sorted(_elsewhere(numa, node).items()):
        yield f"none of the {total} huge pages of {size} KiB are there"


def _elsewhere(numa: Numa, node: int) -> dict[int, int]:
    """Huge pages by size, of sizes that other nodes have and this one has not."""
    found: dict[int, int] = {}
    for size, here in numa.node_pools.get(node, {}).items():
        pools = [pools.get(size) for pools in numa.node_pools.values()]
        total = sum(pool.total for pool in pools if isinstance(pool, Pool))
        if isinstance(here, Pool) and not here.total and total:
            found[size] = total
    return found


def _memory(ctx: Context) -> OwnMemory:
    return ctx.observation.after.limits.memory


def _pids(ctx: Context, cpu: int) -> list[int]:
    return sorted({key.pid for key in ctx.own_on(cpu)} & _memory(ctx).allowed.keys())


def _of_workload(ctx: Context, numa: Numa, cpu: int, node: int) -> Iterator[str]:
    for pid in _pids(ctx, cpu):
        allowed = _memory(ctx).allowed[pid]
        if not isinstance(allowed, ProbeError) and node not in allowed:
            yield f"PID {pid} may have memory of node {format_cpulist(allowed)} only"
        if wander := _wandering(ctx, numa, cpu, pid):
            yield f"a thread of PID {pid} may run on nodes {format_cpulist(wander)}"
    for directory, far, total in _far(ctx, numa, cpu, node):
        if far > ctx.policy.remote_memory * total:
            yield f"{far / total:.0%} of {total >> 20} MiB of /{directory} are on other nodes"


def _wandering(ctx: Context, numa: Numa, cpu: int, pid: int) -> frozenset[int]:
    """Nodes that one thread may run on, where they are several. Threads of one process may well sit on one each."""
    for key in sorted(ctx.own_on(cpu)):
        nodes = frozenset(_node(numa, other) for other in ctx.audited if key in ctx.own_on(other))
        if key.pid == pid and len(nodes) > 1:
            return nodes
    return frozenset()


def _spread(ctx: Context, numa: Numa, pid: int) -> frozenset[int]:
    """Nodes of the audited CPUs that a process may run on."""
    mine = [cpu for cpu in ctx.audited if any(key.pid == pid for key in ctx.own_on(cpu))]
    return frozenset(node for cpu in mine if (node := numa.node_of(cpu)) is not None)


def _far(ctx: Context, numa: Numa, cpu: int, node: int) -> Iterator[tuple[str, int, int]]:
    """Cgroups of own processes on this CPU and on this node only: bytes on other nodes, and of all."""
    end = ctx.observation.after.limits
    for path in dict.fromkeys(end.cgroups.paths[key] for key in sorted(ctx.own_on(cpu)) if key in end.cgroups.paths):
        group = None if isinstance(path, ProbeError) else end.cgroups.groups.get(path)
        placed = None if group is None else end.memory.placed.get(group.directory)
        if group is None or placed is None or isinstance(placed, ProbeError):
            continue
        others = {key.pid for key, other in end.cgroups.paths.items() if other == path}
        total = sum(placed.values())
        if total >= SMALL_BYTES and all(_spread(ctx, numa, pid) <= {node} for pid in others):
            yield group.directory, total - placed.get(node, 0), total


def _gaps(ctx: Context, numa: Numa, cpu: int) -> Iterator[ProbeError]:
    """What keeps "near" from being said."""
    if isinstance(numa.memory, ProbeError):
        yield numa.memory
    memory = _memory(ctx)
    yield from (value for pid in _pids(ctx, cpu) if isinstance(value := memory.allowed[pid], ProbeError))
    yield from (value for value in memory.placed.values() if isinstance(value, ProbeError))


def _evidence(ctx: Context, numa: Numa, cpus: list[int]) -> Iterator[Evidence]:
    for node in sorted({node for cpu in cpus if (node := numa.node_of(cpu)) is not None}):
        here = numa.cpus[node]
        if not isinstance(here, ProbeError):
            yield Evidence(path=f"/{NODE_DIR}/node{node}/cpulist", field="CPUs", value=format_cpulist(here))
        for size in _elsewhere(numa, node):
            yield Evidence(path=_pages(node, size), field="pages", value="0")
    if not isinstance(numa.memory, ProbeError):
        yield Evidence(path=f"/{NODE_DIR}/{HAS_MEMORY}", field="nodes", value=format_cpulist(numa.memory))
    memory = _memory(ctx)
    for pid in sorted({pid for cpu in cpus for pid in _pids(ctx, cpu)}):
        if not isinstance(allowed := memory.allowed[pid], ProbeError):
            yield Evidence(path=f"/proc/{pid}/status", field="Mems_allowed_list", value=format_cpulist(allowed))
    for directory, placed in memory.placed.items():
        if not isinstance(placed, ProbeError):
            text = " ".join(f"N{node}={count}" for node, count in sorted(placed.items()))
            yield Evidence(path=f"/{directory}/memory.numa_stat", field="anon + shmem", value=text)


def _pages(node: int, size: int) -> str:
    return f"/{NODE_DIR}/node{node}/hugepages/hugepages-{size}kB/nr_hugepages"


def _fix(ctx: Context, numa: Numa, cpus: list[int]) -> Fix:
    """Memory that is far can be moved now; what it is allowed to use is settled by whoever starts it."""
    commands: list[str] = []
    for cpu in cpus:
        node = _node(numa, cpu)
        commands += [
            f"echo {max(1, total // len(numa.cpus))} | sudo tee {_pages(node, size)}"
            for size, total in sorted(_elsewhere(numa, node).items())
        ]
        if any(far > ctx.policy.remote_memory * total for _, far, total in _far(ctx, numa, cpu, node)):
            others = format_cpulist(numa.cpus.keys() - {node})
            commands += [f"sudo migratepages {pid} {others} {node}" for pid in _pids(ctx, cpu)]
    nodes = format_cpulist(frozenset(_node(numa, cpu) for cpu in cpus))
    return Fix(
        kind=FixKind.WORKLOAD,
        text=f"take CPUs and memory of one node: numactl --membind={nodes}, cpuset.mems of its cgroup; for pods "
        "topologyManagerPolicy single-numa-node and memoryManagerPolicy Static (migratepages comes with numactl)",
        commands=tuple(dict.fromkeys(commands)),
    )


def huge_pages(ctx: Context) -> Iterator[Setting]:
    """What the host has of huge pages, for the report: only sizes of which there are any."""
    numa = ctx.observation.facts.numa
    if isinstance(numa, ProbeError):
        return
    for size, pool in sorted(numa.pools.items()):
        if not isinstance(pool, Pool) or not pool.total:
            continue
        nodes = ", ".join(
            f"node {node}: {here.free} of {here.total}"
            for node, pools in numa.node_pools.items()
            if isinstance(here := pools.get(size), Pool)
        )
        reserved = f", {pool.reserved} of them reserved" if pool.reserved else ""
        yield Setting(
            name=f"huge pages of {size} KiB",
            requested="-",
            effective=f"{pool.free} of {pool.total} free{reserved}" + (f" ({nodes})" if len(numa.cpus) > 1 else ""),
            path=f"/{POOL_DIR}/hugepages-{size}kB",
        )


CFG_NUMA = Rule(
    id="CFG.NUMA",
    title="memory nodes",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""Each access to memory of another node takes longer, and the way there is shared with everybody. A thread
finds its memory near where its CPUs are of one node, its cpuset allows that node, and the node has what it asks for,
huge pages too. What a process binds by itself (numactl) is not visible without walking its page tables, which this tool
does not do.""",
    sources=(
        f"/{NODE_DIR}/node*/cpulist",
        f"/{NODE_DIR}/{HAS_MEMORY}",
        f"/{NODE_DIR}/node*/hugepages/*/nr_hugepages",
        "/proc/*/status",
        "/sys/fs/cgroup/**/memory.numa_stat",
    ),
    warns="where the node has no memory, or none of the huge pages that others have; where the workload may not have "
    "memory of it, one of its threads may run on several nodes, or more of its memory than the limit is elsewhere",
    cure="CPUs and memory of one node: numactl --membind, cpuset.mems; for pods single-numa-node and Static memory",
    thresholds=lambda policy: Thresholds(warn=policy.remote_memory * 100, unit=" %"),
    check=check,
)
