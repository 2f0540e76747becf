"""``python -m tests.reports_cases``: prints the table and writes docs/reports.md."""

from __future__ import annotations

import sys

from tests.reports_cases.table import PAGE, page, rows


def main() -> None:
    """Judges every report."""
    text = page(rows())
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
