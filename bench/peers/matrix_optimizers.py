# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench_matrix_optimizers and of the rows "muon" of bench_cuda_kernels.

usage: matrix_optimizers.py cpu|cuda THREADS

One command a line on standard input, one answer a line on standard output:

  version                      "torch 2.11.0, 2 threads"
  time NAME ROWS COLUMNS N     mean milliseconds of N steps on one weight, after as many that are not counted
  moved NAME ROWS COLUMNS N    norm of what N steps changed, the weight and the gradients given by pattern()

NAME is muon (torch.optim.Muon, its products in bf16), muon_fp32 (the same in fp32), shampoo or soap (the formulas of
docs/numerics.md in fp32, in place where PyTorch can; ten steps between refreshes). Newton-Schulz and the elementwise
parts are compiled. On a GPU a step of muon is captured as a CUDA graph and followed by the copy of the weight to fp16.
"""

import sys
import time

import torch
from torch.optim import _muon

EVERY, RIDGE, EPS = 10, 1e-6, 1e-8


def pattern(rows, columns, number):
    """Values that both sides can make: a hash of the place, -1 to 1, as bench/matrix_optimizers.cpp has it."""
    i = torch.arange(rows * columns, dtype=torch.int64)
    bits = ((i + 1) * 2654435761 + number * 40503 * 65537) % 2**32
    bits = ((bits ^ (bits >> 15)) * 2246822519) % 2**32
    bits = bits ^ (bits >> 13)
    return ((bits % 65536).double() / 32768 - 1).float().reshape(rows, columns)


@torch.compile(dynamic=False)
def _adam_parts(first, second, grad, t1, t2, beta1: float, beta2: float):
    first.lerp_(grad, 1 - beta1)
    second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    return (first / t1) / ((second / t2).sqrt() + EPS)


def _inverse_fourth_root(matrix):
    """Coupled Newton, until M is the identity."""
    eye = torch.eye(len(matrix))
    ridged = matrix + RIDGE * matrix.norm() * eye
    z = 2.5 / ridged.norm()
    m, x, near = ridged * z, eye * z**0.25, False
    while not near:
        near = float((m - eye).abs().max()) < 1e-4
        t = torch.add(1.25 * eye, m, alpha=-0.25)
        x = x @ t
        t2 = t @ t
        m = (t2 @ t2) @ m
    return x


class Shampoo:
    def __init__(self, weight):
        self.weight, self.seen = weight, 0
        rows, columns = weight.shape
        self.left, self.right = torch.zeros(rows, rows), torch.zeros(columns, columns)
        self.first, self.second = torch.zeros_like(weight), torch.zeros_like(weight)

    def step(self):
        grad = self.weight.grad
        torch.addmm(self.left, grad, grad.T, out=self.left)
        torch.addmm(self.right, grad.T, grad, out=self.right)
        if self.seen % EVERY == 0:
            self.roots = _inverse_fourth_root(self.left), _inverse_fourth_root(self.right)
        self.seen += 1
        t1, t2 = torch.tensor(1 - 0.9**self.seen), torch.tensor(1 - 0.999**self.seen)
        adam = _adam_parts(self.first, self.second, grad, t1, t2, 0.9, 0.999)
        update = self.roots[0] @ (self.first / t1) @ self.roots[1]
        with torch.no_grad():
            self.weight.add_(update, alpha=-1e-3 * float(adam.norm() / update.norm()))


class Soap:
    def __init__(self, weight):
        self.weight, self.seen = weight, 0
        self.covariance = [torch.zeros(side, side) for side in weight.shape]
        self.basis = [torch.eye(side) for side in weight.shape]
        self.first, self.second = torch.zeros_like(weight), torch.zeros_like(weight)

    def refresh(self):
        for i in (0, 1):
            turned = self.covariance[i] @ self.basis[i]
            turned.add_(self.basis[i], alpha=RIDGE * float(self.covariance[i].norm()))
            self.basis[i] = torch.linalg.qr(turned).Q

    def step(self):
        grad, (left, right) = self.weight.grad, self.basis
        if self.seen > 0:
            self.first.lerp_(grad, 0.05)
            rotated, moment = left.T @ grad @ right, left.T @ self.first @ right
            self.second.mul_(0.95).addcmul_(rotated, rotated, value=0.05)
            scale = (self.second / (1 - 0.95**self.seen)).sqrt_().add_(EPS)
            update = left @ (moment / (1 - 0.95**self.seen)).div_(scale) @ right.T
            with torch.no_grad():
                self.weight.add_(update, alpha=-1e-3)
        torch.addmm(self.covariance[0], grad, grad.T, beta=0.95, alpha=0.05, out=self.covariance[0])
        torch.addmm(self.covariance[1], grad.T, grad, beta=0.95, alpha=0.05, out=self.covariance[1])
        if self.seen % EVERY == 0:
            for _ in range(10 if self.seen == 0 else 1):
                self.refresh()
        self.seen += 1


class Muon:
    """torch.optim.Muon as it is."""

    zeropower = staticmethod(torch.compile(_muon._zeropower_via_newtonschulz))

    def __init__(self, weight):
        self.optimizer = torch.optim.Muon([weight], lr=1e-3, weight_decay=0.0)

    def step(self):
        _muon._zeropower_via_newtonschulz = Muon.zeropower
        self.optimizer.step()


class MuonFp32:
    """The same in fp32: its step is eager, but for what are products anyway."""

    def __init__(self, weight):
        self.weight, self.moment = weight, torch.zeros_like(weight)

    def step(self):
        grad = self.weight.grad
        self.moment.lerp_(grad, 0.05)
        x = grad.lerp(self.moment, 0.95)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / x.norm().clamp(min=1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
        x = x.T if tall else x
        with torch.no_grad():
            self.weight.add_(x, alpha=-1e-3 * max(1, len(x) / x.shape[1]) ** 0.5)


KINDS = {"muon": Muon, "muon_fp32": MuonFp32, "shampoo": Shampoo, "soap": Soap}


class Case:
    def __init__(self, name, rows, columns, device):
        self.weight = torch.nn.Parameter(pattern(rows, columns, 0).to(device))
        self.grads = [pattern(rows, columns, 1 + i).to(device) for i in range(4)]
        self.optimizer, self.done = KINDS[name](self.weight), 0

    def step(self):
        self.weight.grad = self.grads[self.done % 4]
        self.optimizer.step()
        self.done += 1


def cuda_milliseconds(rows, columns, samples):
    case = Case("muon", rows, columns, "cuda")
    copy = torch.empty_like(case.weight, dtype=torch.float16)

    def step():
        case.step()
        copy.copy_(case.weight)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(samples):
        graph.replay()
    begin.record()
    for _ in range(samples):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / samples


def main():
    device, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    cases = {}
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "version":
            print(f"torch {torch.__version__.split('+')[0]}, {threads} threads", flush=True)
            continue
        name, rows, columns, steps = rest[0], *map(int, rest[1:])
        if command == "moved":
            case = Case(name, rows, columns, device)
            for _ in range(steps):
                case.step()
            answer = float((case.weight.detach().cpu() - pattern(rows, columns, 0)).norm())
        elif device == "cuda":
            answer = cuda_milliseconds(rows, columns, steps)
        else:
            case = cases.setdefault((name, rows, columns), Case(name, rows, columns, device))
            for _ in range(steps):
                case.step()
            start = time.perf_counter()
            for _ in range(steps):
                case.step()
            answer = (time.perf_counter() - start) * 1e3 / steps
        print(repr(answer), flush=True)


main()
