"""Resources and templates: the registry, both lists, reads and subscriptions. Spec: server/resources"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Unpack, cast

import attrs

from mcp_core.errors import ResourceNotFound
from mcp_core.field_methods import FieldRepr, FieldValue
from mcp_core.json_text import write
from mcp_core.methods import (
    RESOURCES_LIST,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    RESOURCES_TEMPLATES_LIST,
    RESOURCES_UNSUBSCRIBE,
)
from mcp_core.schema.annotations import Scope
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.type_spec import Mismatch, TypeSpec
from mcp_core.types import (
    BlobResourceContents,
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourcesCapability,
    ResourceTemplate,
    SubscribeRequestParams,
    TextResourceContents,
)
from mcp_server.cache_hint import hinted
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.features.directory import Directory
from mcp_server.features.listing import PagedList
from mcp_server.features.results import Audio, File, Image
from mcp_server.handlers.dependencies import INJECTED
from mcp_server.handlers.runner import Runner, described, named
from mcp_server.options import ResourceOptions, check_listed, check_options, check_text
from mcp_server.schema.signature import InvalidArguments, Parameters, label, parameters
from mcp_server.uris.template import InvalidTemplate, UriTemplate
from mcp_server.uris.template_index import TemplateIndex

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.schema.annotations import Function as AnyFunction
    from mcp_core.types import Icon, ResourceContents
    from mcp_server.cache_hint import CacheHint
    from mcp_server.connection.channel import Handler, RequestContext
    from mcp_server.handlers.access import AccessKind
    from mcp_server.handlers.environment import HandlerEnvironment
    from mcp_server.uris.matcher import Found

__all__ = ["Resources"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.")

_CONTENTS: Final = (TextResourceContents, BlobResourceContents)
_MEDIA: Final = (Image, Audio, File)
_PARTS: Final = (str, bytes, *_CONTENTS, *_MEDIA)


@attrs.define(eq=False, repr=False)
class _Entry(FieldRepr):
    listed: Resource | ResourceTemplate
    function: Runner
    parameters: Parameters
    any: TypeSpec
    """Serializes return values that are not contents."""
    template: UriTemplate | None = None
    numbers: dict[str, str] = attrs.field(factory=dict)
    """The variables whose parameters are numbers or booleans, with their JSON type."""
    hint: CacheHint | None = None
    """The caching hint of the contents."""
    directory: Directory | None = None
    """The directory of the files that it serves, if any."""

    def uri(self, values: Mapping[str, Found]) -> str:
        """Return the URI that a template expands to. It is the same for all encodings of the requested URI."""
        path = values.get("path")
        if self.directory is not None and isinstance(path, str):
            return self.directory.uri_of(path)
        return "" if self.template is None else self.template.expand(values)


@attrs.frozen(eq=False, repr=False)
class _Said(FieldValue):
    """The listed properties of a resource."""

    name: str
    description: str | None
    options: ResourceOptions

    def resource(self, uri: str) -> Resource:
        """Return the list entry of a resource."""
        options = self.options
        return Resource(
            uri=uri,
            name=self.name,
            title=options.get("title"),
            description=self.description,
            mime_type=options.get("mime_type"),
            annotations=options.get("annotations"),
            size=options.get("size"),
            icons=tuple(options.get("icons", ())) or None,
            meta=options.get("meta"),
        )

    def template(self, where: str, uri: str) -> ResourceTemplate:
        """Return the list entry of a template. Raises `RegistrationError` if the options contain a size."""
        options = self.options
        if options.get("size") is not None:
            raise RegistrationError(f"{where}: a template is for many resources and has no `size`")
        return ResourceTemplate(
            uri_template=uri,
            name=self.name,
            title=options.get("title"),
            description=self.description,
            mime_type=options.get("mime_type"),
            annotations=options.get("annotations"),
            icons=tuple(options.get("icons", ())) or None,
            meta=options.get("meta"),
        )


class Resources:
    """The resources of a server.

    Args:
        environment: The environment of the handlers of the server.
        changed: Called when a list has changed.
    """

    def __init__(self, environment: HandlerEnvironment, changed: Callable[[], None]) -> None:
        self._environment: Final = environment
        self._changed: Final = changed
        self._static: Final[dict[str, _Entry]] = {}
        self._templates: Final[dict[str, _Entry]] = {}
        self._index: Final[TemplateIndex[_Entry]] = TemplateIndex()
        """The entries of `_templates`, to find those that may match a URI."""
        self.listing: Final = PagedList(environment, "resource", environment.hinted(ListResourcesResult(resources=())))
        templates = environment.hinted(ListResourceTemplatesResult(resource_templates=()))
        self.template_listing: Final = PagedList(environment, "template", templates)
        self.handlers: Final[Mapping[str, Handler]] = {
            RESOURCES_LIST.name: self.listing.answer,
            RESOURCES_TEMPLATES_LIST.name: self.template_listing.answer,
            RESOURCES_READ.name: self._read,
            RESOURCES_SUBSCRIBE.name: self._subscribe,
            RESOURCES_UNSUBSCRIBE.name: self._unsubscribe,
        }
        """Handlers of the methods of this feature, by method."""

    @property
    def listed(self) -> tuple[Resource | ResourceTemplate, ...]:
        """All resources, in the order of their registration."""
        return tuple(entry.listed for entry in self._static.values())

    @property
    def listed_templates(self) -> tuple[Resource | ResourceTemplate, ...]:
        """All templates, in the order of their registration, in which they are matched."""
        return tuple(entry.listed for entry in self._templates.values())

    @property
    def capability(self) -> ResourcesCapability | None:
        """The capability to declare; `None` if there are no resources."""
        offers = self.listing.offers or self.template_listing.offers
        return ResourcesCapability(subscribe=True, list_changed=True) if offers else None

    def add(self, function: AnyFunction, uri: str, **options: Unpack[ResourceOptions]) -> None:
        """Register a resource or template. Raises `RegistrationError`. See `Server.add_resource`."""
        where = label(function)
        check_options(where, options, ResourceOptions.__optional_keys__)
        check_text(f"{where}: the URI of a resource", uri)
        read = parameters(function, injected=INJECTED, converter=self._environment.converter)
        if uri in self._static or uri in self._templates:
            raise RegistrationError(f"{where}: there is already a resource {uri!r}")
        if _SCHEME.match(uri) is None:
            raise RegistrationError(f"{where}: {uri!r} has no scheme; use a URI with one, for example 'notes://today'")
        run = Runner(
            function,
            read.injected,
            thread=options.get("thread"),
            async_library=options.get("async_library"),
            environment=self._environment,
        )
        dump = Compiler(where, output=True, error=RegistrationError, converter=self._environment.converter).spec(
            object, Scope({}, {})
        )
        said = _Said(named(function, options), described(read.description, options), options)
        members, hint = _members(read.schema), options.get("cache")
        if "{" in uri:
            template = _template(where, uri, read.schema, members)
            listed = said.template(where, uri)
            check_listed(where, listed)
            entry = _Entry(listed, run, read, dump, template, _numbers(members), hint)
            self._templates[uri] = entry
            self._index.add(template, entry)
            self.template_listing.add(uri, listed)
        elif members:
            raise RegistrationError(f"{where}: {uri!r} has no variables, but the function takes {', '.join(members)}")
        else:
            resource = said.resource(uri)
            check_listed(where, resource)
            self._static[uri] = _Entry(resource, run, read, dump, hint=hint)
            self.listing.add(uri, resource)
        self._changed()

    def add_directory(
        self,
        path: str | os.PathLike[str],
        uri: str,
        *,
        name: str | None,
        title: str | None,
        description: str | None,
        icons: Iterable[Icon],
        hidden: bool,
    ) -> None:
        """Register the files of a directory. Raises `RegistrationError`. See `Server.add_directory`."""
        directory = Directory(path, uri, hidden=hidden, environment=self._environment)
        template = directory.template.template
        self.add(
            directory.read,
            template,
            name=uri if name is None else name,
            title=title,
            description="Files, by their path." if description is None else description,
            icons=icons,
        )
        self._templates[template].directory = directory
        self.listing.add_source(uri, directory)

    def remove(self, uri: str) -> None:
        """Remove a resource, template or directory. Raises `RegistrationError` if it is not registered."""
        template = uri if uri in self._templates else f"{uri}{{+path}}"
        if uri in self._static:
            del self._static[uri]
            self.listing.remove(uri)
        elif template == uri or (template in self._templates and self._templates[template].directory is not None):
            entry = self._templates.pop(template)
            if entry.template is not None:
                self._index.remove(entry.template)
            self.template_listing.remove(template)
            if entry.directory is not None:
                self.listing.remove_source(entry.directory.uri)
        else:
            raise RegistrationError(f"there is no resource {uri!r} to remove")
        self._changed()

    def variables(self, uri_template: str) -> tuple[str, ...] | None:
        """Return the variables of a template; `None` if there is no template with this text."""
        entry = self._templates.get(uri_template)
        return None if entry is None or entry.template is None else entry.template.variables

    @property
    def uris(self) -> tuple[str, ...]:
        """All URIs and templates."""
        return (*self._static, *self._templates)

    def knows(self, uri: str) -> bool:
        """Return whether a resource or template with this URI is registered."""
        return uri in self._static or uri in self._templates

    async def exists(self, call: RequestContext, uri: str) -> bool:
        """Return whether the client that sent `call` can read a resource, or a template that matches its URI."""
        return await self._find(call, uri) is not None

    def decided_by(self, uri: str) -> list[tuple[AccessKind, str]]:
        """Return the kinds and names that access to a resource is decided by.

        Used if this server is mounted on another one, which decides.
        """
        for entry, name, _ in self._matches(uri):
            template = entry.template
            return [("resource", name)] if template is None else [("template", template.template), ("resource", name)]
        return []

    def standing_for(self, uri: str) -> list[str]:
        """Return the templates that match a URI, and the URI in the form that each of them expands to."""
        matches = [(entry.template, name) for entry, name, _ in self._matches(uri)]
        return [
            each for template, name in matches for each in ([name] if template is None else [template.template, name])
        ]

    async def _find(self, call: RequestContext, uri: str) -> tuple[_Entry, dict[str, object]] | None:
        """Return the entry that reads a resource for a client, and its arguments; `None` if no entry matches."""
        allows = self._environment.guard.allows
        for entry, name, arguments in self._matches(uri):
            template = entry.template
            if template is not None and not await allows(call, "template", template.template):
                continue
            if await allows(call, "resource", name):
                return entry, arguments
        return None

    def _matches(self, uri: str) -> Iterator[tuple[_Entry, str, dict[str, object]]]:
        """Yield the entries that can read a resource, with the expanded URI and the arguments."""
        entry = self._static.get(uri)
        if entry is not None:
            yield entry, uri, {}
            return
        for entry in self._index.candidates(uri):
            found = None if entry.template is None else entry.template.match(uri)
            if found is None:
                continue
            values: JsonObject = {key: _json(value) for key, value in found.items()}
            for key, kind in entry.numbers.items():
                text = values.get(key)
                if isinstance(text, str):
                    values[key] = _number(text, kind)
            try:
                arguments = entry.parameters.bind(values)
            except InvalidArguments:
                continue  # the URI matches the template, but not its types: another template can match
            yield entry, entry.uri(found), arguments

    async def _read(self, call: RequestContext) -> ReadResourceResult:
        params = cast("ReadResourceRequestParams", call.request.params)  # converted by the engine
        found = await self._find(call, params.uri)
        if found is None:
            raise ResourceNotFound.of(params.uri)
        entry, arguments = found
        value = await entry.function(call, arguments)
        if isinstance(value, ReadResourceResult):
            return value
        many = isinstance(value, list | tuple) and any(
            isinstance(item, _PARTS) and not isinstance(item, str) for item in value
        )
        parts = value if many and isinstance(value, list | tuple) else [value]
        result = ReadResourceResult(contents=tuple(_contents(part, params.uri, entry) for part in parts))
        return hinted(result, entry.hint, restricted=self._environment.guard.restricts)

    async def _subscribe(self, call: RequestContext) -> EmptyResult:
        params = cast("SubscribeRequestParams", call.request.params)  # converted by the engine to the method's class
        if not await self.exists(call, params.uri):
            raise ResourceNotFound.of(params.uri)
        return EmptyResult()

    async def _unsubscribe(self, _: RequestContext) -> EmptyResult:
        return EmptyResult()


def _members(schema: JsonObject) -> JsonObject:
    """Return the schemas of the parameters, by name."""
    members = schema.get("properties")
    return members if isinstance(members, dict) else {}


def _template(where: str, uri: str, schema: JsonObject, members: JsonObject) -> UriTemplate:
    try:
        template = UriTemplate(uri)
    except InvalidTemplate as error:
        raise RegistrationError(f"{where}: {error.message}") from error
    required = schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    without = [name for name in template.variables if name not in members]
    if without:
        raise RegistrationError(
            f"{where}: the template {uri!r} has {', '.join(without)}, but the function has no such parameter"
        )
    missing = sorted(str(name) for name in needed - set(template.variables))
    if missing:
        raise RegistrationError(
            f"{where}: nothing in {uri!r} sets the parameter {', '.join(missing)}; add a variable or a default"
        )
    return template


_PARSED: Final = frozenset({"integer", "number", "boolean"})


def _numbers(members: JsonObject) -> dict[str, str]:
    """Return the members that are numbers or booleans, which a URI contains as text."""
    found: dict[str, str] = {}
    for name, member in members.items():
        options = member.get("anyOf", [member]) if isinstance(member, dict) else []
        kinds = {each.get("type") for each in options if isinstance(each, dict)} if isinstance(options, list) else set()
        for kind in kinds & _PARSED:
            if isinstance(kind, str) and "string" not in kinds:
                found[name] = kind
    return found


_FORMS: Final = {
    "integer": re.compile(r"-?(0|[1-9][0-9]{0,400})"),
    "number": re.compile(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?"),
}


def _number(value: str, kind: str) -> JsonValue:
    """Return the number or boolean that a text represents; the text itself if it represents none."""
    if kind == "boolean":
        return {"true": True, "false": False}.get(value, value)
    if _FORMS[kind].fullmatch(value) is None:
        return value
    return float(value) if kind == "number" and not value.lstrip("-").isdigit() else int(value)


def _json(value: str | list[str] | dict[str, str]) -> JsonValue:
    if isinstance(value, str):
        return value
    return {**value} if isinstance(value, dict) else [*value]


def _contents(value: object, uri: str, entry: _Entry) -> ResourceContents:
    mime_type = entry.listed.mime_type
    match value:
        case TextResourceContents() | BlobResourceContents():
            return value
        case str():
            return TextResourceContents(uri=uri, text=value, mime_type=mime_type or "text/plain")
        case bytes():
            return BlobResourceContents.of_bytes(uri, value, mime_type or "application/octet-stream")
        case Image() | Audio():
            return BlobResourceContents.of_bytes(uri, value.data, value.mime_type)
        case File():
            return attrs.evolve(value.to_content().resource, uri=uri)
    try:
        text = write(entry.any.dump(value)).decode()
    except Mismatch as mismatch:
        problems = "; ".join(str(problem) for problem in mismatch.problems())
        raise InvalidResult(f"the function of the resource {uri!r} returned an invalid value: {problems}") from None
    return TextResourceContents(uri=uri, text=text, mime_type=mime_type or "application/json")
