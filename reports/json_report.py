"""The audit as the JSON document ``cpu-audit/audit/v1`` (``reports/schema/audit-v1.schema.json``)."""

from __future__ import annotations

import json

from auditor.document import to_document
from auditor.model import Audit


def render(audit: Audit) -> str:
    """Indented JSON in plain ASCII: escapes keep names that others chose harmless on a terminal. Ends in a line end."""
    return json.dumps(to_document(audit), indent=2, allow_nan=False) + "\n"
