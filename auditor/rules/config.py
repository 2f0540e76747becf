"""What was asked for, and what is in force: the command line, nohz_full, RCU offloading."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Evidence, Finding, Kind, Outcome, Setting
from auditor.requested import requested
from auditor.rules.base import Rule
from auditor.rules.numa import huge_pages
from auditor.rules.online import CFG_CPUS
from auditor.rules.origins import DOMAIN, IRQ, TICK
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState
from probes.isolation_params import Requested
from probes.snapshot import Census

RCU_OFFLOAD = ("rcuop", "rcuos", "rcuob")
NOHZ_PATH = "/sys/devices/system/cpu/nohz_full"
EXPLAINS = {"isolcpus": DOMAIN, "nohz_full": TICK, "irqaffinity": IRQ}
"""Of which cause a parameter that is not in force is a part."""


def check_cmdline(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.CMDLINE."""
    asked = requested(ctx)
    found = list(_problems(ctx, rule, asked)) or list(_unexplained(ctx, rule, asked))
    if asked.asked_domain and not asked.asked_domain & ctx.targets.audited:
        text = f"the command line isolates CPUs {format_cpulist(asked.asked_domain)}, none of the audited ones"
        found.append(rule.finding(Outcome.WARN, ctx.audited, detail=text, fix=boot_fix(ctx)))
    if not found:
        detail = (
            "what the command line asks for is in force"
            if asked.asked_domain
            else "the command line asks for no isolation"
        )
        found.append(rule.finding(Outcome.PASS, ctx.audited, detail=detail))
    yield from found


def _problems(ctx: Context, rule: Rule, asked: Requested) -> Iterator[Finding]:
    for problem in asked.problems:
        cpus = (problem.cpus & ctx.targets.audited) if problem.cpus else ctx.targets.audited
        failed = problem.lost and bool(cpus)
        yield rule.finding(
            Outcome.FAIL if failed else Outcome.WARN,
            cpus or ctx.targets.audited,
            title=f"{rule.title}: {problem.parameter}",
            detail=problem.text,
            evidence=[Evidence(path="/proc/cmdline", field=problem.parameter, value=problem.value)],
            fix=boot_fix(ctx, "replace the parameters by") if failed else None,
            origin=EXPLAINS.get(problem.parameter, "") if failed else "",
        )


def _unexplained(ctx: Context, rule: Rule, asked: Requested) -> Iterator[Finding]:
    """Effects outrank the model: what sysfs lacks is not in force, whatever the line should have done."""
    isolation = ctx.observation.after.config.isolation
    pairs = (
        ("isolcpus", asked.asked_domain, isolation.boot, "/sys/devices/system/cpu/isolated"),
        ("nohz_full", asked.asked_nohz_full, isolation.nohz_full, NOHZ_PATH),
    )
    for name, wanted, effective, path in pairs:
        if wanted is None or isinstance(effective, ProbeError):
            continue
        if lacking := (wanted & ctx.targets.audited) - effective:
            text = f"{name} asks for CPUs {format_cpulist(wanted)}, in force are {format_cpulist(effective) or 'none'}"
            evidence = Evidence(path=path, field="list", value=format_cpulist(effective))
            yield rule.finding(
                Outcome.FAIL, lacking, detail=text, evidence=[evidence], fix=boot_fix(ctx), origin=EXPLAINS[name]
            )


def check_nohz(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.NOHZ."""
    nohz = ctx.observation.after.config.isolation.nohz_full
    wanted = _asked_nohz(ctx)
    if isinstance(nohz, ProbeError) and nohz.state is not SourceState.MISSING:
        raise nohz
    for cpu in ctx.audited:
        inside = not isinstance(nohz, ProbeError) and cpu in nohz
        text = (
            "the kernel has no CONFIG_NO_HZ_FULL"
            if isinstance(nohz, ProbeError)
            else f"in force for {format_cpulist(nohz) or 'no CPU'}"
        )
        bad = Outcome.FAIL if cpu in wanted else Outcome.WARN
        yield rule.finding(
            Outcome.PASS if inside else bad,
            [cpu],
            detail=text + ("" if inside else "; the tick interrupts a spinning workload here"),
            evidence=[Evidence(path=NOHZ_PATH, field="list", value=text)],
            fix=None
            if inside or isinstance(nohz, ProbeError)
            else boot_fix(ctx, "stop the tick while one thread runs"),
        )


def _asked_nohz(ctx: Context) -> frozenset[int]:
    try:
        return requested(ctx).asked_nohz_full or frozenset()
    except ProbeError:
        return frozenset()


def check_rcu(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.RCU."""
    nohz = ctx.observation.after.config.isolation.nohz_full
    offloaded = _offload_threads(ctx)
    for cpu in ctx.audited:
        if not isinstance(nohz, ProbeError) and cpu in nohz:
            yield rule.finding(Outcome.PASS, [cpu], detail="nohz_full offloads the callbacks of this CPU")
        elif offloaded is None:
            yield rule.finding(Outcome.UNKNOWN, [cpu], detail="the kernel threads can't tell from here")
        elif cpu in offloaded:
            yield rule.finding(Outcome.PASS, [cpu], detail="its rcuo thread is active")
        else:
            fix = boot_fix(ctx, "offload RCU callbacks")
            yield rule.finding(Outcome.WARN, [cpu], detail="RCU callbacks run on this CPU", fix=fix)


def _offload_threads(ctx: Context) -> frozenset[int] | None:
    """CPUs whose RCU callbacks are offloaded, by their rcuop/N (rcuos/N, rcuob/N) threads; None where they can't tell.

    With any CPU offloaded the thread exists for all. 6.12 parks those of the others, 6.1 leaves them asleep (both
    booted): where none is parked, only the CPUs that the command line asked for count.
    """
    census = ctx.census
    if not isinstance(census, Census) or not census.complete:
        return None
    threads = [(status.name.partition("/"), status.state) for status in census.statuses.values() if status.kernel]
    states = {int(name[2]): state for name, state in threads if name[0] in RCU_OFFLOAD and name[2].isdecimal()}
    active = frozenset(cpu for cpu, state in states.items() if state != "P")
    if len(active) < len(states) or not states:
        return active
    try:
        return active & (requested(ctx).rcu_nocbs or frozenset())
    except ProbeError:
        return None


def settings(ctx: Context) -> tuple[Setting, ...]:
    """What was asked for against what is in force, for the report."""
    config = ctx.observation.after.config
    default = config.affinity if isinstance(config.affinity, ProbeError) else config.affinity.default
    try:
        asked = requested(ctx)
    except ProbeError as error:
        return (
            Setting(name="command line", requested=f"unknown ({error.reason})", effective="", path=f"/{error.path}"),
        )
    rows: tuple[tuple[str, frozenset[int] | None, frozenset[int] | ProbeError | None, str], ...] = (
        ("isolcpus (domain)", asked.asked_domain, config.isolation.boot, "/sys/devices/system/cpu/isolated"),
        ("isolcpus (managed_irq)", asked.asked_managed_irq, None, "/proc/cmdline"),
        ("nohz_full", asked.asked_nohz_full, config.isolation.nohz_full, NOHZ_PATH),
        ("rcu_nocbs", asked.asked_rcu_nocbs, _offload_threads(ctx), "/proc/*/status (rcuop/N)"),
        ("irqaffinity", asked.asked_irqaffinity, default, "/proc/irq/default_smp_affinity"),
    )
    return (
        *(
            Setting(
                name=name,
                requested="-" if wanted is None else format_cpulist(wanted) or "none",
                effective=_effective(effective),
                path=path,
            )
            for name, wanted, effective, path in rows
        ),
        *huge_pages(ctx),
        *_flavour(ctx),
    )


def _flavour(ctx: Context) -> Iterator[Setting]:
    """What the kernel was built with, where its configuration can be read; else whether it is a real-time one."""
    kernel = ctx.observation.facts.kernel
    real_time = ["PREEMPT_RT"] if "PREEMPT_RT" in kernel.version else []
    if kernel.config is None:
        path, words = "/proc/sys/kernel/version", real_time
    else:
        hz = [f"HZ {kernel.config.hz}"] if kernel.config.hz else []
        path, words = f"/{kernel.config.path}", [*hz, *sorted({*kernel.config.flags, *real_time})]
    if words:
        yield Setting(name="kernel", requested="-", effective=", ".join(words), path=path)


def _effective(value: frozenset[int] | ProbeError | None) -> str:
    if value is None:
        return "not visible"
    return f"unknown ({value.reason})" if isinstance(value, ProbeError) else format_cpulist(value) or "none"


CFG_RULES = (
    CFG_CPUS,
    Rule(
        id="CFG.CMDLINE",
        title="kernel command line",
        kind=Kind.RISK,
        why="""A parameter that is asked for and not in force fails here with the reason; the verdict follows the
effect. The kernel drops parameters silently: misspelt names, blanks in a list, one CPU number beyond the machine,
unknown flags, repeats that differ.""",
        sources=("/proc/cmdline", "/sys/devices/system/cpu/isolated", NOHZ_PATH),
        warns="where a parameter is odd and yet in force, or the line isolates other CPUs than the audited ones",
        fails="where what is asked for this CPU is not in force",
        cure="replace the parameters by the boot line of the report",
        check=check_cmdline,
    ),
    Rule(
        id="CFG.NOHZ",
        title="nohz_full",
        kind=Kind.RISK,
        why="Where the CPU is not in nohz_full, the tick interrupts a spinning workload HZ times a second.",
        sources=(NOHZ_PATH, "/proc/cmdline"),
        warns="where the CPU is not in nohz_full",
        fails="where the command line asks for it in vain",
        cure="nohz_full= at boot, on a kernel with CONFIG_NO_HZ_FULL",
        check=check_nohz,
    ),
    Rule(
        id="CFG.RCU",
        title="RCU callback offloading",
        kind=Kind.RISK,
        why="nohz_full or rcu_nocbs moves RCU callbacks to threads that may run elsewhere.",
        sources=(NOHZ_PATH, "/proc/*/task/*/status", "/proc/cmdline"),
        warns="where callbacks run on the CPU",
        cure="nohz_full= or rcu_nocbs= at boot",
        check=check_rcu,
    ),
)
