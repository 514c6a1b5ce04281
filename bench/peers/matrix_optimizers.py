# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench_matrix_optimizers and of the rows "muon" of bench_cuda_kernels.

usage: matrix_optimizers.py cpu|cuda THREADS

One command a line on standard input, one answer a line on standard output:

  version                            "torch 2.11.0, 2 threads"
  time NAME ROWS COLUMNS COUNT N     mean milliseconds of N steps on COUNT weights, after as many that are not counted
  moved NAME ROWS COLUMNS COUNT N    norm of what N steps changed, the weights and the gradients given by pattern()

NAME is muon (its products in bf16: torch.optim.Muon on a CPU, the same written for a batch of weights on a GPU),
muon_copy (followed by the copy of the weight to fp16), muon_fp32, shampoo or soap (the formulas of docs/numerics.md in
fp32, in place where PyTorch can; ten steps between refreshes). Newton-Schulz and the elementwise parts are compiled.
Weights lie behind each other and are multiplied as a batch. On a GPU a step is replayed from CUDA graphs, one for each
gradient; what is done at a refresh is launched between them, without waiting for the GPU.
"""

import sys
import time

import torch
from torch.optim import _muon

EVERY, RIDGE, EPS, NUM_GRADS = 10, 1e-6, 1e-8, 4
A, B, C = 3.4445, -4.7750, 2.0315


def pattern(rows, columns, count, number):
    """Values that both sides can make: a hash of the place, -1 to 1, as bench/matrix_optimizers.cpp has it."""
    i = torch.arange(rows * columns, dtype=torch.int64)
    numbers = (number + 5 * torch.arange(count, dtype=torch.int64))[:, None]
    bits = ((i + 1) * 2654435761 + numbers * (40503 * 65537)) % 2**32
    bits = ((bits ^ (bits >> 15)) * 2246822519) % 2**32
    bits = bits ^ (bits >> 13)
    values = ((bits % 65536).double() / 32768 - 1).float()
    return values.reshape((rows, columns) if count == 1 else (count, rows, columns))


def add_product(acc, a, b, beta, alpha):
    if acc.dim() == 2:
        acc.addmm_(a, b, beta=beta, alpha=alpha)
    else:
        acc.baddbmm_(a, b, beta=beta, alpha=alpha)


def add_products(acc, a, b, beta, alpha):
    return (torch.addmm if acc.dim() == 2 else torch.baddbmm)(acc, a, b, beta=beta, alpha=alpha)


def norm(x):
    """Frobenius', of each matrix."""
    return torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True)


@torch.compile(dynamic=False)
def _adam_parts(first, second, grad, t, beta1: float, beta2: float):
    first.lerp_(grad, 1 - beta1)
    second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    direction = first / (1 - beta1**t)
    return direction, direction / ((second / (1 - beta2**t)).sqrt() + EPS)


@torch.compile(dynamic=False)
def _turned_adam(second, grad, moment, t):
    second.mul_(0.95).addcmul_(grad, grad, value=0.05)
    return (moment / (1 - 0.95**t)) / ((second / (1 - 0.95**t)).sqrt() + EPS)


def _zeroth_power(x):
    for _ in range(5):
        gram = x @ x.mT
        x = add_products(x, add_products(gram, gram, gram, B, C), x, A, 1)
    return x


class Optimizer:
    """before(grad) and after(grad) are the same in every step; refresh() is done between them in every EVERY-th."""

    def __init__(self, weight):
        self.weight, self.seen = weight, 0
        self.first, self.second = torch.zeros_like(weight), torch.zeros_like(weight)
        self.t = torch.zeros((), device=weight.device)
        self.sides = [self._square(side) for side in weight.shape[-2:]]

    def _square(self, side):
        shape = (*self.weight.shape[:-2], side, side)
        return torch.zeros(shape, device=self.weight.device)

    def accumulate(self, grad, beta, alpha):
        add_product(self.sides[0], grad, grad.mT, beta, alpha)
        add_product(self.sides[1], grad.mT, grad, beta, alpha)

    def before(self, grad):
        pass

    def refresh(self):
        pass

    def begin(self, grad):
        """The whole first step, if it is another one; true: it was."""
        return False

    def step(self, i, before, after):
        if not (self.seen == 0 and self.begin(i)):
            before(i)
            if self.seen % EVERY == 0:
                self.refresh()
            after(i)
        self.seen += 1


class Shampoo(Optimizer):
    def __init__(self, weight):
        super().__init__(weight)
        self.roots = [torch.zeros_like(side) for side in self.sides]
        self.eyes = [torch.eye(len(side[0]) if side.dim() == 3 else len(side), device=weight.device) for side in self.sides]
        self.num_iterations = [None, None]

    def before(self, grad):
        self.accumulate(grad, 1, 1)

    def _root(self, i):
        """Coupled Newton, until M is the identity. A GPU is asked once how long that takes."""
        matrix, eye = self.sides[i], self.eyes[i]
        ridged = matrix + RIDGE * norm(matrix) * eye
        z = 2.5 / norm(ridged)
        m, x, near, done = ridged * z, eye * z**0.25, False, 0
        known = self.num_iterations[i] if matrix.is_cuda else None
        while not near:
            near = done + 1 == known if known else float((m - eye).abs().max()) < 1e-4
            t = torch.add(1.25 * eye, m, alpha=-0.25)
            x = x @ t
            if not near:
                t2 = t @ t
                m = (t2 @ t2) @ m
            done += 1
        self.num_iterations[i] = done
        self.roots[i].copy_(x)

    def refresh(self):
        self._root(0)
        self._root(1)

    def after(self, grad):
        self.t.add_(1)
        direction, adam = _adam_parts(self.first, self.second, grad, self.t, 0.9, 0.999)
        update = self.roots[0] @ direction @ self.roots[1]
        self.weight.add_(update * (norm(adam) / norm(update)), alpha=-1e-3)


class Soap(Optimizer):
    def __init__(self, weight):
        super().__init__(weight)
        self.basis = [torch.eye(side.shape[-1], device=weight.device).expand_as(side).clone() for side in self.sides]

    def _turn(self):
        for side, basis in zip(self.sides, self.basis):
            turned = side @ basis
            turned.add_(RIDGE * norm(side) * basis)
            basis.copy_(torch.linalg.qr(turned).Q)

    def begin(self, i):
        self.accumulate(self.grads[i], 0.95, 0.05)
        for _ in range(10):
            self._turn()
        return True

    def before(self, grad):
        left, right = self.basis
        self.t.add_(1)
        self.first.lerp_(grad, 0.05)
        update = _turned_adam(self.second, left.mT @ grad @ right, left.mT @ self.first @ right, self.t)
        add_product(self.weight, left @ update, right.mT, 1, -1e-3)
        self.accumulate(grad, 0.95, 0.05)

    def refresh(self):
        self._turn()

    def after(self, grad):
        pass


class Muon(Optimizer):
    """As torch.optim.Muon, on a batch."""

    dtype = torch.bfloat16

    def after(self, grad):
        self._step(self.weight, self.first, grad)

    @torch.compile(dynamic=False)
    def _step(self, weight, moment, grad):
        moment.lerp_(grad, 0.05)
        x = grad.lerp(moment, 0.95).to(self.dtype)
        tall = x.shape[-2] > x.shape[-1]
        x = x.mT if tall else x
        x = _zeroth_power(x / norm(x).clamp(min=1e-7))
        x = x.mT if tall else x
        weight.add_(x, alpha=-1e-3 * max(1, x.shape[-2] / x.shape[-1]) ** 0.5)


class MuonFp32(Muon):
    dtype = torch.float32


class MuonCopy(Muon):
    def __init__(self, weight):
        super().__init__(weight)
        self.copy = torch.empty_like(weight, dtype=torch.float16)

    def after(self, grad):
        super().after(grad)
        self.copy.copy_(self.weight)


class TorchMuon(Optimizer):
    """torch.optim.Muon as it is."""

    zeropower = staticmethod(torch.compile(_muon._zeropower_via_newtonschulz))

    def __init__(self, weight):
        super().__init__(weight)
        self.parameter = torch.nn.Parameter(weight)
        self.optimizer = torch.optim.Muon([self.parameter], lr=1e-3, weight_decay=0.0)

    def after(self, grad):
        _muon._zeropower_via_newtonschulz = TorchMuon.zeropower
        self.parameter.grad = grad
        self.optimizer.step()


KINDS = {"muon": Muon, "muon_copy": MuonCopy, "muon_fp32": MuonFp32, "shampoo": Shampoo, "soap": Soap}


class Case:
    def __init__(self, name, rows, columns, count, device):
        kind = TorchMuon if (name, device) == ("muon", "cpu") else KINDS[name]
        shape = (rows, columns, count)
        self.grads = [pattern(*shape, 1 + i).to(device) for i in range(NUM_GRADS)]
        self.start = pattern(*shape, 0)
        self.done = 0
        if device == "cuda":
            self._warm_up(kind)
        self.optimizer = self._make(kind)
        self.before = lambda i: self.optimizer.before(self.grads[i])
        self.after = lambda i: self.optimizer.after(self.grads[i])
        if device == "cuda":
            self.before, self.after = self._captured(self.optimizer.before), self._captured(self.optimizer.after)

    def _make(self, kind):
        optimizer = kind(self.start.to(self.grads[0].device).clone())
        optimizer.grads = self.grads
        return optimizer

    def _warm_up(self, kind):
        """What is compiled or asked of a library at its first use, on another optimizer."""
        optimizer = self._make(kind)
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in (0, 1, 2):
                optimizer.step(i, lambda g: optimizer.before(self.grads[g]), lambda g: optimizer.after(self.grads[g]))
            optimizer.refresh()
        torch.cuda.synchronize()

    def _captured(self, part):
        graphs = []
        for grad in self.grads:
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(graphs[-1]):
                part(grad)
        return lambda i: graphs[i].replay()

    def run(self, steps):
        for _ in range(steps):
            self.optimizer.step(self.done % NUM_GRADS, self.before, self.after)
            self.done += 1

    def milliseconds(self, steps):
        if not self.grads[0].is_cuda:
            start = time.perf_counter()
            self.run(steps)
            return (time.perf_counter() - start) * 1e3 / steps
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.run(steps)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / steps

    def moved(self):
        return float((self.optimizer.weight.detach().cpu() - self.start).norm())


@torch.no_grad()
def answer(command, case, steps):
    if command == "time":
        case.run(steps)
        return case.milliseconds(steps)
    case.run(steps)
    return case.moved()


def main():
    device, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    cases = {}
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "version":
            print(f"torch {torch.__version__.split('+')[0]}, {threads} threads", flush=True)
            continue
        key = (rest[0], *map(int, rest[1:4]))
        with torch.no_grad():
            case = cases.get(key) if command == "time" else None
            if case is None:
                cases.clear()  # one shape at a time: a GPU's memory holds few of them
                case = Case(*key, device)
                if command == "time":
                    cases[key] = case
            print(repr(answer(command, case, int(rest[4]))), flush=True)


main()
