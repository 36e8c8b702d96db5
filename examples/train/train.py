"""Trains a small network with PyTorch, and goes on where it was killed, to the same bit: train.py SPACE STEPS"""

import hashlib
import json
import sys

import mainstay
import numpy as np
import torch

SPACE, STEPS = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)  # sums are the same in each run
torch.manual_seed(1)
inputs, labels = torch.randn(1000, 64), torch.randint(0, 10, (1000,))
frozen = torch.nn.Linear(64, 64).requires_grad_(False)
network = torch.nn.Sequential(
    torch.nn.Linear(64, 256),
    torch.nn.BatchNorm1d(256),
    torch.nn.ReLU(),
    torch.nn.Dropout(0.1),
    torch.nn.Linear(256, 10),
)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.5)

# ANCHOR: protect
# An optimizer makes its tensors in its first step. This one, on zeros, is undone: it is counted, and may shrink weights.
before = [parameter.detach().clone() for parameter in network.parameters()]
for parameter in network.parameters():
    parameter.grad = torch.zeros_like(parameter)
optimizer.step()
with torch.no_grad():
    for parameter, value in zip(network.parameters(), before):
        parameter.copy_(value)
        for tensor in optimizer.state[parameter].values():
            tensor.zero_()

session = mainstay.open(SPACE)
for model, module in {"network": network, "frozen": frozen}.items():
    for name, tensor in module.state_dict().items():
        session.protect(f"{model}.{name}", tensor.numpy())  # the same memory, whatever the training does
for index, parameter in enumerate(network.parameters()):
    for name, tensor in optimizer.state[parameter].items():
        session.protect(f"optimizer.{index}.{name}", tensor.numpy())
random = torch.get_rng_state().numpy().copy()
session.protect("random", random)
# ANCHOR_END: protect

# ANCHOR: restore
step = 0
if restored := session.restore():
    step = int(restored.notes["step"])
    schedule.load_state_dict(json.loads(restored.notes["schedule"]))
    for group, rate in zip(optimizer.param_groups, json.loads(restored.notes["rates"])):
        group["lr"] = rate
    torch.set_rng_state(torch.from_numpy(random))
    print(f"going on at step {step}", flush=True)
# ANCHOR_END: restore

while step < STEPS:
    batch = torch.randperm(len(inputs))[:64]
    loss = torch.nn.functional.cross_entropy(network(frozen(inputs[batch])), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    step += 1
    # ANCHOR: checkpoint
    random[:] = torch.get_rng_state().numpy()
    rates = [group["lr"] for group in optimizer.param_groups]
    session.checkpoint({"step": step, "schedule": json.dumps(schedule.state_dict()), "rates": json.dumps(rates)})
    # ANCHOR_END: checkpoint
    print(f"step {step}: loss {loss.item():.4f}", flush=True)
session.close()
weights = np.concatenate([tensor.numpy().ravel() for tensor in network.state_dict().values()])
print(f"done: step {step}, weights {hashlib.sha256(weights.tobytes()).hexdigest()[:16]}", flush=True)
