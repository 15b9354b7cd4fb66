"""The forms of the URI in the `endpoint` event of HTTP+SSE.

Spec: basic/transports#http-with-sse (2024-11-05)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.sse_host import EndpointForm, SseHost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.scenarios.scenario import ScenarioSetup

__all__ = ["ENDPOINT_FORMS", "use_endpoint_form"]

ENDPOINT_FORMS: Final[Mapping[str, EndpointForm]] = {
    "no-capabilities": EndpointForm.RELATIVE,
    "odd-but-legal": EndpointForm.ABSOLUTE,
    "initialize-rejected": EndpointForm.QUERY,
}
"""The form of the URI in the `endpoint` event of HTTP+SSE, by scenario; a path in all others."""


def use_endpoint_form(setup: ScenarioSetup, scenario: str) -> None:
    """Use the form of the URI of a scenario, over HTTP+SSE."""
    if isinstance(setup.host, SseHost):
        setup.host.endpoint = ENDPOINT_FORMS[scenario]
        if setup.host.endpoint is EndpointForm.RELATIVE:
            # At the first level, it would have the same meaning relative to the root.
            setup.host.path = "/below/sse"
