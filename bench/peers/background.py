"""torch-checkpointing, into a folder for each checkpoint: it refuses one that is there."""

from torch.distributed.tensor import DTensor
from torch_checkpointing import CheckpointManager, ItemSpec
from torch_checkpointing.checkpoint_process import CheckpointProcessConfig
from torch_checkpointing.config import AsyncCheckpointSaverConfig
from torch_checkpointing.default_resharder import DefaultResharder
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

from peers import steps

START_LIMIT_S = 300  # of the process that writes; the default is too short for a busy machine


class TorchCheckpointing:
    """`tensors`: of several ranks only on a GPU, where version 0.1.1 gathers the places of all parts."""

    def __init__(self, tensors, folder):
        several = any(isinstance(one, DTensor) for one in tensors.values())
        config = CheckpointManager.Config(
            items={"state": ItemSpec(resharder=DefaultResharder() if several else None)},
            save=AsyncCheckpointSaverConfig(
                process_config=CheckpointProcessConfig(subprocess_init_timeout_secs=START_LIMIT_S)
            ),
            # With O_DIRECT, its default, version 0.1.1 fails on ext4: its buffers are not aligned.
            storage_config=LocalFileSystemStorageConfig(use_direct_io=False),
        )
        self._manager = CheckpointManager(config)
        self._tensors = tensors
        self._folder = folder

    def save(self, number):
        writing = self._manager.save(str(self._folder / f"step-{number}"), {"state": self._tensors})
        with self._manager.lock():  # free once the tensors are copied
            pass
        yield
        writing.result()

    def restore(self):
        return self._manager.load(steps.newest(self._folder), into={"state": self._tensors})["state"]

    def close(self):
        self._manager.close()
