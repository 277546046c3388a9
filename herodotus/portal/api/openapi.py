"""How do programs learn what can be asked? The OpenAPI 3.1 document, made from the table that is also the routes."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from herodotus import __version__
from herodotus.portal.api.endpoints import ApiEndpoint, places_in

_REFERENCE = "#/components/schemas/{name}"
_PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_WHY = {
    HTTPStatus.BAD_REQUEST: "The question is not well formed.",
    HTTPStatus.UNAUTHORIZED: "The operator's token is missing or wrong.",
    HTTPStatus.FORBIDDEN: "This peer takes orders from its own machine only.",
    HTTPStatus.NOT_FOUND: "There is no such thing.",
    HTTPStatus.GONE: "It is gone: start again.",
    HTTPStatus.TOO_MANY_REQUESTS: "More than one reader's ration.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not now.",
}
_HEADERS = {
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}},
    "Link": {"description": 'Where to continue: `<…>; rel="next"`.', "schema": {"type": "string"}},
}


def describe(endpoints: Sequence[ApiEndpoint]) -> dict[str, Any]:
    types = {shape for endpoint in endpoints for shape in endpoint.shapes}
    types |= {endpoint.body for endpoint in endpoints if endpoint.body is not None}
    ordered = sorted(types, key=lambda kind: kind.__name__)
    references, schemas = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    reference_of = dict(zip(ordered, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, reference_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Herodotus",
            "version": __version__,
            "description": "What programs can ask of a peer of the web archive. Long answers come in parts: the header "
            "Link and the field `next` say how to continue, with the parameter `after`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM},
            "securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: ApiEndpoint, reference_of: Mapping[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(endpoint),
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, reference_of),
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": reference_of[endpoint.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.is_for_operator:
        operation["security"] = [{"operator": []}]
    return operation


def _name(endpoint: ApiEndpoint) -> str:
    words = [part.strip("{}") for part in endpoint.path.removeprefix("/api/v1/").replace(".", "/").split("/")]
    return "_".join([endpoint.method.lower(), *words])


def _parameters(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    described = msgspec.json.schema(endpoint.question)
    schema = _inlined(described, described.get("$defs", {}))
    in_path, required = places_in(endpoint.path), schema.get("required", [])
    return [
        _parameter(name, dict(one), is_in_path=name in in_path, is_required=name in required)
        for name, one in schema["properties"].items()
        if not (name == "order" and endpoint.body is not None)
    ]


def _inlined(schema: Any, known: Mapping[str, Any]) -> Any:
    """Parameters refer to nothing: what they are made of stands where it is used."""
    if isinstance(schema, list):
        return [_inlined(one, known) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inlined = {key: _inlined(value, known) for key, value in schema.items() if key not in ("$ref", "$defs")}
    if "$ref" in schema:
        return {**_inlined(known[schema["$ref"].rpartition("/")[2]], known), **inlined}
    return inlined


def _parameter(name: str, schema: dict[str, Any], *, is_in_path: bool, is_required: bool) -> dict[str, Any]:
    if "anyOf" in schema:  # what may be left out is null to us, and simply not there in an address
        default = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        schema = {**next(one for one in schema["anyOf"] if one != {"type": "null"}), **default}
    description = schema.pop("description", "")
    return {
        "name": name,
        "in": "path" if is_in_path else "query",
        "required": is_required or is_in_path,
        "description": description,
        "schema": schema,
    }


def _responses(endpoint: ApiEndpoint, reference_of: Mapping[Any, Any]) -> dict[str, Any]:
    schemas = [reference_of[shape] for shape in endpoint.shapes]
    schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else {}
    good: dict[str, Any] = {
        "description": endpoint.summary,
        "content": {one: {"schema": schema} for one in endpoint.media},
    }
    if "after" in endpoint.question.__struct_fields__:
        good["headers"] = {"Link": _HEADERS["Link"]}
    found = {str(endpoint.status.value): good}
    return found | {str(status.value): _problem(status) for status in sorted(_failures(endpoint))}


def _failures(endpoint: ApiEndpoint) -> set[HTTPStatus]:
    failures = {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
    if endpoint.is_for_operator:
        failures |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    else:
        failures.add(HTTPStatus.TOO_MANY_REQUESTS)
    if endpoint.may_be_elsewhere or endpoint.may_be_missing:
        failures.add(HTTPStatus.NOT_FOUND)
    if endpoint.may_be_gone:
        failures.add(HTTPStatus.GONE)
    return failures


def _problem(status: HTTPStatus) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": _WHY[status],
        "content": {"application/problem+json": {"schema": {"$ref": _REFERENCE.format(name="Problem")}}},
    }
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        answer["headers"] = {"Retry-After": _HEADERS["Retry-After"]}
    return answer
