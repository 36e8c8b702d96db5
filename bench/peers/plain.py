"""Restart files of one's own: numpy's formats and HDF5, a file for each rank."""

import os

import h5py
import numpy as np


class File:
    """Saves over the last file."""

    ending = ""

    def __init__(self, state, folder, comm):
        self._state = state
        self._path = folder / f"state-{comm.rank}{self.ending}"

    def save(self, number):
        with open(self._path, "wb") as file:
            self._write(file)
        yield

    def restore(self):
        with open(self._path, "rb") as file:
            return self._read(file)

    def close(self):
        pass


class Save(File):
    """`np.save`, one array after the other."""

    ending = ".npy"

    def _write(self, file):
        for part in self._state.parts.values():
            np.save(file, part)

    def _read(self, file):
        return {name: np.load(file) for name in self._state.parts}


class SaveBeside(Save):
    """The same to a second file, which is synced and renamed."""

    def save(self, number):
        beside = self._path.with_suffix(".new")
        with open(beside, "wb") as file:
            self._write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        yield


class Savez(File):
    ending = ".npz"

    def _write(self, file):
        np.savez(file, **self._state.parts)

    def _read(self, file):
        with np.load(file) as saved:
            return {name: saved[name] for name in self._state.parts}


class Hdf5(File):
    ending = ".h5"

    def save(self, number):
        with h5py.File(self._path, "w") as file:
            for name, part in self._state.parts.items():
                file.create_dataset(name, data=part)
        yield

    def restore(self):
        with h5py.File(self._path, "r") as file:
            for name, part in self._state.parts.items():
                file[name].read_direct(part)
        return self._state.parts
