"""References to the schemas of named types: a type that is used once is inlined, others are defined in `$defs`."""

from __future__ import annotations

from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Ref", "embed"]


class Ref(dict[str, JsonValue]):
    """A reference to the schema of a named type. Members beside `$ref` are annotations."""

    def __init__(self, name: str, beside: JsonObject | None = None) -> None:
        super().__init__({"$ref": f"#/$defs/{name}", **(beside or {})})
        self.name = name
        self.beside: JsonObject = beside or {}

    def merged(self, members: JsonObject) -> Ref:
        """Return the reference with additional annotations."""
        return Ref(self.name, {**self.beside, **members})


def embed(schema: JsonObject, definitions: dict[str, JsonObject]) -> JsonObject:
    """Return a schema with all definitions that it refers to.

    A type that is used once is inlined, because many clients handle `$ref` badly. A type that is used more often, or
    contains itself, is defined in `$defs`.

    Args:
        schema: A schema with references.
        definitions: The schemas of named types.

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
