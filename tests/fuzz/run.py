"""The loop: damage a seed, parse it, twice now and then; whatever else than a refusal comes of it is a bug."""

from __future__ import annotations

import random
import re
import signal
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from probes.host import decode
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target

LIMIT_S = 1.0
"""CPU time that one input may take."""
HANG_S = 20.0
"""When it is given up."""
AGAIN = 16
"""Every how many inputs the same is parsed once more, to the same end."""
MAX_POOL = 300


class HangError(BaseException):
    """Not an Exception: no handler of a parser may take it for one."""


@dataclass(kw_only=True, slots=True)
class Bug:
    """An input and what came of it."""

    target: str
    text: str
    problem: str


@dataclass(kw_only=True, slots=True)
class Result:
    """What became of the inputs of one target. ``digest``: the same for the same seed, whatever the machine does."""

    target: str
    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    slowest: str = ""
    digest: int = 0
    outcomes: set[str] = field(default_factory=set)
    bugs: list[Bug] = field(default_factory=list)


@contextmanager
def no_hang() -> Iterator[None]:
    """Raises HangError in what uses too much CPU time."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, give_up)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def fuzz(target: Target, *, seed: int, inputs: int, until: float | None = None, limit_s: float = LIMIT_S) -> Result:
    """Runs ``inputs`` through one target, or until the monotonic time ``until``. The same seed is the same run.

    An input that takes more CPU time than ``limit_s`` is a bug.
    """
    rng = random.Random(f"{seed} {target.name}")
    pool = list(target.seeds)
    result = Result(target=target.name)
    started = time.monotonic()
    with no_hang():
        for number in range(inputs):
            text = _input(rng, target, pool)
            new = _one(target, text, result, limit_s, again=number % AGAIN == 0)
            if new and len(pool) < MAX_POOL and len(text) < 10_000:
                pool.append(text)  # what was refused for a new reason got further than the others
            if until is not None and number % 100 == 0 and time.monotonic() > until:
                break
    result.seconds = time.monotonic() - started
    return result


def _input(rng: random.Random, target: Target, pool: list[str]) -> str:
    data = mutate(rng, rng.choice(pool), pool)
    return data.decode("utf-8", "surrogateescape") if target.argument else decode(data)


def _one(target: Target, text: str, result: Result, limit_s: float, *, again: bool) -> bool:
    """One input; whether its outcome is of a kind not seen before."""
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
    before = time.process_time()
    said = outcome(target, text, result)
    took = time.process_time() - before
    result.inputs += 1
    if took > result.slowest_s:
        result.slowest_s, result.slowest = took, text
    if took > limit_s:
        result.bugs.append(Bug(target=target.name, text=text, problem=f"took {took:.1f} s"))
    if again and (other := outcome(target, text, result)) != said:
        result.bugs.append(Bug(target=target.name, text=text, problem=f"{said!r}, then {other!r}"))
    result.digest = zlib.crc32(said.encode("utf-8", "surrogatepass"), result.digest)
    kind = _kind(said)
    new = kind not in result.outcomes
    result.outcomes.add(kind)
    return new


def outcome(target: Target, text: str, result: Result) -> str:
    """What the parser says of a text, as a text; anything but a value or a refusal is noted as a bug."""
    try:
        value = target.parse(text)
    except target.allowed as error:
        return f"{type(error).__name__}: {error}"
    except HangError:
        result.bugs.append(Bug(target=target.name, text=text, problem=f"was not done after {HANG_S:.0f} s"))
        return "hang"
    except Exception as error:  # noqa: BLE001 whatever it is, it is a bug
        result.bugs.append(Bug(target=target.name, text=text, problem=f"{type(error).__name__}: {error}"))
        return "bug"
    result.accepted += 1
    return f"= {value!r}" if len(text) < 2000 else "="


def _kind(said: str) -> str:
    """A refusal without its numbers and quotes."""
    return said[:1] if said.startswith("=") else "".join(c for c in re.split("['\"]", said)[0] if not c.isdigit())[:80]
