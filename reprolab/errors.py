"""The only kind of error that users see: a line with the fault and its place, in text of files,
paths and command lines that is escaped for a terminal.
"""

# The exit statuses of programs, as in harness/errors.hpp; Python itself ends with 1.
WRONG_OUTPUT, USAGE, NOT_MEASURED = 1, 2, 3


class InputError(Exception):
    """Wrong or unreadable input; the command line prints it as one line and exits with `status`."""

    def __init__(self, message: str, status: int = USAGE):
        super().__init__(printable(message))
        self.status = status


def printable(text: str) -> str:
    """One line, with characters that control a terminal or are invisible as escapes such as
    `\\x1b`.

    These are Python's unprintable characters: control and format characters (bidirectional, zero
    width), line separators, lone surrogates, and every space except the plain one.
    """
    if text.isprintable():  # nearly every text of a result file of millions
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, most: int = 60) -> str:
    """The beginning of a text of any length."""
    return text if len(text) <= most else text[: most - 3] + "..."
