"""The math library: what it has, and its C.

Shared objects, of which a machine compiles those that its kernels call: one for each function of
doubles or of floats, for both of special and of complex ones, for what is done to blocks of
numbers, trees of sums, and lines that are turned, which would take as long in a kernel as all else.
For every function f they export `double elemc_f(double...)` and `float elemc_ff(float...)`; for
those in `SIMD`, where glibc's libmvec is used, also the variants that vectorized loops call
(`variants`); with AVX-512 or AVX2 some of them are computed here instead (`WIDE`), faster and
closer than libmvec does; and for those of one argument
`void elemc_f_each(double *to, const double *x, int64_t n)`, for many elements.  All variants of a
function give the same bits, so that an element's result does not depend on its position.
"""

from __future__ import annotations

from functools import cache

from .templating import environment

_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh cbrt erf erfc gamma lgamma digamma erfinv sinc sech"
).split()
_BINARY = "pow atan2 hypot fmod nextafter polygamma".split()

FUNCTIONS: dict[str, int] = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2)}
"""Name, without prefix and suffix -> number of arguments."""

# How each function is computed where not by libmvec: by the scalar libm, or in vectors here.
_WAYS: dict[str, str] = {
    **dict.fromkeys(FUNCTIONS, "libmvec"), "nextafter": "libm", "fmod": "vector", "sech": "vector",
    **dict.fromkeys("gamma lgamma digamma polygamma erfinv sinc".split(), "special"),
}

# Those that libmvec has had from the beginning; the others came with glibc 2.35.
_OLDEST = "sin cos exp log pow".split()

# Those that are not left to libmvec with AVX-512, but for hypot, or with AVX2, but for log and sinh
# of floats.
WIDE = "exp expm1 log log1p sinh cosh tanh asinh acosh atanh pow hypot".split()

# Those that are compiled into their loop over many elements; it calls the others.
_OFTEN = "exp expm1 log log1p sech tanh".split()
_HALVED = "exp tanh".split()  # with AVX2 in two halves, eight vectors at a time

SIMD: frozenset[str] = frozenset(
    name for name, way in _WAYS.items() if way in ("libmvec", "vector"))
"""The functions that have vector variants."""

# Those that libm computes well, and those computed in the template.
_COMPLEX_LIBM = "exp log sqrt sin cos sinh cosh asin acos asinh acosh".split()
_COMPLEX_OWN = "tan tanh atan atanh pow log1p expm1".split()

COMPLEX: frozenset[str] = frozenset(_COMPLEX_LIBM + _COMPLEX_OWN)
"""Base names of the complex functions: `exp` is `elemc_cexp` and `elemc_cexpf`."""


WHOLE = ("floor_divide", "remainder")  # of 64-bit integers
_ENDS = "void *to, const void *from, int64_t n"
_HALVES = {"elemc_floats_of_halves": _ENDS, "elemc_halves_of_floats": _ENDS}
_QUOTIENTS = {
    "elemc_quotients": f"{_ENDS}, double y, double near, int divides",
    "elemc_quotients_by": f"{_ENDS}, const void *y, const void *near, int divides",
}
_OF_INTEGERS = {
    **{f"elemc_{name}": f"{_ENDS}, int64_t y" for name in WHOLE},
    **{f"elemc_{name}_by": f"{_ENDS}, const void *y" for name in WHOLE},
}
TREES: dict[str, dict[str, str]] = {
    "sum_f64": {"type": "double", "merge": "a + b", "identity": "0.0"},
    "sum_f32": {"type": "float", "merge": "a + b", "identity": "0.0f"}}
"""Pairwise trees of partial states, of the most common accumulators: `templates/tree.c.j2`."""

_OF_TREES = {
    f"elemc_{way}_{name}": f"{const}{tree['type']} *tree, int64_t count, {tree['type']} *{part}, "
                           "int64_t width"
    for name, tree in TREES.items()
    for way, const, part in (("push", "", "part"), ("pull", "const ", "total"))}
_TURNS = {f"elemc_turn_{8 * size}": size for size in (1, 2, 4, 8)}
_OF_TYPES: dict[str, tuple[str, str]] = {
    f"elemc_{name}{end}": (name, ctype) for name, way in _WAYS.items() if way != "special"
    for end, ctype in (("", "double"), ("f", "float"))}
"""Functions that have a library each: their name, without prefix and suffix, and type."""

_EACH: dict[str, str] = {
    f"{function}_each": function for function, (name, _) in _OF_TYPES.items()
    if name in SIMD and FUNCTIONS[name] == 1}
ARGUMENTS: dict[str, str] = {
    **_HALVES, **_QUOTIENTS, **_OF_INTEGERS, **_OF_TREES,
    **dict.fromkeys(_EACH, "void *to, const void *x, int64_t n"),
    **dict.fromkeys(_TURNS, "void *to, int64_t to_step, const void *from, int64_t step, "
                            "int64_t rows, int64_t columns")}
"""Functions that store what they compute, of many numbers, and their arguments."""

NOTES: dict[str, str] = {
    **{f"elemc_push_{name}": "onto a pairwise tree, which takes `part`" for name in TREES},
    **{f"elemc_pull_{name}": "the total of what was pushed" for name in TREES},
    **dict.fromkeys(_TURNS, "columns of lines that are a step apart")}
"""What some of them are for, where it is not plain."""

_SPECIAL = {name: count for name, count in FUNCTIONS.items() if _WAYS[name] == "special"}

LIBRARIES: dict[str, str] = {
    **_EACH,
    **{function: function for function in (*_OF_TYPES, *_HALVES, *_QUOTIENTS, *_OF_INTEGERS,
                                            *_TURNS)},
    **{function: f"elemc_tree_{name}" for function in _OF_TREES
       for name in TREES if function.endswith(name)},
    **{f"elemc_{name}{end}": f"elemc_{name}" for name in (*_SPECIAL, *(f"c{n}" for n in COMPLEX))
       for end in ("", "f")},
}
"""C function -> name of the library that has it."""

# Of the others, their templates and what these are told.
_TEMPLATES: dict[str, tuple[str, dict[str, object]]] = {
    **{f"elemc_{name}": ("mathlib_special.c.j2", {"asked": name, "count": count})
       for name, count in _SPECIAL.items()},
    **{f"elemc_c{name}": ("mathlib_complex.c.j2", {"asked": name, "complexes": _COMPLEX_LIBM})
       for name in COMPLEX},
    **{function: ("mathlib_halves.c.j2", {"narrow": function.startswith("elemc_halves")})
       for function in _HALVES},
    **{function: ("mathlib_quotients.c.j2", {"each": function.endswith("_by")})
       for function in _QUOTIENTS},
    **{f"elemc_{name}{end}": ("mathlib_integers.c.j2", {"name": name, "each": bool(end)})
       for name in WHOLE for end in ("", "_by")},
    **{f"elemc_tree_{name}": ("mathlib_tree.c.j2", {"helper": name, **tree})
       for name, tree in TREES.items()},
    **{function: ("mathlib_turn.c.j2", {"size": size}) for function, size in _TURNS.items()},
}


@cache
def source(library: str) -> str:
    """The C of a library; the same on every machine.

    It is compiled with `-DELEMC_LIBMVEC=2` where glibc's libmvec is there, with 1 where that is
    older than glibc 2.35, else with 0.
    """
    if library in _OF_TYPES:
        name, ctype = _OF_TYPES[library]
        return functions_source(ctype, name)
    template, context = _TEMPLATES[library]
    return environment().get_template(template).render(context)


def functions_source(ctype: str, *names: str) -> str:
    """The C of functions of one type, double or float, none of them special."""
    functions = {n: count for n, count in FUNCTIONS.items() if n not in _SPECIAL}
    return environment().get_template("mathlib.c.j2").render(
        type=ctype, ways=_WAYS, oldest=_OLDEST, wide=WIDE, often=_OFTEN, halved=_HALVED,
        functions=functions, exported={n: functions[n] for n in names})
