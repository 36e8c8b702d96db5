"""Tensors that PyTorch's savers save: of one process, or of several ranks."""

import os
import tempfile

from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard


def meet(comm, folder):
    """Starts PyTorch's process group; its ranks are those of `comm`."""
    if distributed.is_initialized():
        return
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    meeting = comm.bcast(tempfile.mkdtemp(prefix="meeting-", dir=folder) if comm.rank == 0 else None)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}/store", rank=comm.rank, world_size=comm.size)


def across_ranks(tensors, comm):
    """Makes the parts of all ranks one tensor of several, as a training with FSDP has them."""
    mesh = init_device_mesh("cpu", (comm.size,))
    return {name: DTensor.from_local(one, mesh, [Shard(0)], run_check=False) for name, one in tensors.items()}
