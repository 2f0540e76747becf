"""Every rule, in the order of the report."""

from __future__ import annotations

from auditor.rules.allowed import THR_ALLOWED
from auditor.rules.base import Rule
from auditor.rules.cfs_bug import CFG_CFSBUG
from auditor.rules.clock import CFG_CLOCK
from auditor.rules.config import CFG_RULES
from auditor.rules.cstates import CFG_CSTATE
from auditor.rules.doors import CFG_DOMAIN, IRQ_AFFINITY
from auditor.rules.drift import CFG_DRIFT
from auditor.rules.fair_server import FAIRSRV
from auditor.rules.foreign import THR_FOREIGN
from auditor.rules.frequency import CFG_FREQ
from auditor.rules.hardware import MCE
from auditor.rules.ipi import IPI_RULES
from auditor.rules.irq import CFG_IRQAFF, IRQ_DEVICE, IRQ_MANAGED
from auditor.rules.irqbalance import CFG_IRQBALANCE
from auditor.rules.kube_affinity import KUBE_AFFINITY
from auditor.rules.kube_cores import KUBE_NUMA, KUBE_SMT
from auditor.rules.kube_drift import KUBE_DRIFT
from auditor.rules.kube_host import KUBE_HOST
from auditor.rules.kube_policy import KUBE_POLICY, KUBE_RESERVED
from auditor.rules.kube_pool import KUBE_POOL
from auditor.rules.kube_quota import KUBE_QUOTA
from auditor.rules.kube_shared import KUBE_SHARED
from auditor.rules.kube_state import KUBE_STALE, KUBE_STATE
from auditor.rules.managed import CFG_MIRQ
from auditor.rules.memory import CFG_KSM, CFG_THP
from auditor.rules.multi import THR_MULTI
from auditor.rules.numa import CFG_NUMA
from auditor.rules.other import IRQ_OTHER, NMI_PMI
from auditor.rules.partition import CFG_PARTITION
from auditor.rules.platform import CST_DEEP, STEAL
from auditor.rules.quota import CFG_QUOTA
from auditor.rules.rdt import CFG_RDT
from auditor.rules.rps import CFG_RPS
from auditor.rules.rt_throttle import RT_THROTTLE
from auditor.rules.smt import CFG_SMT
from auditor.rules.softirq import SIRQ_RULES
from auditor.rules.sysctl import CFG_SYSCTL
from auditor.rules.threads import THR_OWNERS, THR_RULES
from auditor.rules.tick import TICK_LOC
from auditor.rules.tick_reasons import QUOTA_TICK, TICK_POSIX
from auditor.rules.watchdog import CFG_WATCHDOG
from auditor.rules.workqueue import CFG_WQ

RULES: tuple[Rule, ...] = (
    CFG_DOMAIN,
    IRQ_AFFINITY,
    THR_FOREIGN,
    *THR_RULES,
    IRQ_DEVICE,
    IRQ_MANAGED,
    NMI_PMI,
    MCE,
    IRQ_OTHER,
    *SIRQ_RULES,
    *IPI_RULES,
    TICK_LOC,
    QUOTA_TICK,
    TICK_POSIX,
    FAIRSRV,
    CFG_SMT,
    STEAL,
    CST_DEEP,
    CFG_QUOTA,
    CFG_CFSBUG,
    *CFG_RULES,
    CFG_PARTITION,
    CFG_IRQAFF,
    CFG_MIRQ,
    CFG_RPS,
    CFG_IRQBALANCE,
    CFG_WQ,
    CFG_DRIFT,
    CFG_WATCHDOG,
    CFG_SYSCTL,
    CFG_THP,
    CFG_KSM,
    CFG_NUMA,
    CFG_RDT,
    CFG_CLOCK,
    CFG_CSTATE,
    CFG_FREQ,
    RT_THROTTLE,
    THR_ALLOWED,
    THR_OWNERS,
    THR_MULTI,
    KUBE_STATE,
    KUBE_STALE,
    KUBE_DRIFT,
    KUBE_POLICY,
    KUBE_RESERVED,
    KUBE_POOL,
    KUBE_SMT,
    KUBE_NUMA,
    KUBE_QUOTA,
    KUBE_HOST,
    KUBE_SHARED,
    KUBE_AFFINITY,
)
"""An explicit tuple: nothing registers itself by being imported."""

BY_ID = {rule.id: rule for rule in RULES}
