"""A tool whose input schema is given, not read from a signature: one that stands for something else."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LimitExceeded
from mcp_core.http.header_parameters import InvalidParamHeader, param_headers
from mcp_server.errors import RegistrationError
from mcp_server.schema.signature import InvalidArguments, read_signature
from mcp_server.schema.validation import InvalidSchema, compile_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.schema.annotations import Function
    from mcp_server.schema.depends import Depends
    from mcp_server.schema.validation import Validator

__all__ = ["GivenParameters", "given_parameters"]


@attrs.frozen(kw_only=True)
class GivenParameters:
    """What such a function takes. It has all that `mcp_server.schema.signature.Parameters` has."""

    schema: JsonObject
    """The JSON Schema of its arguments."""
    headers: tuple[ParamHeader, ...]
    """Those of them that HTTP headers repeat."""
    description: str | None
    """What the function does, by its docstring."""
    injected: Mapping[str, type | Depends]
    """The parameters that the caller fills in, with their class."""
    _name: str
    _validator: Validator

    def bind(self, arguments: JsonObject) -> dict[str, object]:
        """The arguments, as the value of the function's parameter. Raises `InvalidArguments`."""
        problems = self._validator.validate(arguments)
        if problems:
            raise InvalidArguments(problems)
        return {self._name: arguments}


def given_parameters(function: Function, schema: JsonObject, *, injected: Collection[type] = ()) -> GivenParameters:
    """Takes a function together with the schema of its arguments.

    Args:
        function: It has one parameter, which gets the arguments as they came.
        schema: The JSON Schema. It is listed as it is.
        injected: Classes whose values the caller provides.

    Returns:
        What the function takes.

    Raises:
        RegistrationError: The function takes something else, or the schema cannot be one of a tool.
    """
    signature = read_signature(function, injected)
    if len(signature.members) != 1:
        raise RegistrationError(
            f"{signature.owner}: with an input_schema it gets the arguments as one dict, so it has one parameter for "
            f"them, not {len(signature.members)}"
        )
    if schema.get("type") != "object":
        raise RegistrationError(
            f"{signature.owner}: the input_schema of a tool describes an object: its type is 'object', "
            f"not {schema.get('type')!r}"
        )
    kept: Final = copy.deepcopy(schema)
    try:
        headers, validator = param_headers(kept), compile_schema(kept)
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
