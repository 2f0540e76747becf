"""Small valid inputs of every parser, one of each shape that a kernel, a kubelet or a user writes."""

from __future__ import annotations

INTERRUPTS = (
    (
        "            CPU0       CPU4       \n"
        " 16:          0          3   IO-APIC  16-fasteoi   i801_smbus, ehci_hcd:usb1, my driver 2\n"
        " 36:          7      59462  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n"
        "NMI:          0          0   Non-maskable interrupts\n"
        "LOC:      65915     111422   Local timer interrupts\n"
        "ERR:          2\n"
        "MIS:          0\n"
    ),
    (
        "            CPU0       CPU1       \n"
        "  36:          7      59462  PCI-MSIX-0000:00:02.0    1-edge      virtio1-req.0\n"
        " LOC:      65915     111422  Local timer interrupts\n"
        "VPMI:          0          0  Perf Guest Mediated PMI\n"
    ),
    (
        "           CPU0       CPU1       \n"
        " 11: 1053012000     998877     GICv3  27 Level     arch_timer\n"
        "IPI0:1234567890         12       Rescheduling interrupts\n"
        "Err:          3\n"
    ),
    (
        "           CPU0       CPU1       \n"
        "EXT:          5          7 \n"
        "  3:          6          4    PCI-MSI  mlx5_async@pci:0002:00:00.0\n"
        "CLK:        100        200   [EXT] Clock Comparator\n"
    ),
)
SOFTIRQS = (
    (
        "                    CPU0       CPU1       \n"
        "          HI:          1          0\n"
        "       TIMER:      41222      12345\n"
        "      NET_RX:        122          0\n"
        "       SCHED:     552222        123\n"
        "         RCU:      99999       1234\n"
    ),
)
D15 = "domain0 3 " + " ".join(str(number) for number in range(36)) + "\n"
D17 = "domain0 MC 3 " + " ".join(str(number) for number in range(45)) + "\n"
SCHEDSTAT = (
    "version 15\ntimestamp 4295227846\n"
    "cpu0 0 0 0 0 0 0 123456789 2345678 3456\n" + D15 + "cpu1 0 0 0 0 0 0 23456789 345678 456\n" + D15,
    "version 17\ntimestamp 4295227846\n"
    "cpu0 0 0 0 0 0 0 123456789 2345678 3456\n" + D17 + "cpu1 0 0 0 0 0 0 23456789 345678 456\n" + D17,
)
CPUSTAT = (
    (
        "cpu  2 0 4 90 1 0 0 0 0 0\ncpu0 1 0 2 45 1 0 0 0 0 0\ncpu1 1 0 2 45 0 0 0 0 0 0\n"
        "intr 500 0 9 0\nctxt 999\nbtime 1700000000\nprocesses 77\nsoftirq 5 0 1 2\n"
    ),
)
STATUS = (
    (
        "Name:\tkworker/1:1-events\nUmask:\t0000\nState:\tI (idle)\nTgid:\t77\nPid:\t77\nPPid:\t2\nKthread:\t1\n"
        "Cpus_allowed:\t2\nCpus_allowed_list:\t1\nvoluntary_ctxt_switches:\t55\nnonvoluntary_ctxt_switches:\t3\n"
    ),
    (
        "Name:\ta\\nb (x)\nState:\tR (running)\nPid:\t812\nPPid:\t1\nVmPeak:\t  512 kB\n"
        "Cpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t0\n"
    ),
)
STAT = (
    "77 (a) R 1 (b) S 1 77 77 0 -1 4194304 90 0 0 0 3 4 0 0 20 0 1 0 1234 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0\n",
)
STARTED = ("77 (python3) S 1 77 77 0 -1 4194304 90 0 0 0 3 4 0 0 20 0 1 0 123456 9000 11 0\n", "9 (x) Z" + " 0" * 30)
LIMITS = (
    (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max cpu time              unlimited            unlimited            seconds   \n"
        "Max file size             unlimited            unlimited            bytes     \n"
    ),
    "Max cpu time              10                   20                   seconds   \n",
)
TIMERS = (("ID: 0\nsignal: 14/00007ffd\nnotify: signal/pid.2634\nClockID: -2\nID: 1\nsignal: 0/0\nnotify: none/pid.9\n"
          "ClockID: 1\n"),)  # fmt: skip
IO = ("rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n",)
CGROUP = (
    "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope\n",
    "12:cpuset:/\n5:cpu,cpuacct:/kubepods/burstable/pod1/abc\n1:name=systemd:/init.scope\n0::/\n",
)
CPU_STAT = (
    (
        "usage_usec 99\nuser_usec 9\nsystem_usec 90\nnr_periods 5\nnr_throttled 1\nthrottled_usec 777\nnr_bursts 0\n"
        "burst_usec 0\n"
    ),
    "nr_periods 5\nnr_throttled 1\nthrottled_time 777000\n",
    "usage_usec 99\nuser_usec 9\nsystem_usec 90\n",
)
CMDLINE = (
    "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro isolcpus=domain,managed_irq,1-3 nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0\n",
    'quiet isolcpus=nohz,domain 2-3 "nohz_full=1,5:1/2" isolcpu=all nohz=off -- single\n',
)
CPULIST = ("0-3,8\n", "\n", "(null)\n", ",8-15\n")
KERNEL_CPULIST = ("0-3,8", "all", "1-7:1/2,9", "N-N")
CPUMASK = ("22\n", "00000001,00000011\n")
RELEASE = ("6.12.117+deb12-rt-amd64\n", "4.18.0-394.el8.x86_64\n")
KERNEL_CONFIG = (
    "#\n# Linux\nCONFIG_HZ=250\nCONFIG_NO_HZ_FULL=y\n# CONFIG_PREEMPT_RT is not set\nCONFIG_SCHEDSTATS=y\n",
)
GRUB = (
    "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=1 nohz_full=1\"\nexport GRUB_CMDLINE_LINUX+='ro $x'\n",
)
LOADER_ENTRY = ("title Debian\nversion 6.1.0\nlinux /vmlinuz\noptions root=/dev/vda isolcpus=1-3 nohz_full=1-3\n",)
ENVIRON = ("PATH=/bin\0IRQBALANCE_BANNED_CPUS=2\0IRQBALANCE_BANNED_CPULIST=1\0",)
ENV_FILE = (
    '# irqbalance\nIRQBALANCE_ONESHOT=\nexport IRQBALANCE_BANNED_CPULIST="1,5-6"\nIRQBALANCE_BANNED_CPUS=22 # x\n',
)
KUBELET_YAML = (
    (
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\ncpuManagerPolicy: static\n"
        'cpuManagerPolicyOptions:\n  full-pcpus-only: "true"\nreservedSystemCPUs: 0-1\nkubeReserved: {cpu: 500m}\n'
        "featureGates:\n  CPUManagerPolicyAlphaOptions: true\ncpuCFSQuota: false\ncpuManagerReconcilePeriod: 10s\n"
    ),
    '{"kind": "KubeletConfiguration", "topologyManagerPolicy": "single-numa-node", "systemReserved": {"cpu": "1.5"}}\n',
    '{"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,2-3"}}',
    "spec:\n  kubeletConfig:\n    cpuManagerPolicy: none\n    maxPods: 250\n",
    "kubelet:\n  extra_args:\n    cpu-manager-policy: static\n    feature-gates: A=true,B=false\n    x: 0\n",
)
K3S = ("token: secret\nkubelet-arg:\n- cpu-manager-policy=static\n- kube-reserved=cpu=1\nnode-name: a\n",
       "# flags\n--cpu-manager-policy=static\n--token=secret\n")  # fmt: skip
ARGV = (
    "/usr/bin/kubelet\0--config=/var/lib/kubelet/config.yaml\0--cpu-manager-policy\0static\0-v=2\0",
    "/usr/local/bin/k3s server\0--kubelet-arg=cpu-manager-policy=static\0--token\0secret\0",
)
CPU_MANAGER_STATE = (
    '{"policyName":"static","defaultCpuSet":"0-1","entries":{"cdc2c5cc531d":"2-5"}}',
    '{"policyName":"static","defaultCpuSet":"0-9,11","entries":{"c5eb47f4":{"busybox":"10,86"}},"checksum":3322146737}',
    (
        '{"policyName":"static","defaultCpuSet":"0-1,7","entries":{"5f7d":{"ex":"6"}},"podEntries":{"5f7d":{"cpuSet":"4-6"'
        '}},"checksum":3591620859}'
    ),
    '{"data":"{\\"policyName\\":\\"static\\",\\"defaultCpuSet\\":\\"0-1\\"}","checksum":12}',
)
MOUNTINFO = (
    (
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
        "40 36 0:31 / /var/lib/a\\040b rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w\n"
    ),
)
CYCLICTEST = (
    (
        '{"file_version": 1, "cmdline:": "cyclictest -q", "rt_test_version:": "2.40", "resolution_in_ns": 0, '
        '"num_threads": 1, "thread": {"0": {"histogram": {}, "cycles": 999, "min": 3, "max": 40, "avg": 4.25, '
        '"cpu": 1, "node": 0}}}'
    ),
)
RECORD = (
    (
        '{"tool": {"pid": 7, "start_ticks": 99}, "boot_id": "x", "namespace": "pid:[4026531836]", "name": "stress-ng",'
        ' "child": {"pid": 8, "start_ticks": 100}, "directory": "", "shared_file": ""}'
    ),
)
POLICY = (
    (
        'busy_poll = true\nwakeup_budget_us = 50\nown_interrupts = ["eth0-*"]\nallowed_interrupts = ["31"]\n[limits]\n'
        '"IRQ.DEVICE" = { warn = 0, fail = 1.5 }\n[[waivers]]\nrule = "IRQ.DEVICE"\ncpus = "1,5"\nreason = "known"\n'
        "expires = 2026-12-31\n"
    ),
)
WINDOW = ("30s", "1500ms", "1.5m", "24h", " 5 ")
ASKED = ("1,5", "2-7", "0 - 3 , 8")
SIGNED = ("-1\n", "950000\n")
DPKG = (
    (
        "Package: kubelet\nStatus: install ok installed\nVersion: 1.33.1-1.1\n\n"
        "Package: vim\nStatus: install ok installed\n"
    ),
)
