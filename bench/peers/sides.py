"""All savers by name. Each saves in a generator, which yields when the program may go on, and ends when the saver says
that the checkpoint is whole."""

import importlib

MAINSTAY = "Mainstay"
FILES = {
    MAINSTAY: ("space", "Mainstay"),
    "np.save": ("plain", "Save"),
    "np.save beside, sync, rename": ("plain", "SaveBeside"),
    "np.savez": ("plain", "Savez"),
    "h5py": ("plain", "Hdf5"),
}
TENSORS = {
    "torch.save": ("torch_save", "TorchSave"),
    "dcp.save": ("dcp", "Save"),
    "dcp.async_save": ("dcp", "AsyncSave"),
    "dcp.async_save, memory kept": ("dcp", "KeptAsyncSave"),
    "torch-checkpointing": ("background", "TorchCheckpointing"),
}
NAMES = (*FILES, *TENSORS)


def ready(name, state, folder, comm, shared):
    """A call that opens the saver `name` of `state` in its own folder. All that a program does once is done: imports, and
    PyTorch's process group. `shared`: the checkpoint is of several ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    module, kind = (FILES | TENSORS)[name]
    kind = getattr(importlib.import_module(f"peers.{module}"), kind)
    if name in FILES:
        return lambda: kind(state, folder, comm)
    import torch

    from peers import tensors

    parts = {key: torch.from_numpy(part) for key, part in state.parts.items()}
    if name == "torch.save":
        return lambda: kind(parts, folder, comm.rank)
    tensors.meet(comm, folder.parent)
    # Without a GPU, torch-checkpointing saves only tensors of one rank: a file for each.
    if shared and (name != "torch-checkpointing" or torch.cuda.is_available()):
        parts = tensors.across_ranks(parts, comm)
    return lambda: kind(parts, folder)
