"""Does a running peer answer as its description says, whatever is asked? Schemathesis makes the questions."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.shelves import peer_with

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]  # hundreds of questions, on whatever machine
SEED = 20_260_731
NEGATIVE = schemathesis.GenerationMode.NEGATIVE
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.negative_data_rejection,
    openapi_checks.allow_header_conformance,
]
KNOWN = {"url": HOME, "from": f"{SITE}/3", "to": HOME, "q": "example", "number": 1}
"""Values of required parameters that lead somewhere, which chance does not find."""
LINE_CHARS_MAX = 8_100
EXAMPLES = 25
"""Of each operation; 23 of them take some 15 s."""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("asked")
    pages = [
        response(HOME, f"202601{day:02}", b'<a href="/a">%d</a><img src="/i.png">' % day)
        for day in range(1, 9)
    ]
    others = [response(f"{SITE}/{n}", "20260101", b'<a href="/">home</a>') for n in range(20)]
    with peer_with(folder, *pages, *others) as running:
        token = (running.home / "state" / "operator.token").read_text().strip()
        yield running.http, token


def description(http: str) -> Any:
    return schemathesis.openapi.from_dict(requests.get(f"{http}/api/v1/openapi.json", timeout=20).json())


def test_every_endpoint_answers_as_described_and_never_fails(peer: tuple[str, str]) -> None:
    http, token = peer
    seen: dict[str, set[int]] = {}
    for result in description(http).get_all_operations():
        operation = result.ok()
        name = f"{operation.method.upper()} {operation.path}"
        seen[name] = asked(operation, http, {})
        if operation.definition.raw.get("security"):
            assert seen[name] == {401}, "whoever has no token learns nothing"
            seen[name] |= asked(operation, http, {"Authorization": f"Bearer {token}"})
    assert len(seen) == 26
    # Had every question been refused, nothing would be shown.
    assert [name for name, codes in seen.items() if not codes & {200, 202}] == []


def asked(operation: Any, http: str, headers: dict[str, str]) -> set[int]:
    """The statuses of what was answered to questions of all kinds, well formed or not."""
    statuses = set()
    questions = st.one_of(operation.as_strategy(), operation.as_strategy(generation_mode=NEGATIVE))

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=questions, is_known=st.booleans())
    def ask(case: Any, is_known: bool) -> None:
        if is_known:
            case = known(operation)
        answer = case.call(base_url=http, headers=headers, timeout=20)
        statuses.add(answer.status_code)
        if len(str(answer.request.path_url)) > LINE_CHARS_MAX:
            assert answer.status_code in (400, 414)  # by the server, before any interface sees it
            return
        case.validate_response(answer, checks=CHECKS, headers=headers)

    ask()
    return statuses


def known(operation: Any) -> Any:
    """A question that has an answer."""
    wanted = [one for one in operation.definition.raw.get("parameters", []) if one["required"]]
    values = {place: {one["name"]: KNOWN.get(one["name"], "host") for one in wanted if one["in"] == place}
              for place in ("path", "query")}  # fmt: skip
    body = {"files": ["/nowhere/file.warc.gz"]} if "requestBody" in operation.definition.raw else None
    return operation.Case(
        path_parameters=values["path"],
        query=values["query"],
        **({} if body is None else {"body": body, "media_type": "application/json"}),
    )
