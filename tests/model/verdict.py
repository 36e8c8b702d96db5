"""How a program is found wrong."""


class Wrong(Exception):
    """Something came of a call that must not come of it."""


def demand(holds, what):
    if not holds:
        raise Wrong(what)
