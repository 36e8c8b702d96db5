"""Trains a network on a GPU with PyTorch, and goes on where it was killed, to the same bit: on_gpu.py SPACE STEPS"""

import hashlib
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # sums are the same in each run

import mainstay
import torch

SPACE, STEPS = sys.argv[1], int(sys.argv[2])
torch.use_deterministic_algorithms(True)
torch.manual_seed(1)
inputs, labels = torch.randn(1000, 64, device="cuda"), torch.randint(0, 10, (1000,), device="cuda")
network = torch.nn.Sequential(
    torch.nn.Linear(64, 256),
    torch.nn.BatchNorm1d(256),
    torch.nn.ReLU(),
    torch.nn.Dropout(0.1),
    torch.nn.Linear(256, 10),
).cuda()
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

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

# ANCHOR: protect
state = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
for index, parameter in enumerate(network.parameters()):
    for name, tensor in optimizer.state[parameter].items():
        state[f"optimizer.{index}.{name}"] = tensor
# Pinned, so that the GPU copies at its full speed, and the same at each checkpoint.
host = {name: torch.empty_like(tensor, device="cpu", pin_memory=True) for name, tensor in state.items()}
host["random"], host["random.gpu"] = torch.get_rng_state(), torch.cuda.get_rng_state()

session = mainstay.open(SPACE)
for name, tensor in host.items():
    session.protect(name, tensor.numpy())
# ANCHOR_END: protect

# ANCHOR: restore
step = 0
if restored := session.restore():
    step = int(restored.notes["step"])
    for name, tensor in state.items():
        tensor.copy_(host[name])
    torch.set_rng_state(host["random"])
    torch.cuda.set_rng_state(host["random.gpu"])
    print(f"going on at step {step}", flush=True)
# ANCHOR_END: restore

while step < STEPS:
    batch = torch.randperm(len(inputs))[:64].cuda()
    loss = torch.nn.functional.cross_entropy(network(inputs[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    # ANCHOR: checkpoint
    for name, tensor in state.items():
        host[name].copy_(tensor, non_blocking=True)
    host["random"].copy_(torch.get_rng_state())
    host["random.gpu"].copy_(torch.cuda.get_rng_state())
    torch.cuda.synchronize()  # all has arrived
    session.checkpoint({"step": step})
    # ANCHOR_END: checkpoint
    print(f"step {step}: loss {loss.item():.4f}", flush=True)
session.close()
weights = torch.cat([tensor.double().ravel() for tensor in network.state_dict().values()]).cpu().numpy()
print(f"done: step {step}, weights {hashlib.sha256(weights.tobytes()).hexdigest()[:16]}", flush=True)
