"""A server asks the user: by a form, or by a page to visit. Spec: client/elicitation"""

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
"""What the user puts in one field of a form."""


@wire(since=R2025_06_18, tag="type")
class StringSchema(Open):
    """A field for text. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """Tells the kinds of field apart."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    min_length: int | None = None
    """The least number of characters."""
    max_length: int | None = None
    """The largest number of characters."""
    format: Literal["email", "uri", "date", "date-time"] | None = None
    """What the text has to look like."""
    default: str | None = field(default=None, since=R2025_11_25)
    """What stands there at first."""


@wire(since=R2025_06_18)
class NumberSchema(Open):
    """A field for a number. Spec: client/elicitation#requested-schema"""

    type: Literal["number", "integer"]
    """Whether it has to be whole."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    minimum: float | None = None
    """The smallest number."""
    maximum: float | None = None
    """The largest number."""
    default: float | None = field(default=None, since=R2025_11_25)
    """What stands there at first."""


@wire(since=R2025_06_18, tag="type")
class BooleanSchema(Open):
    """A field for yes or no. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["boolean"]] = "boolean"
    """Tells the kinds of field apart."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    default: bool | None = None
    """What stands there at first."""


@wire(since=R2025_06_18, tag="type", when=("enum",))
class UntitledSingleSelectEnumSchema(Open):
    """A field to choose one of several values. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """Tells the kinds of field apart."""
    enum: tuple[str, ...]
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    default: str | None = field(default=None, since=R2025_11_25)
    """What is chosen at first."""


@wire(since=R2025_06_18, tag="type", when=("enumNames",))
class LegacyTitledEnumSchema(Open):
    """A field to choose one of several values, with names in a list of their own. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """Tells the kinds of field apart."""
    enum: tuple[str, ...]
    """The values."""
    enum_names: tuple[str, ...] | None = None
    """Their names for people, in the same order."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    default: str | None = field(default=None, since=R2025_11_25)
    """What is chosen at first."""


@wire(since=R2025_11_25)
class EnumOption(Open):
    """A value to choose, with its name. Spec: client/elicitation#requested-schema"""

    const: str
    """The value."""
    title: str
    """Its name for people."""


@wire(since=R2025_11_25, tag="type", when=("oneOf",))
class TitledSingleSelectEnumSchema(Open):
    """A field to choose one of several values with names. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """Tells the kinds of field apart."""
    one_of: tuple[EnumOption, ...]
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    default: str | None = None
    """What is chosen at first."""


@wire(since=R2025_11_25, tag="type")
class EnumItems(Open):
    """The values of a field to choose several. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["string"]] = "string"
    """What the values are."""
    enum: tuple[str, ...]
    """The values."""


@wire(since=R2025_11_25)
class TitledEnumItems(Open):
    """The values, with names, of a field to choose several. Spec: client/elicitation#requested-schema"""

    any_of: tuple[EnumOption, ...]
    """The values."""


@wire(since=R2025_11_25, tag="type", when=("items", "enum"))
class UntitledMultiSelectEnumSchema(Open):
    """A field to choose several values. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["array"]] = "array"
    """Tells the kinds of field apart."""
    items: EnumItems
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    min_items: int | None = None
    """The least number of values."""
    max_items: int | None = None
    """The largest number of values."""
    default: tuple[str, ...] | None = None
    """What is chosen at first."""


@wire(since=R2025_11_25, tag="type", when=("items", "anyOf"))
class TitledMultiSelectEnumSchema(Open):
    """A field to choose several values with names. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["array"]] = "array"
    """Tells the kinds of field apart."""
    items: TitledEnumItems
    """The values."""
    title: str | None = None
    """The name of the field."""
    description: str | None = None
    """What it is for."""
    min_items: int | None = None
    """The least number of values."""
    max_items: int | None = None
    """The largest number of values."""
    default: tuple[str, ...] | None = None
    """What is chosen at first."""


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
"""A field of a form. The order is that in which they are told apart."""


@wire(since=R2025_06_18, tag="type")
class RequestedSchema(Open):
    """A form. Spec: client/elicitation#requested-schema"""

    type: ClassVar[Literal["object"]] = "object"
    """What the answer is."""
    properties: Mapping[str, PrimitiveSchemaDefinition]
    """The fields, by name."""
    required: tuple[str, ...] | None = None
    """The names of the fields that have to be filled in."""
    schema: str | None = field(default=None, name="$schema", since=R2025_11_25)
    """The dialect of JSON Schema."""


@wire(since=R2025_06_18)
class ElicitRequestFormParams(Open):
    """The parameters of `elicitation/create` for a form. Spec: client/elicitation#form-mode-elicitation-requests"""

    message: str
    """What the user is told."""
    requested_schema: RequestedSchema
    """The form."""
    mode: Literal["form"] = field(default="form", since=R2025_11_25)
    """Tells the modes apart; on the wire a form is the default."""
    task: TaskMetadata | None = field(default=None, since=R2025_11_25, until=R2025_11_25, refuse=True)
    """Run it as a task."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


@wire(since=R2025_11_25, tag="mode")
class ElicitRequestURLParams(Open):
    """The parameters of `elicitation/create` for a page to visit. Spec: client/elicitation#url-mode-elicitation-requests"""

    mode: ClassVar[Literal["url"]] = "url"
    """Tells the modes apart."""
    message: str
    """What the user is told."""
    url: str
    """The page. Comes from the server: not to be opened without asking the user."""
    elicitation_id: str | None = field(default=None, until=R2025_11_25, required=between(R2025_11_25, R2025_11_25))
    """What `notifications/elicitation/complete` will name; has to be there in 2025-11-25."""
    task: TaskMetadata | None = field(default=None, until=R2025_11_25, refuse=True)
    """Run it as a task."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


ElicitRequestParams: TypeAlias = ElicitRequestURLParams | ElicitRequestFormParams
"""The parameters of `elicitation/create`."""


@wire(since=R2025_06_18, when=("action",))
class ElicitResult(Open):
    """The answer to `elicitation/create`. Spec: client/elicitation#response-actions"""

    action: Literal["accept", "decline", "cancel"]
    """What the user did."""
    content: Mapping[str, ElicitValue] | None = field(
        default=None, was=(between(R2025_06_18, R2025_06_18), Mapping[str, str | int | float | bool])
    )
    """What is in the form, when it was accepted. Lists of strings since 2025-11-25."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ElicitationCompleteNotificationParams(NotificationParams):
    """The parameters of `notifications/elicitation/complete`. Spec: client/elicitation (2025-11-25)"""

    elicitation_id: str
    """The elicitation whose page the user is done with."""
