"""Gradients of random expressions, against differences in extended precision, and PyTorch.

Every graph's vjp, and the vjp of the vjp of some; see random_gradients.
"""

import contextlib

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together, quiet
from .random_gradients import Oracle, Torch, cases, slope
from .random_graphs import drawn

PER_ITEM, GRAPHS, STEP = 40, 80, 1e-5


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        graphs = metafunc.config.getoption("--graphs") or GRAPHS
        first = int(metafunc.config.getoption("--hypothesis-seed") or 0)
        metafunc.parametrize("number", range(first, first + -(-graphs // PER_ITEM)))


def normal(rng, like):
    """Random numbers like an array; None for integers and bools."""
    like = np.asarray(like)
    if like.dtype.kind not in "fc":
        return None
    numbers = rng.normal(size=like.shape)
    if like.dtype.kind == "c":
        numbers = numbers + 1j * rng.normal(size=like.shape)
    return np.asarray(numbers, like.dtype.newbyteorder("="))


def moved(arrays, directions, t):
    """`arrays` in extended precision, `t` along `directions`."""
    wide = {"f": np.longdouble, "c": np.clongdouble}
    return [np.asarray(a) if d is None else a.astype(wide[a.dtype.kind]) + t * d
            for a, d in zip(arrays, directions, strict=True)]


def along(gradients, directions):
    """How much the cost changes along `directions`, and the size of what adds up to that."""
    parts = [np.real(np.conj(g.astype(np.clongdouble)) * d)
             for g, d in zip(gradients, directions, strict=True) if d is not None]
    return sum(p.sum() for p in parts), sum(np.abs(p).sum() for p in parts)


def directions_of(arrays, rng):
    """One direction for each array alone, and one for all."""
    every = [normal(rng, a) for a in arrays]
    single = [[d if j == k else None for j, d in enumerate(every)] for k in range(len(every))]
    return [d for d in [*single, every] if any(p is not None for p in d)]


def compare(got, size, want, doubt, tolerance):
    """True if a derivative is as differences say; None if they do not know."""
    scale = float(size + abs(want)) + (1.0 if tolerance > 1e-4 else 0)  # single precision
    if not doubt <= 1e-3 * scale + 1e-9:
        return None
    assert abs(got - want) <= tolerance * scale + 1e-9, f"{got}, not {want}"
    return True


def check(case, f, backward, rng, second):
    """How many derivatives of a case were compared, and how many differences did not know."""
    known = []
    for call in case.calls:
        arrays = case.arrays(call)
        single = any(a.dtype.newbyteorder("=") == np.float32 for a in [*arrays, *(x.captured for x in case.leaves if x.text)])
        try:
            outputs = [np.asarray(z) for z in f(*arrays)]
        except ec.ElemcError:
            continue  # sizes that do not fit, in a second call; test_random looks at those
        weights = [normal(rng, z) for z in outputs]
        if not all(np.isfinite(z).all() for z in outputs) or all(w is None for w in weights):
            continue
        given = [w for w in weights if w is not None]
        gradients = backward(*arrays, *given)
        for array, gradient in zip(arrays, gradients, strict=True):
            if gradient is None:
                assert array.dtype.kind in "biu"
            else:
                assert (gradient.shape, gradient.dtype) == (array.shape, array.dtype.newbyteorder("="))
        tolerance = 3e-3 if single else 1e-7
        conjugate = [w if w is None else np.conj(w).astype(np.clongdouble) for w in weights]
        for way in directions_of(arrays, rng):
            want, doubt = slope(lambda t: case.cost(moved(arrays, way, t), conjugate), STEP)  # noqa: B023
            got, size = along(gradients, way)
            known.append(compare(got, size, want, doubt, tolerance))
        if second and not single:
            known.append(twice(case, backward, arrays, given, weights, rng))
    return known


def twice(case, backward, arrays, given, weights, rng):
    """The second derivative along two directions; the gradient's own vjp against differences."""
    way, turn, change = ([normal(rng, a) for a in group] for group in (arrays, arrays, weights))
    change = [None if w is None else c for w, c in zip(weights, change, strict=True)]
    arguments = [d for d in turn if d is not None]
    if not arguments:
        return None
    found = ec.vjp(backward)(*arrays, *given, *arguments)
    moves = [*way, *(c for c in change if c is not None)]
    got, size = along([g for g, d in zip(found, moves, strict=True) if d is not None],
                      [d for d in moves if d is not None])

    def slope_at(t):
        start = moved(arrays, way, t)
        at = [w if w is None else np.conj(w + t * c).astype(np.clongdouble)
              for w, c in zip(weights, change, strict=True)]
        return slope(lambda s: case.cost(moved(start, turn, s), at), STEP)

    doubts = []

    def first(t):
        value, doubt = slope_at(t)
        doubts.append(doubt)
        return value

    want, doubt = slope(first, 1e-3)
    return compare(got, size, want, max(doubt, *doubts), 1e-5)


def prepare(made):
    """Compile the functions of cases, and then their vjps, as few files of C."""
    calls = [(f, backward, case.arrays(call)) for case, f, backward in made for call in case.calls
             if backward]
    compile_together((f, arrays) for f, _, arrays in calls)
    pulls = []
    for f, backward, arrays in calls:
        with contextlib.suppress(ec.ElemcError):
            given = [np.zeros(z.shape, z.dtype) for z in map(np.asarray, f(*arrays)) if z.dtype.kind in "fc"]
            pulls += [(backward, [*arrays, *given])] * bool(given)
    compile_together(pulls)


def look(number, check):
    """Check the cases of a seed; enough of what is found has to be known."""
    rng = np.random.default_rng(number)
    known, made = [], []
    for case in drawn(cases(), number, PER_ITEM):
        f, backward = case.function("f"), None
        with contextlib.suppress(ec.DtypeError):  # all of it are integers
            backward = ec.vjp(f)
        made.append((case, f, backward))
    quiet(prepare, made)
    for k, (case, f, backward) in enumerate(made):
        try:
            known += quiet(check, case, f, backward, rng, k % 8 == 0)
        except Exception as error:
            raise AssertionError(f"{error!r}\n\n{case.code()}") from error
    assert np.mean([k is not None for k in known]) > 0.8


def test_against_differences(number):
    look(number, check)


@pytest.mark.peers
def test_against_torch(number):
    look(number, check_torch)


def check_torch(case, f, backward, rng, second):
    """Every element of the gradients against PyTorch's; of some, the gradients' own gradients."""
    torch = pytest.importorskip("torch")
    known = []
    for call in case.calls:
        arrays = case.arrays(call)
        single = any(a.dtype.newbyteorder("=") == np.float32 for a in [*arrays, *(x.captured for x in case.leaves if x.text)])
        oracle = Oracle(case.order, Torch(torch))
        leaves = [oracle.numbers.leaf(a) for a in arrays]
        smooth = {k: leaf for k, leaf in enumerate(leaves) if leaf.requires_grad}
        try:
            outputs = [case.output(k, m, leaves, oracle).value for k, m in
                       zip(case.outputs, case.modes, strict=True)]
        except (RuntimeError, IndexError, ValueError):
            continue  # sizes that do not fit, in a second call
        weights = [torch.from_numpy(normal(rng, z.detach().resolve_conj().numpy())) for z in outputs]
        reached = [(z, w) for z, w in zip(outputs, weights, strict=True) if z.requires_grad]
        if not smooth or not reached or not all(torch.isfinite(abs(z)).all() for z in outputs):
            continue
        wanted = torch.autograd.grad(*columns(reached, list(smooth.values())), allow_unused=True,
                                     create_graph=second)
        given = [w.numpy().astype(z.dtype) for z, w in zip(map(np.asarray, f(*arrays)), weights, strict=True)
                 if z.dtype.kind in "fc"]
        gradients = backward(*arrays, *given)
        tolerance = 3e-3 if single else 1e-8
        known += [close_to(gradients[k], want, tolerance) for k, want in zip(smooth, wanted, strict=True)]
        if second and not single:
            turn = [normal(rng, a) for a in arrays]
            again = ec.vjp(backward)(*arrays, *given, *(d for d in turn if d is not None))
            reached = [(g, torch.from_numpy(turn[k])) for k, g in zip(smooth, wanted, strict=True)
                       if g is not None and g.requires_grad]
            if reached:
                wanted = torch.autograd.grad(*columns(reached, list(smooth.values())), allow_unused=True)
                known += [close_to(again[k], want, 1e-6) for k, want in zip(smooth, wanted, strict=True)]
    return known


def columns(pairs, inputs):
    """The arguments of `torch.autograd.grad`."""
    outputs, weights = zip(*pairs, strict=True)
    return outputs, inputs, weights


def close_to(got, want, tolerance):
    """True if a gradient is PyTorch's; None if that is not a number."""
    want = np.zeros(got.shape) if want is None else want.detach().resolve_conj().numpy()
    if not np.isfinite(want).all():
        return None
    size = np.abs(want) + np.abs(want).max(initial=0) + (1 if tolerance > 1e-4 else 1e-3)
    assert (np.abs(got - want) <= tolerance * size).all(), f"{got}, not {want}"
    return True
