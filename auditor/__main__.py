"""``python -m auditor`` and the command ``cpu-audit``: ready for signals before it imports what takes a moment."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

INTERRUPTED = 130  # as auditor.model.ExitCode, which is not imported yet


def main() -> NoReturn:
    """The command line; SIGINT and SIGTERM end it with 130 from here on."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from auditor import cli
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    cli.main()


if __name__ == "__main__":
    main()
