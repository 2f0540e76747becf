"""Four hand-made audits, one for each thing a report must get right. The figures are those of real measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auditor.model import (
    Activity,
    Audit,
    Axis,
    Cause,
    Counter,
    Coverage,
    CpuActivity,
    CpuSets,
    Evidence,
    Finding,
    Fix,
    FixKind,
    HostFacts,
    IdleUse,
    Kind,
    Outcome,
    Overhead,
    OwnFacts,
    OwnInterrupt,
    Readiness,
    ReadinessVerdict,
    Regime,
    Setting,
    Status,
    Switches,
    ThreadSeen,
    Verdict,
    WindowFacts,
)

BOUNDS = (
    "no disturbance visible to these counters in 30 s (device interrupts ≤ 0.1/s); "
    "not seen: SMI, cache and memory contention, hypervisor"
)
SYS_CPU = "sys/devices/system/cpu/"
BOOT = {
    "isolcpus": "domain,managed_irq,1,5",
    "nohz_full": "1,5",
    "rcu_nocbs": "1,5",
    "irqaffinity": "0,2-4,6-7",
}
BOOT_LINE = " ".join(f"{name}={value}" for name, value in BOOT.items())
DOMAIN_FIX = Fix(
    kind=FixKind.BOOT,
    text=f"take the CPUs out of the scheduler domains and route no interrupt to them: {BOOT_LINE}",
    boot=BOOT,
    undo="delete /etc/default/grub.d/50-isolation.cfg, run update-grub, reboot",
    reboot=True,
)
IRQ_FIX = Fix(
    kind=FixKind.RUNTIME,
    text="route the interrupt to the housekeeping CPUs; until the next boot",
    commands=(
        "echo 0,2-4,6-7 > /proc/irq/127/smp_affinity_list",
        "echo 0,2-4,6-7 > /proc/irq/145/smp_affinity_list",
    ),
    undo="echo 0-7 > /proc/irq/127/smp_affinity_list",
)


def found(rule: str, outcome: Outcome, cpus: tuple[int, ...], title: str, **more: Any) -> Finding:
    given = {"axis": Axis.ISOLATION, "kind": Kind.MEASURED, **more}
    return Finding(rule=rule, outcome=outcome, cpus=cpus, title=title, **given)


def per_second(count: int, window_s: int) -> float:
    return count / window_s


def counter(label: str, count: int, window_s: int, name: str = "") -> Counter:
    return Counter(label=label, name=name or label, count=count, per_second=per_second(count, window_s))


QUIET = CpuActivity(
    busy=0.0004,
    regime=Regime.IDLE,
    interrupts=(counter("LOC", 24, 30, "Local timer interrupts"), counter("RES", 1, 30, "Rescheduling interrupts")),
    softirqs=(counter("TIMER", 22, 30),),
    cpuidle=(IdleUse(name="C1", latency_us=1, entries=26, time_us=29_980_112, disabled=False),),
    switches=Switches(total=0, own=0, foreign=0),
    threads=(),
)
BUSY = CpuActivity(
    busy=0.87,
    regime=Regime.SLEEPER,
    interrupts=(counter("LOC", 7411, 30, "Local timer interrupts"), counter("virtio0-req.0", 1140, 30)),
    softirqs=(counter("SCHED", 1040, 30), counter("BLOCK", 1139, 30)),
    cpuidle=(IdleUse(name="C1", latency_us=1, entries=812, time_us=3_900_000, disabled=False),),
    switches=Switches(total=20_411, own=0, foreign=20_411),
    threads=(),
)

ISOLATED = Audit(
    tool="cpu-audit 0.1.0",
    host=HostFacts(
        name="node7",
        kernel="6.12.117-rt-amd64",
        arch="x86_64",
        cpu_model="Intel Core Processor",
        hypervisor="kvm",
        hz=250,
        online="0-3",
        boot_id="5c2c5f0e-7a49-4f4c-8d2c-1f6f2c1c9a10",
    ),
    window=WindowFacts(
        started="2026-03-02T03:04:05Z",
        window_ms=30_004,
        requested_ms=30_000,
        samples=29,
        load="stress-ng on CPUs 0,3",
        work=None,
    ),
    cpus=CpuSets(audited="1-2", control="0,3", housekeeping="0,3", chosen_by="--cpus"),
    own=OwnFacts(source="none", description="", threads=0),
    verdict=Verdict(
        status=Status.ISOLATED, reason="both doors are closed and every decisive rule passes", bounds=BOUNDS
    ),
    readiness=ReadinessVerdict(status=Readiness.READY, reason="no C-state above 20 µs was entered"),
    cpu_verdicts={
        1: Verdict(status=Status.ISOLATED, reason="every decisive rule passes", bounds=BOUNDS),
        2: Verdict(status=Status.ISOLATED, reason="every decisive rule passes", bounds=BOUNDS),
    },
    causes=(),
    boot_line=None,
    findings=(
        found("CFG.DOMAIN", Outcome.PASS, (1, 2), "in no scheduler domain", kind=Kind.DOOR),
        found("CFG.IRQ", Outcome.PASS, (1, 2), "no active interrupt is routed here", kind=Kind.DOOR),
        found(
            "THR.FOREIGN", Outcome.PASS, (1, 2), "switches to foreign threads", observed=0.0, limit=0.1, unit="/s"
        ),
        found("IRQ.DEVICE", Outcome.PASS, (1, 2), "device interrupts", observed=0.0, limit=1.0, unit="/s"),
        found("SIRQ.SCHED", Outcome.PASS, (1, 2), "SCHED softirqs", observed=0.0, limit=0.1, unit="/s"),
        found("IPI.RES", Outcome.PASS, (1,), "rescheduling IPIs", observed=0.0333, limit=1.0, unit="/s"),
        found("IPI.RES", Outcome.PASS, (2,), "rescheduling IPIs", observed=0.0667, limit=1.0, unit="/s"),
        found("TICK.LOC", Outcome.NOT_EXERCISED, (1, 2), "timer tick", detail="idle CPUs stop their tick anyway"),
        found("MCE.POLL", Outcome.NOT_APPLICABLE, (1, 2), "machine check polls", detail="no such row in a guest"),
        found(
            "RISK.THP", Outcome.WARN, (1, 2), "transparent huge pages are always on", kind=Kind.RISK,
            detail="khugepaged interrupts every CPU",
            fix=Fix(
                kind=FixKind.RUNTIME,
                text="ask for them only where a program does",
                commands=("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",),
            ),
        ),
    ),
    activity=Activity(cpus={1: QUIET, 2: QUIET}, control={0: BUSY, 3: BUSY}),
    config=(
        Setting(name="isolcpus", requested="domain,managed_irq,1-2", effective="1-2", path=SYS_CPU + "isolated"),
        Setting(name="nohz_full", requested="1-2", effective="1-2", path=SYS_CPU + "nohz_full"),
    ),
    coverage=(
        Coverage(source="proc/interrupts", state="read"),
        Coverage(source="proc/softirqs", state="read"),
        Coverage(source="proc/stat", state="read"),
    ),
    overhead=Overhead(cpu_ms=38, switches=31, on_audited_cpus=False, self_check="clean"),
    next_command=None,
    interrupted=False,
)  # fmt: skip


def lab_thread(pid: int, name: str, switches: int | None, sightings: int, **more: Any) -> ThreadSeen:
    given = {
        "tid": pid, "kernel": False, "own": False, "cgroup": "/system.slice", "allowed": "0-7", "run_ms": None, **more
    }  # fmt: skip
    return ThreadSeen(pid=pid, name=name, switches=switches, sightings=sightings, **given)


def lab_cpu(factor: float) -> CpuActivity:
    """CPU 1 of the laboratory in 40 s without boot isolation, scaled for its neighbour."""

    def c(label: str, count: int, name: str) -> Counter:
        return counter(label, round(count * factor), 40, name)

    return CpuActivity(
        busy=0.031 * factor,
        regime=Regime.SLEEPER,
        interrupts=(
            c("LOC", 9120, "Local timer interrupts"),
            c("CAL", 4745, "Function call interrupts"),
            c("RES", 4387, "Rescheduling interrupts"),
            c("127", 2368, "nvme0q2"),
            c("145", 735, "iwlwifi:queue_1"),
            c("TLB", 368, "TLB shootdowns"),
            Counter(label="131", name="nvme0q6", count=None, per_second=None),
        ),
        softirqs=tuple(c(x, n, x) for x, n in (("SCHED", 12_647), ("TIMER", 4102), ("RCU", 3990), ("BLOCK", 2361))),
        cpuidle=(
            IdleUse(name="C1", latency_us=1, entries=9120, time_us=9_100_000, disabled=False),
            IdleUse(name="C3", latency_us=1048, entries=2088, time_us=21_000_000, disabled=False),
        ),
        switches=Switches(total=round(26_100 * factor), own=round(20_000 * factor), foreign=round(6100 * factor)),
        threads=(
            lab_thread(1411, "kubelet", None, 11, cgroup="/system.slice/kubelet.service"),
            lab_thread(980, "containerd", None, 9, cgroup="/system.slice/containerd.service"),
            lab_thread(17, "migration/1", 10, 0, kernel=True, allowed="1", cgroup="/", run_ms=0.4),
            lab_thread(
                20_411, "cyclictest", round(20_000 * factor), 40, own=True, allowed="1,5",
                cgroup="/kubepods.slice/kubepods-pod5f2c.slice/tuned", run_ms=1012.5,
            ),
        ),
    )  # fmt: skip


LAB_DEVICE: dict[str, Any] = {
    "title": "device interrupts", "limit": 1.0, "unit": "/s", "origin": "irq:nvme0q2", "fix": IRQ_FIX
}  # fmt: skip
NOT_ISOLATED = Audit(
    tool="cpu-audit 0.1.0",
    host=HostFacts(
        name="lab",
        kernel="6.8.0-41-generic",
        arch="x86_64",
        cpu_model="11th Gen Intel Core i7-1165G7",
        hypervisor=None,
        hz=250,
        online="0-7",
        boot_id="0e6f6c2e-1111-4f4c-8d2c-1f6f2c1c9a10",
    ),
    window=WindowFacts(
        started="2026-03-02T03:04:05Z", window_ms=40_001, requested_ms=40_000, samples=39, load=None, work=None
    ),
    cpus=CpuSets(audited="1,5", control="0,2-4,6-7", housekeeping="0,2-4,6-7", chosen_by="kubelet"),
    own=OwnFacts(
        source="kubelet",
        description="pod bench/tuned, container cyclictest",
        threads=3,
        interrupts=(
            OwnInterrupt(irq=131, name="nvme0q5", claim="own I/O", fired={1: 0, 5: 1250}),
            OwnInterrupt(irq=140, name="ens1f0-TxRx-1", claim="named with --own-irq", fired={1: 0, 5: 0}),
        ),
    ),
    verdict=Verdict(
        status=Status.NOT_ISOLATED,
        reason="316/s SCHED softirqs (limit 1/s): CPUs 1,5 are still in a scheduler domain; 6 more rules fail",
        bounds="counted for 40 s; not seen: SMI, cache and memory contention",
    ),
    readiness=ReadinessVerdict(
        status=Readiness.LIMITED, reason="C3 with 1048 µs exit latency was entered 52.2 times a second (limit 1/s)"
    ),
    cpu_verdicts={
        1: Verdict(status=Status.NOT_ISOLATED, reason="7 measured rules fail", bounds=""),
        5: Verdict(status=Status.NOT_ISOLATED, reason="7 measured rules fail", bounds=""),
    },
    causes=(
        Cause(
            title="the CPUs are in a scheduler domain: the load balancer runs here and places threads of others",
            rules=("SIRQ.SCHED", "THR.FOREIGN", "CFG.DOMAIN"), cpus=(1, 5), share=0.55, per_second=749.0,
            fix=DOMAIN_FIX,
        ),
        Cause(
            title="other CPUs interrupt these: function calls, rescheduling, TLB flushes",
            rules=("IPI.CAL", "IPI.RES", "IPI.TLB"), cpus=(1, 5), share=0.33, per_second=449.0, fix=None,
        ),
        Cause(
            title="interrupts of nvme0q2 and iwlwifi:queue_1 are routed here",
            rules=("IRQ.DEVICE", "SIRQ.BLOCK"), cpus=(1, 5), share=0.12, per_second=163.0, fix=IRQ_FIX,
        ),
    ),
    boot_line=BOOT_LINE,
    findings=(
        found("CFG.DOMAIN", Outcome.FAIL, (1, 5), "in a scheduler domain", kind=Kind.DOOR, fix=DOMAIN_FIX,
              detail="the load balancer moves any thread here", origin="door:domain",
              evidence=(Evidence(path="proc/schedstat", field="cpu1 domain0", value="22"),)),
        found("CFG.IRQ", Outcome.FAIL, (1, 5), "active interrupts are routed here", kind=Kind.DOOR, fix=IRQ_FIX,
              detail="nvme0q2, iwlwifi:queue_1", origin="irq:nvme0q2",
              evidence=(Evidence(path="proc/irq/127/effective_affinity_list", field="", value="1"),)),
        found("IRQ.DEVICE", Outcome.FAIL, (1,), observed=77.6, per_second=77.6, cost_us_per_s=77.6, **LAB_DEVICE,
              evidence=(Evidence(path="proc/interrupts", field="127 CPU1", before=120_011, after=122_379),)),
        found("IRQ.DEVICE", Outcome.FAIL, (5,), observed=54.3, per_second=54.3, cost_us_per_s=54.3, **LAB_DEVICE),
        found("SIRQ.SCHED", Outcome.FAIL, (1, 5), "SCHED softirqs", observed=316.175, limit=1.0, unit="/s",
              per_second=316.175, cost_us_per_s=316.175, origin="door:domain",
              evidence=(Evidence(path="proc/softirqs", field="SCHED CPU1", before=88_123, after=100_770),)),
        found("IPI.CAL", Outcome.FAIL, (1, 5), "function-call IPIs", observed=118.6, limit=5.0, unit="/s"),
        found("IPI.RES", Outcome.FAIL, (1, 5), "rescheduling IPIs", observed=109.7, limit=10.0, unit="/s"),
        found("IPI.TLB", Outcome.WARN, (1, 5), "TLB shootdowns", observed=9.2, limit=1.0, unit="/s"),
        found("THR.FOREIGN", Outcome.FAIL, (1, 5), "switches to foreign threads", observed=152.5, limit=1.0, unit="/s",
              detail="kubelet, containerd", origin="door:domain"),
        found("SIRQ.BLOCK", Outcome.FAIL, (1, 5), "BLOCK softirqs", observed=59.0, limit=1.0, unit="/s",
              origin="irq:nvme0q2"),
        found("TICK.LOC", Outcome.WARN, (1, 5), "timer ticks per busy second", observed=228.0, limit=10.0, unit="/s",
              detail="neither nohz_full nor busy-poll is asked for"),
        found("STEAL", Outcome.PASS, (1, 5), "steal time", observed=0.0, limit=0.1, unit="%"),
        found("NMI.PMI", Outcome.PASS, (1, 5), "NMIs", observed=0.1, limit=1.0, unit="/s"),
        found("CST.DEEP", Outcome.WARN, (1, 5), "entries into C-states above 20 µs", observed=52.2, limit=1.0,
              unit="/s", axis=Axis.READINESS),
        found("CFG.NOHZ", Outcome.NOT_APPLICABLE, (1, 5), "nohz_full", detail="not asked for"),
        found("RISK.IRQAFF", Outcome.WARN, (1, 5), "new interrupts will be routed here", kind=Kind.RISK,
              detail="default_smp_affinity is ff", fix=Fix(
                  kind=FixKind.RUNTIME, text="set the default for new interrupts",
                  commands=("echo dd > /proc/irq/default_smp_affinity",))),
    ),
    activity=Activity(
        cpus={1: lab_cpu(1), 5: lab_cpu(0.7)},
        control={cpu: replace(BUSY, threads=()) for cpu in (0, 2, 3, 4, 6, 7)},
    ),
    config=(
        Setting(name="isolcpus", requested="", effective="", path=SYS_CPU + "isolated"),
        Setting(name="irqaffinity", requested="", effective="0-7", path="proc/irq/default_smp_affinity"),
    ),
    coverage=(
        Coverage(source="proc/interrupts", state="read"),
        Coverage(source="sys/fs/cgroup", state="read"),
        Coverage(source="sys/kernel/debug/sched", state="denied", reason="permission denied",
                 costs="the fair server's runtime is not known"),
    ),
    overhead=Overhead(cpu_ms=61, switches=44, on_audited_cpus=False, self_check="clean"),
    next_command=None,
    interrupted=False,
)  # fmt: skip

EXPOSED = replace(
    ISOLATED,
    host=replace(ISOLATED.host, hypervisor=None, kernel="6.1.0-39-amd64"),
    verdict=Verdict(
        status=Status.EXPOSED,
        reason="nothing measured above its limit, but CPUs 1-2 are in a scheduler domain: any thread may come",
        bounds="",
    ),
    cpu_verdicts={
        1: Verdict(status=Status.EXPOSED, reason="the scheduler domain is open", bounds=""),
        2: Verdict(status=Status.EXPOSED, reason="the scheduler domain is open", bounds=""),
    },
    causes=(
        Cause(
            title="the CPUs are in a scheduler domain", rules=("CFG.DOMAIN",), cpus=(1, 2), share=None,
            per_second=None,
            fix=Fix(
                kind=FixKind.BOOT, text="take the CPUs out of the scheduler domains",
                boot={"isolcpus": "domain,managed_irq,1-2"}, reboot=True, undo="delete the drop-in and run update-grub",
            ),
        ),
    ),
    boot_line="isolcpus=domain,managed_irq,1-2 nohz_full=1-2 rcu_nocbs=1-2 irqaffinity=0,3",
    findings=(
        found("CFG.DOMAIN", Outcome.FAIL, (1, 2), "in a scheduler domain", kind=Kind.DOOR, origin="door:domain",
              detail="nothing came in this window"),
        *ISOLATED.findings[1:],
    ),
    config=(
        Setting(name="isolcpus", requested="domain,managed_irq 1-2", effective="", path=SYS_CPU + "isolated"),
        Setting(name="nohz_full", requested="", effective="", path=SYS_CPU + "nohz_full"),
    ),
)  # fmt: skip

UNKNOWN = replace(
    ISOLATED,
    host=replace(ISOLATED.host, hypervisor=None),
    window=replace(ISOLATED.window, window_ms=12_200, load=None),
    verdict=Verdict(
        status=Status.UNKNOWN,
        reason="nothing fails, but foreign switches are not known on CPUs 1-2 and no device interrupt could have shown",
        bounds="",
    ),
    readiness=ReadinessVerdict(status=Readiness.NOT_READY, reason="the clock source is hpet"),
    cpu_verdicts={
        1: Verdict(status=Status.UNKNOWN, reason="THR.FOREIGN is unknown", bounds=""),
        2: Verdict(status=Status.UNKNOWN, reason="THR.FOREIGN and IRQ.DEVICE are unknown", bounds=""),
    },
    findings=(
        found("THR.FOREIGN", Outcome.UNKNOWN, (1, 2), "switches to foreign threads", limit=0.1, unit="/s",
              detail="/proc/schedstat: permission denied"),
        found("IRQ.DEVICE", Outcome.NOT_EXERCISED, (1, 2), "device interrupts", observed=0.0, limit=1.0, unit="/s",
              detail="no control CPU reached 1/s either"),
        found("IRQ.MANAGED", Outcome.UNKNOWN, (2,), "managed interrupts", detail="row 44 fell in the window"),
        found("SIRQ.SCHED", Outcome.PASS, (1, 2), "SCHED softirqs", observed=0.0, limit=0.1, unit="/s"),
        found("CLK.SOURCE", Outcome.FAIL, (1, 2), "clock source", axis=Axis.READINESS, detail="hpet, not tsc"),
    ),
    activity=Activity(
        cpus={1: replace(QUIET, switches=Switches(total=None, own=None, foreign=None)), 2: replace(QUIET, busy=None)},
        control={},
    ),
    coverage=(
        Coverage(source="proc/interrupts", state="read"),
        Coverage(source="proc/schedstat", state="denied", reason="permission denied",
                 costs="foreign switches and the scheduler domain are not known"),
        Coverage(source="sys/kernel/irq", state="missing", reason="no such file",
                 costs="managed interrupts are guessed by name"),
    ),
    overhead=Overhead(cpu_ms=12, switches=9, on_audited_cpus=True, self_check="perturbed: a thread was seen on CPU 1"),
    next_command="sudo cpu-audit run --cpus 1-2 --window 30s --load --work spin",
    interrupted=True,
)  # fmt: skip

AUDITS = {"isolated-guest": ISOLATED, "not-isolated": NOT_ISOLATED, "exposed": EXPOSED, "unknown": UNKNOWN}
