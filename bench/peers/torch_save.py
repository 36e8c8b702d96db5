"""`torch.save` over the last file, one for each rank."""

import torch


class TorchSave:
    def __init__(self, tensors, folder, rank=0):
        self._tensors = tensors
        self._path = folder / f"state-{rank}.pt"

    def save(self, number):
        torch.save(self._tensors, self._path)
        yield

    def restore(self):
        return torch.load(self._path)

    def close(self):
        pass
