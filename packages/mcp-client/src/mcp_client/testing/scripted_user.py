"""A scripted user: the expected elicitation and sampling requests of a server, in order, with their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_client.handlers import Handlers
from mcp_core.features.elicitation import ElicitationAccepted
from mcp_core.field_methods import FieldValue
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    TextContent,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from mcp_client.handlers import ElicitAnswer

__all__ = ["ScriptedUser"]

_MODEL: Final = "scripted"
"""The name of the model in results of sampling requests."""

_ACCEPTED: Final[ElicitAnswer] = ElicitationAccepted(value=None)


@attrs.frozen(eq=False, repr=False)
class _ExpectedRequest(FieldValue):
    """An expected request, with its answer."""

    kind: str
    text: str
    answer: object
    url: str | None = None

    def __str__(self) -> str:
        page = "" if self.url is None else f" at {self.url}"
        return f"{self.kind}{page}: {self.text!r}"


class ScriptedUser:
    """A user, and the user's model, with expected requests in order. Works in every revision that has the request.

        user = ScriptedUser()
        user.expect_form("When do you arrive?", {"day": "2026-07-28"})
        client = await connect(server, handlers=user.handlers)
        await client.call_tool("book")
        user.check()

    A request that is not the next expected one raises `AssertionError` in the handler, and again in `check`. As a context
    manager, the user checks at the end of the block. The fixture `scripted_user` checks at the end of the test.
    """

    def __init__(self) -> None:
        self._expected: Final[list[_ExpectedRequest]] = []
        self._answered = 0
        self._failure: str | None = None

    @property
    def handlers(self) -> Handlers:
        """The handlers of a client with this user. They declare elicitation by form and by URL, and sampling."""
        return Handlers(elicit=self._elicit, elicit_url=self._elicit_url, sample=self._sample)

    def expect_form(self, message: str, answer: ElicitAnswer) -> None:
        """Expect an elicitation request with a form.

        Args:
            message: The exact message of the request.
            answer: The answer: the values of the form, `ElicitationDeclined()` or `ElicitationCancelled()`.
        """
        self._expected.append(_ExpectedRequest("a form", message, answer))

    def expect_page(self, message: str, url: str, answer: ElicitAnswer = _ACCEPTED) -> None:
        """Expect an elicitation request with a page that the user visits.

        Args:
            message: The exact message of the request.
            url: The exact URL of the page.
            answer: The answer; by default, the user agrees to visit the page. The page is not fetched.
        """
        self._expected.append(_ExpectedRequest("a page", message, answer, url))

    def expect_sampling(self, prompt: str, answer: CreateMessageResult | str) -> None:
        """Expect a sampling request.

        Args:
            prompt: The exact text of the last message of the request. The content that is not text does not count.
            answer: The result, or its text.
        """
        self._expected.append(_ExpectedRequest("sampling", prompt, answer))

    def check(self) -> None:
        """Check that all expected requests arrived, and no others.

        Raises:
            AssertionError: A request was unexpected; or the requests that the message lists did not arrive.
        """
        __tracebackhide__ = True
        if self._failure is not None:
            raise AssertionError(self._failure)
        missing = self._expected[self._answered :]
        if missing:
            listed = "".join(f"\n  {each}" for each in missing)
            raise AssertionError(f"the server did not send {len(missing)} of {len(self._expected)} requests:{listed}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or self._failure is not None:
            self.check()

    async def _elicit(self, form: ElicitRequestFormParams) -> ElicitAnswer:
        return self._take("a form", form.message)  # type: ignore[return-value]  # the answer was given with this kind

    async def _elicit_url(self, page: ElicitRequestURLParams) -> ElicitAnswer:
        return self._take("a page", page.message, page.url)  # type: ignore[return-value]  # likewise

    async def _sample(self, request: CreateMessageRequestParams) -> CreateMessageResult:
        last = request.messages[-1].content if request.messages else ()
        blocks = last if isinstance(last, tuple) else (last,)
        answer = self._take("sampling", "".join(block.text for block in blocks if isinstance(block, TextContent)))
        if isinstance(answer, str):
            return CreateMessageResult(role="assistant", content=TextContent(text=answer), model=_MODEL)
        return answer  # type: ignore[return-value]  # likewise

    def _take(self, kind: str, text: str, url: str | None = None) -> object:
        """Return the answer of the next expected request. Raises `AssertionError` if it is another one."""
        __tracebackhide__ = True
        arrived = _ExpectedRequest(kind, text, None, url)
        expected = self._expected[self._answered] if self._answered < len(self._expected) else None
        if self._failure is None and expected is not None and attrs.evolve(expected, answer=None) == arrived:
            self._answered += 1
            return expected.answer
        wanted = "no further request is expected" if expected is None else f"expected {expected}"
        if self._failure is None:
            self._failure = f"unexpected client request {self._answered + 1}: {arrived}; {wanted}"
        raise AssertionError(self._failure)
