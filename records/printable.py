"""Text of files, paths and command lines, made fit to be shown."""


def printable(text: str) -> str:
    """One line: what a terminal would act on, or nobody would see, as an escape such as `\\x1b`.

    That is what Python calls unprintable: control and format characters (bidirectional, of no
    width), line separators, lone surrogates, every space but the plain one.
    """
    if text.isprintable():  # nearly every text of a result file of millions
        return text
    return "".join(c if c.isprintable() else escaped(c) for c in text)


def escaped(text: str) -> str:
    return text.encode("unicode_escape").decode()


def shortened(text: str, most: int = 60) -> str:
    """The beginning of a text that may be of any length."""
    return text if len(text) <= most else text[: most - 3] + "..."
