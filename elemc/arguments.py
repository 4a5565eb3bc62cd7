"""What a caller gives: inputs, `out=`, `req=` and `where=`, checked before anything is written."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import as_array, dtype_of
from .errors import ArgumentError, DtypeError, ShapeError
from .formula import formula
from .graph import Input, Node, source_of
from .maps import Misfit, explain, run_extents

if TYPE_CHECKING:
    from .compiler import Closed

REQS = ("write", "add", "null")

# Python's numbers, and lists of them, are taken as any dtype of these kinds.
WEAK_KINDS = {"b": "biufc", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}


def array_of(name: str, node: Input, value: Any) -> np.ndarray:
    """An argument as an array that casts safely to its input's dtype."""
    want = node.dtype
    try:
        array = as_array(value)
        if want is not None and type(value) in (bool, int, float, complex, list, tuple):
            if want.kind in WEAK_KINDS.get(array.dtype.kind, ""):
                array = np.asarray(value, want)
    except OverflowError as error:
        raise DtypeError(f"{name}: {node.name}: {error}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{name}: {node.name}: {error}") from None
    if want is not None and not np.can_cast(array.dtype, want, "safe"):
        raise DtypeError(f"{name}: {node.name} has dtype {array.dtype}, which does not "
                         f"cast safely to {want}")
    if array.ndim != node.ndim:
        raise ShapeError(f"{name}: {node.name} has rank {array.ndim} (shape "
                         f"{array.shape}), but rank {node.ndim} is needed")
    dtype_of(array.dtype)
    return array


def check_numbers(name: str, closed: Closed, arrays: Sequence[np.ndarray]) -> None:
    """Reject Python integers that do not fit the dtype they give way to."""
    for place, dtype in closed.giving_way:
        bounds = np.iinfo(dtype)
        if not bounds.min <= int(arrays[place]) <= bounds.max:
            raise DtypeError(f"{name}: {closed.given_names[place]}: the Python integer "
                             f"{arrays[place]} does not fit {dtype}")


def sizes_of(name: str, closed: Closed, arrays: Sequence[np.ndarray]) -> list[int]:
    """The extents of this call, checked."""
    shapes = [a.shape for a in arrays] + [c.array.data.shape for c in closed.graph.captured]
    try:
        sizes = run_extents(closed.extents.program, shapes)
    except Misfit as misfit:
        raise explain(misfit, closed.extents, closed.given_names, name, closed.order) from None
    for node, over in closed.never_empty:
        if any(sizes[e] == 0 for e in over):
            axis = next(a for a, e in zip(node.axes, over, strict=True) if sizes[e] == 0)
            error = ShapeError(f"{name}: {node.acc.name} has no identity and cannot accumulate "
                               f"axis {axis} of size 0 of {formula(node.arg)}")
            error.locate(source_of(node))
            raise error
    return sizes


def outputs_of(name: str, count: int, out: Any, req: Any,
               structure: Any = None) -> tuple[list[Any], list[str]]:
    """`out=` and `req=` as one entry per output; named ones where the outputs have names.

    Where results line up with None in between, so may these.
    """
    present = getattr(structure, "present", None)
    if present is not None:
        out, req = (tuple(g for g, p in zip(given, present, strict=True) if p)
                    if isinstance(given, (tuple, list)) and len(given) == len(present) else given
                    for given in (out, req))
    out, req = (_in_order(name, what, given, structure, missing)
                for what, given, missing in (("out", out, None), ("req", req, "write")))
    outs = [out] if isinstance(out, np.ndarray) else list(out) if isinstance(
        out, (tuple, list)) else [None] * count
    if out is not None and not isinstance(out, (np.ndarray, tuple, list)):
        raise ArgumentError(f"{name}: out must be an array or a tuple of arrays, "
                            f"not {type(out).__name__}")
    if req is not None and not isinstance(req, (str, tuple, list)):
        raise ArgumentError(f"{name}: req must be one of {', '.join(REQS)}, or a tuple of them, "
                            f"not {type(req).__name__}")
    reqs = ["write"] * count if req is None else (
        [req] * count if isinstance(req, str) else list(req))
    for what, given in (("out", outs), ("req", reqs)):
        if len(given) != count:
            each = "None for each that is to be new" if what == "out" else "a word for each"
            raise ArgumentError(f"{name}: {what} has {len(given)} entries for {count} outputs: "
                                f"give a tuple of {count}, with {each}")
    for k, (o, r) in enumerate(zip(outs, reqs, strict=True)):
        if r not in REQS:
            raise ArgumentError(f"{name}: req of output {k} is {r!r}, not one of "
                                f"{', '.join(REQS)}")
        if r == "add" and o is None:
            raise ArgumentError(f"{name}: req='add' of output {k} needs an array in out=")
        if o is not None and not isinstance(o, np.ndarray):
            raise ArgumentError(f"{name}: out of output {k} is {type(o).__name__}, "
                                "not an array")
    return outs, reqs


def _in_order(name: str, what: str, given: Any, structure: Any, missing: Any) -> Any:
    """Entries by name, or in the structure of the results, as a list in the order of these."""
    parts, names = getattr(structure, "parts", ()), getattr(structure, "names", None)
    if isinstance(given, dict):
        if names is None:
            raise ArgumentError(f"{name}: {what} is a dict, but the outputs have no names")
        for key in given:
            if key not in names:
                raise ArgumentError(f"{name}: {what} names an output {key!r}; they are "
                                    f"{', '.join(map(str, names))}")
        given = [given.get(k, missing) for k in names]
    if not isinstance(given, (tuple, list)) or len(given) != len(parts):
        return given
    within = [(entry, part) for entry, part in zip(given, parts, strict=True) if part is not None]
    if not within or any(isinstance(entry, np.ndarray) for entry, _ in within):
        return given  # one for each result
    found: list[Any] = []
    for entry, part in zip(given, parts, strict=True):
        if part is None:
            found.append(entry)
        elif isinstance(entry, (dict, tuple, list)):
            found += _in_order(name, what, entry, part, missing)
        else:  # the same for all
            found += [entry] * part.count
    return found


def check_outputs(name: str, closed: Closed, outs: Sequence[Any], reqs: Sequence[str],
                shapes: Sequence[tuple[int, ...]]) -> None:
    """Reject wrong outputs before anything is written."""
    live = [(k, o) for k, o in enumerate(outs) if o is not None and reqs[k] != "null"]
    for k, o in live:
        dtype = known(closed.graph.outputs[k])
        if o.shape != shapes[k]:
            axis = next((a for a, (m, n) in enumerate(zip(o.shape, shapes[k], strict=False))
                         if m != n), None)
            at = "" if axis is None or o.ndim != len(shapes[k]) else (
                f": axis {axis} has size {o.shape[axis]} and not {shapes[k][axis]}")
            raise ShapeError(f"{name}: out of output {k} has shape {o.shape}, the result "
                             f"has shape {shapes[k]}{at}")
        dtype_of(o.dtype)
        if not np.can_cast(dtype, o.dtype, "same_kind"):
            raise DtypeError(f"{name}: output {k} of dtype {dtype} does not cast to out "
                             f"of dtype {o.dtype} under the same_kind rule")
        if not o.flags.writeable:
            raise ArgumentError(f"{name}: out of output {k} is read-only")
        if folded(o):
            raise ArgumentError(f"{name}: out of output {k} has elements that share "
                                "memory")
    for (j, a), (k, b) in itertools.combinations(live, 2):
        if overlap(a, b):
            raise ArgumentError(f"{name}: out of output {j} and of output {k} overlap")


def mask_of(name: str, where: Any, shapes: Sequence[tuple[int, ...]],
          reqs: Sequence[str]) -> np.ndarray:
    """`where=`, which must stretch to every output and never enlarges one."""
    try:
        mask = np.asarray(where)
    except ValueError:
        raise ArgumentError(f"{name}: where is one mask for all outputs, an array, not "
                            f"{type(where).__name__} of several") from None
    if mask.dtype != np.bool_:
        raise DtypeError(f"{name}: where has dtype {mask.dtype}, not bool")
    for k, shape in enumerate(shapes):
        pairs = zip(mask.shape[::-1], shape[::-1], strict=False)
        if reqs[k] != "null" and (mask.ndim > len(shape) or any(
                m not in (1, n) for m, n in pairs)):
            raise ShapeError(f"{name}: where of shape {mask.shape} does not stretch to "
                             f"output {k} of shape {shape}")
    return mask


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays share memory; if that is hard to tell, they do."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are the same elements in the same order."""
    return (a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
            and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype)


def known(node: Node) -> np.dtype:
    """The dtype of a node of a closed graph."""
    assert node.dtype is not None
    return node.dtype


def folded(array: np.ndarray) -> bool:
    """Whether elements of an array share memory; if that is hard to tell, they do."""
    end = array.itemsize
    for step, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True)):
        if n > 1 and step < end and array.size:
            return True
        end += step * (n - 1)
    return False


def places_of(reqs: Sequence[str], first: int) -> list[int]:
    """The operand number of every output; those not computed share the next one's."""
    places, here = [], first
    for req in reqs:
        places.append(here)
        here += req != "null"
    return [min(p, here - 1) for p in places]


def arguments_of(name: str, inputs: Sequence[Input], args: tuple[Any, ...],
                 given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Positional and named arguments in order."""
    names = [i.name for i in inputs]
    if len(args) > len(names):
        raise ArgumentError(f"{name} takes {len(names)} arrays ({', '.join(names)}), "
                            f"{len(args)} were given; outputs are passed as out=")
    if len(args) == len(names) and not given:
        return args
    rest = dict(given)
    full = list(args)
    for other in rest:
        if names.count(other) > 1:
            raise ArgumentError(f"{name}: two inputs are called {other}: pass them by position")
        if other not in names:
            raise ArgumentError(f"{name} has no argument {other}; it has {', '.join(names)}")
    for each in names[len(args):]:
        if each not in rest:
            raise ArgumentError(f"{name}: argument {each} is missing")
        full.append(rest.pop(each))
    if rest:
        raise ArgumentError(f"{name}: {next(iter(rest))} was given twice")
    return tuple(full)


def store_all(values: Sequence[np.ndarray], outs: Sequence[np.ndarray | None], reqs: Sequence[str],
               mask: np.ndarray | None) -> list[np.ndarray | None]:
    """New values of all outputs, stored as `out`, `req` and `where` say."""
    results: list[np.ndarray | None] = []
    for value, o, r in zip(values, outs, reqs, strict=True):
        if r == "null":
            results.append(None)
            continue
        selected: Any = True if mask is None else mask
        if o is None:
            o = np.zeros_like(value) if mask is not None else np.empty_like(value)
        if r == "add":
            value = o + value.astype(o.dtype, copy=False)
        np.copyto(o, value, where=selected, casting="unsafe")
        results.append(o)
    return results
