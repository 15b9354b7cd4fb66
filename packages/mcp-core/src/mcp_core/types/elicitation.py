"""Elicitation: a server requests input of the user, by a form or a web page. Spec: client/elicitation"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_06_18, R2025_11_25, between
from mcp_core.types.base import NotificationParams, Open, TaskMetadata
from mcp_core.types.wire_object import field, wire

__all__ = [
    "BooleanSchema",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitValue",
    "ElicitationCompleteNotificationParams",
    "EnumItems",
    "EnumOption",
    "LegacyTitledEnumSchema",
    "NumberSchema",
    "PrimitiveSchemaDefinition",
    "RequestedSchema",
    "StringSchema",
    "TitledEnumItems",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
]

ElicitValue: TypeAlias = str | int | float | bool | tuple[str, ...]
"""The user's value for one field of a form."""


@wire(since=R2025_06_18, tag="type")
class StringSchema(Open):
    """A field for text. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """The type of field."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    min_length: int | None = None
    """The minimum number of characters."""
    max_length: int | None = None
    """The maximum number of characters."""
    format: Literal["email", "uri", "date", "date-time"] | None = None
    """The format of the text."""
    default: str | None = field(default=None, since=R2025_11_25)
    """The default value."""


@wire(since=R2025_06_18)
class NumberSchema(Open):
    """A field for a number. Spec: client/elicitation#requested-schema"""

    type: Literal["number", "integer"]
    """Whether the number must be an integer."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    minimum: float | None = None
    """The minimum number."""
    maximum: float | None = None
    """The maximum number."""
    default: float | None = field(default=None, since=R2025_11_25)
    """The default value."""


@wire(since=R2025_06_18, tag="type")
class BooleanSchema(Open):
    """A field for yes or no. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["boolean"]] = "boolean"
    """The type of field."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    default: bool | None = None
    """The default value."""


@wire(since=R2025_06_18, tag="type", when=("enum",))
class UntitledSingleSelectEnumSchema(Open):
    """A field to select one of several values. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """The type of field."""
    enum: tuple[str, ...]
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    default: str | None = field(default=None, since=R2025_11_25)
    """The default selection."""


@wire(since=R2025_06_18, tag="type", when=("enumNames",))
class LegacyTitledEnumSchema(Open):
    """A field to select one of several values, with a list of display names.

    Spec: client/elicitation#requested-schema
    """

    type: ClassVar[Literal["string"]] = "string"
    """The type of field."""
    enum: tuple[str, ...]
    """The values."""
    enum_names: tuple[str, ...] | None = None
    """The display names, in the same order."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    default: str | None = field(default=None, since=R2025_11_25)
    """The default selection."""


@wire(since=R2025_11_25)
class EnumOption(Open):
    """A value with its display name. Spec: client/elicitation#requested-schema"""

    const: str
    """The value."""
    title: str
    """The display name."""


@wire(since=R2025_11_25, tag="type", when=("oneOf",))
class TitledSingleSelectEnumSchema(Open):
    """A field to select one of several values with display names. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """The type of field."""
    one_of: tuple[EnumOption, ...]
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    default: str | None = None
    """The default selection."""


@wire(since=R2025_11_25, tag="type")
class EnumItems(Open):
    """The values of a field to select several. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """The type of the values."""
    enum: tuple[str, ...]
    """The values."""


@wire(since=R2025_11_25)
class TitledEnumItems(Open):
    """The values, with display names, of a field to select several. Spec: client/elicitation#requested-schema"""

    any_of: tuple[EnumOption, ...]
    """The values."""


@wire(since=R2025_11_25, tag="type", when=("items", "enum"))
class UntitledMultiSelectEnumSchema(Open):
    """A field to select several values. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["array"]] = "array"
    """The type of field."""
    items: EnumItems
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    min_items: int | None = None
    """The minimum number of values."""
    max_items: int | None = None
    """The maximum number of values."""
    default: tuple[str, ...] | None = None
    """The default selection."""


@wire(since=R2025_11_25, tag="type", when=("items", "anyOf"))
class TitledMultiSelectEnumSchema(Open):
    """A field to select several values with display names. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["array"]] = "array"
    """The type of field."""
    items: TitledEnumItems
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """The description."""
    min_items: int | None = None
    """The minimum number of values."""
    max_items: int | None = None
    """The maximum number of values."""
    default: tuple[str, ...] | None = None
    """The default selection."""


PrimitiveSchemaDefinition: TypeAlias = (
    TitledSingleSelectEnumSchema
    | LegacyTitledEnumSchema
    | UntitledSingleSelectEnumSchema
    | StringSchema
    | BooleanSchema
    | TitledMultiSelectEnumSchema
    | UntitledMultiSelectEnumSchema
    | NumberSchema
)
"""A field of a form. The reader tries the classes in this order."""


@wire(since=R2025_06_18, tag="type")
class RequestedSchema(Open):
    """A form. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["object"]] = "object"
    """The type of the content."""
    properties: Mapping[str, PrimitiveSchemaDefinition]
    """The fields, by name."""
    required: tuple[str, ...] | None = None
    """The names of the required fields."""
    schema: str | None = field(default=None, name="$schema", since=R2025_11_25)
    """The dialect of JSON Schema."""


@wire(since=R2025_06_18)
class ElicitRequestFormParams(Open):
    """The parameters of `elicitation/create` for a form. Spec: client/elicitation#form-mode-elicitation-requests"""

    message: str
    """The message for the user."""
    requested_schema: RequestedSchema
    """The form."""
    mode: Literal["form"] = field(default="form", since=R2025_11_25)
    """The mode of elicitation; the default on the wire."""
    task: TaskMetadata | None = field(default=None, since=R2025_11_25, until=R2025_11_25, refuse=True)
    """Metadata of a request that runs as a task; `None` for other requests."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


@wire(since=R2025_11_25, tag="mode")
class ElicitRequestURLParams(Open):
    """The parameters of `elicitation/create` for a web page. Spec: client/elicitation#url-mode-elicitation-requests"""

    mode: ClassVar[Literal["url"]] = "url"
    """The mode of elicitation."""
    message: str
    """The message for the user."""
    url: str
    """The URL of the page. It comes from the server: do not open it without the user's consent."""
    elicitation_id: str | None = field(default=None, until=R2025_11_25, required=between(R2025_11_25, R2025_11_25))
    """The id that `notifications/elicitation/complete` will name; required in 2025-11-25."""
    task: TaskMetadata | None = field(default=None, until=R2025_11_25, refuse=True)
    """Metadata of a request that runs as a task; `None` for other requests."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


ElicitRequestParams: TypeAlias = ElicitRequestURLParams | ElicitRequestFormParams
"""The parameters of `elicitation/create`."""


@wire(since=R2025_06_18, when=("action",))
class ElicitResult(Open):
    """The result of `elicitation/create`. Spec: client/elicitation#response-actions"""

    action: Literal["accept", "decline", "cancel"]
    """The action of the user."""
    content: Mapping[str, ElicitValue] | None = field(
        default=None, was=(between(R2025_06_18, R2025_06_18), Mapping[str, str | int | float | bool])
    )
    """The content of an accepted form. Lists of strings since 2025-11-25."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ElicitationCompleteNotificationParams(NotificationParams):
    """The parameters of `notifications/elicitation/complete`. Spec: client/elicitation (2025-11-25)"""

    elicitation_id: str
    """The id of the elicitation whose page the user completed."""
