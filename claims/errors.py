"""The one kind of error that users see: a line that says what was wrong and where."""


class InputError(Exception):
    """Wrong or unreadable input; the command line prints it as one line and exits with 2."""
