"""What do tags, attributes and comments look like, for browsers? Patterns by the HTML standard's tokenizer.

All are for a copy of the page in lower case (of ASCII), as literal letters are three times as fast as letters
of either case; what is found at a place there is at the same place in the page. Repetitions are possessive and
alternatives exclude each other, so that every pattern takes time linear in what it looks at. `BORING` is where
the speed comes from: one call steps over all text, comments and tags in which nothing has to be rewritten.
"""

import re

_SPACES = rb"\t\n\f\r "
_S = rb"[" + _SPACES + rb"]"
_NAME = rb"[^/>" + _SPACES + rb"][^/>=" + _SPACES + rb"]*+"
_BARE = rb"[^\"'>" + _SPACES + rb"][^>" + _SPACES + rb"]*+"
# A value that is missing is one only before the end of the tag; else an open quote would be read as a name.
_VALUE = rb"(?:\"[^\"]*+\"|'[^']*+'|" + _BARE + rb"|(?=>))"
_ATTRIBUTE = (
    _NAME + rb"(?:=" + _VALUE + rb"|" + _S + rb"*+=" + _S + rb"*+" + _VALUE + rb"|(?!" + _S + rb"*+(?:=|\Z)))"
)
_GAP = rb"[/" + _SPACES + rb"]++"
_TAG_NAME = rb"[a-z][^/>" + _SPACES + rb"]*+"
_ENDS_NAME = rb"(?=[/>" + _SPACES + rb"])"

_INTERESTING = (
    rb"(?:href(?!=[\"']?#)|s(?:rc|tyle)|a(?:ction|rchive)|background|c(?:ite|ode|rossorigin)"
    rb"|d(?:ata(?=[=/>" + _SPACES + rb"])|ynsrc"
    rb"|ata-[^/>=" + _SPACES + rb"]*+" + _S + rb"*+=" + _S + rb"*+[\"']?" + _S + rb"*+(?:https?:)?//)"
    rb"|form(?:action|target)|i(?:ntegrity|magesrc)|lo(?:ngdesc|wsrc)|manifest|nonce|p(?:ing|oster)|referrerpolicy"
    rb"|target|x(?:link:href|ml:base))"
)  # fmt: skip
"""Names may be longer than these beginnings; then there was nothing to do after all. `#top` is nothing to do."""
_DULL_ATTRIBUTES = (
    # The first half is the second's most frequent case.
    rb"(?: (?!" + _INTERESTING + rb")[a-z-]++=\"[^\"]*+\")*+"
    rb"(?:" + _GAP + rb"|(?!" + _INTERESTING + rb")" + _ATTRIBUTE + rb")*+"
)  # fmt: skip
_SPECIAL = (
    rb"(?:audio|b(?:ase|ody)|frameset|head|iframe|link|m(?:eta|ath)|no(?:embed|frames)|p(?:aram|laintext)"
    rb"|s(?:cript|tyle|vg)|t(?:extarea|itle)|video|xmp)" + _ENDS_NAME
)
_COMMENT = rb"<!(?:--(?:-?>|(?:[^-]++|-(?!-!?>))*+--!?>)|(?=[^\[-])[^>]*+>)"
_TEXT = rb"[^<]*+(?:<(?=[^a-z/!?])[^<]*+)*+"
_END_TAG = rb"</(?!(?:svg|math)" + _ENDS_NAME + rb")" + _TAG_NAME + rb">"
_DULL_TAG = rb"<(?!" + _SPECIAL + rb")" + _TAG_NAME + rb"(?:>|" + _DULL_ATTRIBUTES + rb">)"
_CLEAN = (
    rb"(?:(https?://)(?!/)|(//)(?!/)|(/)(?!/)|(?=[^\"#?./:&%\\\x00-\x20][^\":]*+\")())"
    rb"(?:[^\"&/%\\\x00-\x20]++|/(?!\.)|%(?!2e)|&amp;)*+"
)
"""An address that needs no tidying: no dots to resolve, no backslashes, blanks or character references."""
_SIMPLE_TAG = (
    rb"<(a|img)"
    + _ENDS_NAME
    + _DULL_ATTRIBUTES
    + rb"(?:href|src)=\""
    + _CLEAN
    + rb"\""
    + _DULL_ATTRIBUTES
    + rb">"
)
BORING = re.compile(
    _TEXT + rb"(?:(?:" + _END_TAG + rb"|" + _DULL_TAG + rb"|" + _COMMENT + rb")" + _TEXT + rb")*+"
    rb"(?:" + _SIMPLE_TAG + rb")?+"
)  # fmt: skip
"""Ends with an `a` or `img` (group 1) that has one clean address and nothing else to do, or before something
that is neither boring nor simple, or not complete. The address starts where the last group does, whose number
says of which kind it is: absolute (2), of the same scheme (3), host (4) or folder (5)."""
RELATIVE = 5
PREFACE = re.compile(_TEXT + rb"(?:" + _COMMENT + _TEXT + rb")*+")
"""The same before the first tag, where every tag may be the place to put something."""

TAG = re.compile(rb"</?+(" + _TAG_NAME + rb")(?:" + _GAP + rb"|" + _ATTRIBUTE + rb")*+>")
ATTRIBUTE = re.compile(
    rb"("
    + _NAME
    + rb")(?:"
    + _S
    + rb"*+="
    + _S
    + rb"*+(?:\"([^\"]*+)\"|'([^']*+)'|("
    + _BARE
    + rb")|(?=>)))?+"
)
COMMENT_SHORT = re.compile(rb"<!---?>")
COMMENT_END = re.compile(rb"--!?>")
SCRIPT_STEP = re.compile(rb"<!--|-->|<(/?)script" + _ENDS_NAME)
CDATA = b"<![cdata["
XML_STYLESHEET = re.compile(
    rb"<\?xml-stylesheet" + _S + rb"[^>]*?href" + _S + rb"*+=" + _S + rb"*+[\"']([^\"'<>&]*)"
)
RAW_END = {
    name: re.compile(rb"</" + name + _ENDS_NAME)
    for name in (b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes")
}
"""Elements whose content is text, up to their end tag."""
