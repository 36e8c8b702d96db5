"""How a program is found wrong, and the statuses that rules speak of."""

OK, INVALID, SMALL, UNREAD = "OK", "INVALID_ARGUMENT", "PORTION_TOO_SMALL", "NOT_RESTORED"
NO, MAYBE, YES = range(3)


class Wrong(Exception):
    """Something came of a call that must not come of it."""


def demand(holds, what):
    if not holds:
        raise Wrong(what)
