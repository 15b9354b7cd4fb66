"""Tools with a given input schema instead of a signature, for example tools of another server."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LimitExceeded
from mcp_core.field_methods import FieldValue
from mcp_core.http.header_parameters import InvalidParamHeader, param_headers
from mcp_core.schema.validation import InvalidSchema, SchemaLimits, compile_schema
from mcp_server.errors import RegistrationError
from mcp_server.schema.signature import InvalidArguments, read_signature

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.schema.annotations import Function
    from mcp_core.schema.validation import Validator
    from mcp_server.schema.depends import Depends

__all__ = ["GivenParameters", "given_parameters"]

_LIMITS: Final = SchemaLimits(subschemas=100_000)
"""Higher than for schemas of peers, because the author chose the schema. Those of large HTTP APIs have 12,000."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class GivenParameters(FieldValue):
    """The parameters of a function with a given schema: a substitute for `mcp_server.schema.signature.Parameters`."""

    schema: JsonObject
    """The JSON Schema of the arguments."""
    headers: tuple[ParamHeader, ...]
    """The header parameters."""
    description: str | None
    """The description of the function in its docstring."""
    injected: Mapping[str, type | Depends]
    """The parameters that the caller provides, with their classes or dependencies."""
    _name: str
    _validator: Validator

    def bind(self, arguments: JsonObject) -> dict[str, object]:
        """Return the arguments as the value of the function's parameter. Raises `InvalidArguments`."""
        problems = self._validator.validate(arguments)
        if problems:
            raise InvalidArguments(problems)
        return {self._name: arguments}


def given_parameters(function: Function, schema: JsonObject, *, injected: Collection[type] = ()) -> GivenParameters:
    """Read the parameters of a function whose input schema is given.

    Args:
        function: The function. Its single parameter receives all arguments as a dict.
        schema: The JSON Schema. It is listed unchanged.
        injected: Classes whose values the caller provides.

    Returns:
        The parameters of the function.

    Raises:
        RegistrationError: The function has other parameters, or the schema is not a valid input schema.
    """
    signature = read_signature(function, injected)
    if len(signature.members) != 1:
        raise RegistrationError(
            f"{signature.owner}: with an input_schema, a function must have one parameter, which receives the "
            f"arguments as a dict, not {len(signature.members)}"
        )
    if schema.get("type") != "object":
        raise RegistrationError(
            f"{signature.owner}: the input_schema of a tool must have the type 'object', not {schema.get('type')!r}"
        )
    kept: Final = copy.deepcopy(schema)
    try:
        headers, validator = param_headers(kept), compile_schema(kept, limits=_LIMITS)
    except (InvalidParamHeader, InvalidSchema, LimitExceeded) as error:
        raise RegistrationError(f"{signature.owner}: input_schema: {error}") from error
    return GivenParameters(
        schema=kept,
        headers=headers,
        description=signature.said.description or None,
        injected=signature.injected,
        name=signature.members[0].name,
        validator=validator,
    )
