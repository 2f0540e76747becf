"""``python -m tests.node --cpus 6 --append "isolcpus=1,5" -- CMD…``: runs a command in a booted node."""

import argparse
import logging
import sys
from pathlib import Path

from tests.node.artifacts import META_PACKAGES
from tests.node.errors import GuestDied, NodeError, NodeTimeout
from tests.node.node import Node, NodeResult
from tests.node.require import available


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.node",
        description="Boots a Linux node in QEMU over the host's own root (read-only), runs CMD in the checkout as "
        "root, and exits as CMD did; 124: time was up, 125: the guest died. One CMD word is a bash script, several are "
        "an argv. CMD may write files to $OUT (see --keep) and has a disk at /scratch.",
    )
    add = parser.add_argument
    add("--kernel", choices=list(META_PACKAGES), default="6.12-rt")
    add("--cpus", type=int, default=4, metavar="N")
    add("--mem", type=int, default=2048, metavar="MIB")
    add("--append", default="", metavar="CMDLINE", help="added to the kernel command line")
    add("--timeout", type=float, default=300, metavar="S", help="for one boot with its command")
    add("--tcg", choices=["multi", "single"], default="multi", help="single: a spinning CPU starves the others")
    add("--all-cpus-at-once", action="store_true", help="no maxcpus=1: for an isolated CPU 0; panics now and then")
    add("--acpi-idle", action="store_true", help="three idle states per CPU (latencies 1, 60, 200 µs)")
    add("--smp", default="", metavar="OPTS", help="added to QEMU's -smp, as threads=2")
    add("--qemu", action="append", default=[], metavar="ARG", help="one more QEMU argument; may be repeated")
    add("--env", action="append", default=[], type=_setting, metavar="K=V", help="may be repeated")
    add("--keep", type=Path, metavar="DIR", help="keeps out/, stdout, stderr and console.log")
    add("--no-retry", action="store_true", help="do not boot once more when the guest died")
    add("command", nargs="+", metavar="CMD")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not K=V")
    return name, value


def _node(args: argparse.Namespace) -> Node:
    return Node(
        kernel=args.kernel,
        cpus=args.cpus,
        mem_mib=args.mem,
        append=args.append,
        smp=args.smp,
        tcg=args.tcg,
        late_cpus=not args.all_cpus_at_once,
        acpi_idle=args.acpi_idle,
        env=dict(args.env),
        retry=not args.no_retry,
        extra=args.qemu,
    )


def _show(result: NodeResult) -> None:
    sys.stdout.write(result.stdout)
    sys.stdout.flush()
    sys.stderr.write(result.stderr)


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; the exit code is the command's."""
    logging.basicConfig(format="node: %(message)s")
    parser = _parser()
    args = parser.parse_args(argv)
    reason = available(args.kernel)
    if reason:
        parser.error(reason)
    command = args.command[0] if len(args.command) == 1 else args.command
    try:
        result = _node(args).run(command, timeout=args.timeout, job=args.keep)
    except (GuestDied, NodeTimeout) as end:
        _show(end.result)
        sys.stderr.write(f"node: {end}\n")
        return end.result.code
    except NodeError as error:
        parser.error(str(error))
    _show(result)
    sys.stderr.write(f"node: exit {result.code}, {result.wall_s:.1f} s, files in {result.out}\n" if args.keep else "")
    return result.code


if __name__ == "__main__":
    sys.exit(main())
