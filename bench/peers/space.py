"""Mainstay, from Python, with its default settings."""

import mainstay


class Mainstay:
    def __init__(self, state, folder, comm):
        self._parts = state.parts
        self._session = mainstay.open(folder / "space", comm)
        for name, part in state.parts.items():
            self._session.protect(name, part, (state.rows, part.shape[1]), (state.first, 0))

    def save(self, number):
        self._session.checkpoint()
        yield
        self._session.wait()

    def restore(self):
        if self._session.restore() is None:
            raise FileNotFoundError("no revision to restore")
        return self._parts

    def close(self):
        self._session.close()
