"""The cost of a checkpoint of a PyTorch training, compared with PyTorch's torch.save and torch.distributed.checkpoint.

    pip install target/python/*.whl && python3 bench/training.py    with a Python that has PyTorch; on a GPU, if there is one

Writes bench/out/training.json; QUICK=1: small, within a minute.
"""

import functools
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from harness import arguments, rows

try:
    import mainstay
    import torch
    from peers.torch_save import TorchSave
    from torch import distributed
except ImportError as error:
    sys.exit(f"{error}: take a Python that has PyTorch, and `pip install target/python/*.whl` (made by `make python`)")

TENSORS = 16


def options():
    quick = arguments.QUICK
    parser = arguments.Parser(__doc__, "training.json")
    parser.add_argument("--mib", type=int, default=16 if quick else 1024, help="of weights")
    parser.add_argument("--rounds", type=int, default=2 if quick else 7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


class Training:
    """Weights that change, and their copies in host memory, from which Mainstay saves."""

    def __init__(self, o, folder):
        on_gpu = o.device != "cpu"
        shape = (o.mib << 20) // 4 // TENSORS
        self._synchronize = torch.cuda.synchronize if on_gpu else lambda: None
        self._folder = folder
        self._weights = {f"w{index}": torch.randn(shape, device=o.device) for index in range(TENSORS)}
        twin = (lambda one: torch.empty_like(one, device="cpu", pin_memory=True)) if on_gpu else (lambda one: one)
        self._host = {name: twin(one) for name, one in self._weights.items()}
        self._plain = {name: torch.zeros(shape) for name in self._host}
        self._session = mainstay.open(folder / "space")
        for name, one in self._host.items():
            self._session.protect(name, one.numpy())

    def close(self):
        self._session.close()

    def change(self):
        """Waits until all bytes of the checkpoint before are written."""
        for one in self._weights.values():
            one.add_(1e-3)
        self._synchronize()
        os.sync()

    def bring(self):
        for name, one in self._host.items():
            if one is not self._weights[name]:
                one.copy_(self._weights[name], non_blocking=True)
        self._synchronize()

    def copy(self):
        self.bring()
        for name, one in self._plain.items():
            one.copy_(self._host[name])

    def write(self):
        """Writes the bytes from host memory to a new file."""
        with open(self._folder / "raw", "wb") as file:
            for one in self._host.values():
                file.write(one.numpy())
            yield
            file.flush()
            os.fsync(file.fileno())

    def mainstay(self):
        self.bring()
        self._session.checkpoint()
        yield
        self._session.wait()

    def by(self, saver):
        """Saves by a saver of PyTorch, which may not sync."""
        yield from saver(self._weights, self._folder).save(0)
        os.sync()

    def clear(self):
        """Removes the checkpoints of the other ways."""
        for path in self._folder.iterdir():
            if path.name != "space":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def distributed_savers():
    """Those of torch.distributed.checkpoint, if this PyTorch has all of it."""
    if not distributed.is_available():
        return {}
    try:
        from peers import dcp
    except ImportError:
        return {}
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    return {"dcp": dcp.Save, "dcp_async": dcp.AsyncSave}


def main():
    o = options()
    o.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="training-", dir=o.scratch) as folder:
        training = Training(o, Path(folder))
        sides = {"raw_write": training.write, "mainstay": training.mainstay}
        for name, saver in {"torch_save": TorchSave, **distributed_savers()}.items():
            sides[name] = functools.partial(training.by, saver)
        copies, waits, durable = [], {side: [] for side in sides}, {side: [] for side in sides}
        for number in range(o.rounds + 1):  # the first one warms up
            training.change()
            begun = time.perf_counter()
            training.copy()
            copies.append(time.perf_counter() - begun)
            at = number % len(sides)
            for side in [*sides][at:] + [*sides][:at]:
                training.change()
                begun = time.perf_counter()
                steps = sides[side]()
                next(steps)
                waits[side].append(time.perf_counter() - begun)
                next(steps, None)
                durable[side].append(time.perf_counter() - begun)
                training.clear()
        training.close()
    case = f"{o.mib} MiB on {torch.cuda.get_device_name() if o.device != 'cpu' else 'cpu'}"
    made = [rows.floor(case, "copy", copies[1:], "s")]
    raw = durable["raw_write"][1:]
    made.append(rows.floor(case, "raw_write", raw, "s"))
    for side in [*sides][1:]:
        made.append(rows.row(case, f"{side}_waits", waits[side][1:], "s", "copy", copies[1:]))
        made.append(rows.row(case, f"{side}_durable", durable[side][1:], "s", "raw_write", raw))
    print(rows.table(made))
    rows.write(o.out / "training.json", made)


if __name__ == "__main__":
    main()
