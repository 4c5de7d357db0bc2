"""Text of files, paths and command lines, escaped for a terminal."""


def printable(text: str) -> str:
    """One line, with characters that control a terminal or are invisible as escapes such as
    `\\x1b`.

    These are Python's unprintable characters: control and format characters (bidirectional, zero
    width), line separators, lone surrogates, and every space except the plain one.
    """
    if text.isprintable():  # nearly every text of a result file of millions
        return text
    return "".join(c if c.isprintable() else escaped(c) for c in text)


def escaped(text: str) -> str:
    return text.encode("unicode_escape").decode()


def shortened(text: str, most: int = 60) -> str:
    """The beginning of a text of any length."""
    return text if len(text) <= most else text[: most - 3] + "..."
