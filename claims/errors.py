"""The one kind of error that users see: a line that says what was wrong and where."""

from claims.printable import printable


class InputError(Exception):
    """Wrong or unreadable input; the command line prints it as one line and exits with 2."""

    def __init__(self, message: str):
        super().__init__(printable(message))
