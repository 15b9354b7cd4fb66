"""Puts the schemas of named types where they are used: once in place, or under `$defs` when used more often."""

from __future__ import annotations

from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Ref", "embed"]


class Ref(dict[str, JsonValue]):
    """Stands in a schema for that of a named type. Members beside the reference are annotations."""

    def __init__(self, name: str, beside: JsonObject | None = None) -> None:
        super().__init__({"$ref": f"#/$defs/{name}", **(beside or {})})
        self.name = name
        self.beside: JsonObject = beside or {}

    def merged(self, members: JsonObject) -> Ref:
        """The same reference with more members beside it."""
        return Ref(self.name, {**self.beside, **members})


def embed(schema: JsonObject, definitions: dict[str, JsonObject]) -> JsonObject:
    """A complete schema.

    A type that is used once stands where it is used, since many clients read `$ref` badly. One that is used more often,
    or contains itself, stands under `$defs`.

    Args:
        schema: A schema with references.
        definitions: What they refer to.

    Returns:
        A new schema without instances of `Ref`.
    """
    uses: dict[str, int] = {}
    recursive: set[str] = set()

    def count(node: JsonValue, above: tuple[str, ...]) -> None:
        if isinstance(node, Ref):
            uses[node.name] = uses.get(node.name, 0) + 1
            if node.name in above:
                recursive.update(above[above.index(node.name) :])
            if uses[node.name] == 1:
                count(definitions[node.name], (*above, node.name))
        elif isinstance(node, dict):
            for member in node.values():
                count(member, above)
        elif isinstance(node, list):
            for member in node:
                count(member, above)

    def copy(node: JsonValue) -> JsonValue:
        if isinstance(node, Ref):
            if uses[node.name] == 1 and node.name not in recursive:
                inner = copy(definitions[node.name])
                return {**inner, **node.beside} if isinstance(inner, dict) else inner
            return dict(node)
        if isinstance(node, dict):
            return {name: copy(member) for name, member in node.items()}
        return [copy(member) for member in node] if isinstance(node, list) else node

    count(schema, ())
    shared: JsonObject = {name: copy(definitions[name]) for name in uses if uses[name] > 1 or name in recursive}
    complete = {name: copy(member) for name, member in schema.items()}
    if isinstance(schema, Ref):
        inlined = copy(schema)
        complete = inlined if isinstance(inlined, dict) else {}
    if shared:
        complete["$defs"] = shared
    return complete
