"""Which functions in Python run, for tests: none in a planned call of a layer."""

import sys


def functions_of(call) -> list[str]:
    """The functions in Python that a call runs."""
    seen = []

    def note(frame, event, _):
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen
