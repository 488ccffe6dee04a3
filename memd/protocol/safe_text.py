"""Makes text of unknown origin safe to show: no control codes, no reversed or hidden characters.

For terminals and for text that a model reads. The wire carries what the file says.
"""

HIDDEN = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic direction mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer vowels that are never drawn
    (0x180B, 0x180F),  # Mongolian selectors and separator
    (0x200B, 0x200F),  # zero width spaces and joiners, direction marks
    (0x202A, 0x202E),  # direction embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, direction isolates
    (0x3164, 0x3164),  # Hangul filler
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF9, 0xFFFB),  # interlinear annotation
)
TAGS = ("\U000e0000", "\U000e0fff")
"""Tag characters and further selectors: whole sentences can hide in these."""

# The replacement of each unsafe character: control codes turn visible, hidden characters go.
_TABLE = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_TABLE |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
_TABLE |= {code: "" for first, last in HIDDEN for code in range(first, last + 1)}
_TABLE |= {0x7F: "\u2421", 0x85: "\n", 0x2028: "\n", 0x2029: "\n"}


def neutralise(text: str) -> str:
    """`text` with its lines and tabs kept and everything that could fool the reader taken out."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").translate(_TABLE)
    if text.isascii() or max(text) < TAGS[0]:
        return text
    return "".join(char for char in text if not TAGS[0] <= char <= TAGS[1])


def one_line(text: str) -> str:
    """`neutralise` for a name, a path or a heading: nothing in it starts a new line."""
    return neutralise(text).replace("\n", " ").replace("\t", " ")
