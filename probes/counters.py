"""Numbers of the kernel's counter files: how a decimal is read, and how far a 32-bit counter has grown."""

from __future__ import annotations

from probes.host import ProbeError

MAX_DIGITS = 20  # 2**64 has 20; longer is damage, and int() of thousands of digits raises ValueError


def parse_count(token: str) -> int | None:
    """An unsigned decimal of at most 20 digits, None for anything else (signs, blanks, digits of other scripts)."""
    if len(token) <= MAX_DIGITS and token.isascii() and token.isdigit():
        return int(token)
    return None


def parse_number(text: str, *, path: str = "") -> int:
    """A file that holds one unsigned number; raises ProbeError (MALFORMED)."""
    number = parse_count(text.strip())
    if number is None:
        raise ProbeError(path, f"not a number: {text.strip()[:40]!r}")
    return number


def counter_delta(before: int, after: int, *, bits: int = 32) -> int | None:
    """How many events a kernel counter of ``bits`` bits counted between two reads.

    Per-CPU counts of /proc/interrupts and /proc/softirqs are ``unsigned int`` on every architecture. At 10 000 events a
    second one wraps every 5 days, so within a window a drop is a wrap only from the upper half of the range. Any other
    drop is None: the row was freed and made again, or the two reads are of different boots.
    """
    if after >= before:
        return after - before
    if before > 1 << (bits - 1) and before < 1 << bits:
        return after - before + (1 << bits)
    return None
