"""The only kind of error that users see: a line with the fault and its place."""

from reprolab.printable import printable

# The exit statuses of programs, as in harness/errors.hpp; Python itself ends with 1.
WRONG_OUTPUT, USAGE, NOT_MEASURED = 1, 2, 3


class InputError(Exception):
    """Wrong or unreadable input; the command line prints it as one line and exits with `status`."""

    def __init__(self, message: str, status: int = USAGE):
        super().__init__(printable(message))
        self.status = status
