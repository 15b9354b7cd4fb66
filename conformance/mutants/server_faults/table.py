"""All faults of raw servers in one table.

Importing a module adds its faults.
"""

from __future__ import annotations

# ruff: noqa: F401  importing a module adds its faults
# isort: off
import mutants.server_faults.envelope
import mutants.server_faults.headers
import mutants.server_faults.http
import mutants.server_faults.lists
import mutants.server_faults.messages
import mutants.server_faults.task_owners
import mutants.server_faults.pagination
import mutants.server_faults.stdio
import mutants.server_faults.client_requests
import mutants.server_faults.requests
import mutants.server_faults.mrtr
import mutants.server_faults.schema_results
import mutants.server_faults.schema_messages
import mutants.server_faults.streams
import mutants.server_faults.notifications
import mutants.server_faults.tasks
import mutants.server_faults.task_details
import mutants.server_faults.client_tasks
import mutants.server_faults.schemas
import mutants.server_faults.third_party
import mutants.server_faults.skills
import mutants.server_faults.shared_state

# isort: on
from mutants.server.fault import FAULTS

__all__ = ["FAULTS"]
