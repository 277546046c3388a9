"""What does a person read in a capture? Its text in lines, without markup; None when it is not text."""

from crawler.core.capture import MediaType, decoded
from crawler.core.trees import fit_for_tree, parsed, tree_of

READ_BYTES_MAX = 4 * 2**20
"""Of a decoded body. Later bytes are not read."""
HTML_TYPES = ("text/html", "application/xhtml+xml", "")
_TEXTS = ("text/", "application/json", "application/javascript", "application/ecmascript", "image/svg")
_HEAD_LOOKED_AT = 1_024


def readable_text(body: bytes, content_type: str, content_encoding: str = "") -> str | None:
    if content_encoding:
        body = decoded(body, content_encoding, READ_BYTES_MAX).content
    body = body[:READ_BYTES_MAX]
    media = MediaType.of(content_type)
    if media.mime in HTML_TYPES and is_text(body, media.charset):
        return _lines_of(body, media.charset)
    if (media.charset or "").lower().startswith("utf-16"):
        body = body.decode("utf-16", "replace").encode("utf-8", "replace")
        media = MediaType(media.mime, "utf-8")
    if media.mime.startswith(_TEXTS) or media.mime.endswith(("+xml", "+json", "/xml")):
        return plain_text(body, media.charset)
    return None


def is_text(body: bytes, charset: str | None) -> bool:
    """A body that is labelled as a page, or has no label, may be anything."""
    return b"\0" not in body[:_HEAD_LOOKED_AT] or (charset or "").lower().startswith("utf-16")


def _lines_of(body: bytes, charset: str | None) -> str:
    document = tree_of(fit_for_tree(body), charset)
    title = document.select_one("title")
    heading = "" if title is None else f"{title.text}\n"
    return heading + document.to_text()


def plain_text(body: bytes, charset: str | None) -> str:
    """Decoded by the web's labels and not by Python's: some of Python's codecs take quadratic time."""
    plain = parsed(b"<plaintext>" + body, charset).select_one("plaintext")
    return "" if plain is None else plain.text
