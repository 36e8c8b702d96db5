"""torch.distributed.checkpoint. All ranks save to one folder."""

from torch.distributed import checkpoint
from torch.distributed.checkpoint import async_save
from torch.distributed.checkpoint.api import CheckpointException

from peers import steps


def load(tensors, folder):
    """Its exception is no `Exception`."""
    try:
        checkpoint.load(tensors, checkpoint_id=folder)
    except CheckpointException as error:
        raise RuntimeError(", ".join(repr(failure) for failure, _ in error.failures.values())) from error
    return tensors


class Save:
    """Over the last checkpoint, in the same folder."""

    def __init__(self, tensors, folder):
        self._tensors = tensors
        self._folder = folder

    def save(self, number):
        checkpoint.save(self._tensors, checkpoint_id=self._folder / "checkpoint")
        yield

    def restore(self):
        return load(self._tensors, self._folder / "checkpoint")

    def close(self):
        pass


class AsyncSave(Save):
    """In the background, into a folder for each checkpoint. The memory of its copy is new each time."""

    def _save(self, number, **options):
        return async_save(self._tensors, checkpoint_id=self._folder / f"step-{number}", **options)

    def save(self, number):
        saving = self._save(number)
        yield
        saving.result()

    def restore(self):
        # It writes the metadata last.
        return load(self._tensors, steps.newest(self._folder, ".metadata"))


class KeptAsyncSave(AsyncSave):
    """The same with a stager that keeps its memory from one checkpoint to the next."""

    def __init__(self, tensors, folder):
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        super().__init__(tensors, folder)
        self._stager = DefaultStager(StagingOptions(*4 * [False]))

    def _save(self, number):
        return super()._save(number, async_stager=self._stager)

    def close(self):
        self._stager.close()
