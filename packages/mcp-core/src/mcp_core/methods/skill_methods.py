"""Definitions of the requests of the skills extension. Import them from `mcp_core.methods`."""

from __future__ import annotations

from typing import Final

from mcp_core.methods.definition import RequestMethod, Side
from mcp_core.revisions import R2026_07_28, between
from mcp_core.types import skills as s
from mcp_core.types.skills import SKILLS_EXTENSION

_MODERN: Final = between(R2026_07_28)

SKILLS_LIST: Final = RequestMethod(
    name="skills/list",
    sender=Side.CLIENT,
    params=s.ListSkillsRequestParams,
    result=s.ListSkillsResult,
    revisions=_MODERN,
    server_capability=("extensions", SKILLS_EXTENSION),
    cacheable=_MODERN,
    extension=SKILLS_EXTENSION,
)
SKILLS_GET: Final = RequestMethod(
    name="skills/get",
    sender=Side.CLIENT,
    params=s.GetSkillRequestParams,
    result=s.GetSkillResult,
    revisions=_MODERN,
    server_capability=("extensions", SKILLS_EXTENSION),
    cacheable=_MODERN,
    extension=SKILLS_EXTENSION,
)
RESOURCES_DIRECTORY_READ: Final = RequestMethod(
    name="resources/directory/read",
    sender=Side.CLIENT,
    params=s.ReadResourceDirectoryRequestParams,
    result=s.ReadResourceDirectoryResult,
    revisions=_MODERN,
    server_capability=("extensions", SKILLS_EXTENSION, "directoryRead"),
    extension=SKILLS_EXTENSION,
)
