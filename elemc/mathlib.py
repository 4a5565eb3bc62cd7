"""The math library: what it has, and its C.

One shared object per machine, loaded before the first kernel that calls it.  For every function f
it exports `double elemc_f(double...)` and `float elemc_ff(float...)`; for those in `SIMD`, where
glibc's libmvec is used, also the variants that vectorized loops call (`variants`); on AVX-512
some of them are computed here instead (`_AVX512`), faster and closer than libmvec does.  All
variants of a function give the same bits, so that an element's result does not depend on its
position.
"""

from __future__ import annotations

from functools import cache

from .templating import environment

_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh cbrt erf erfc gamma lgamma digamma erfinv sinc"
).split()
_BINARY = "pow atan2 hypot fmod nextafter polygamma".split()

FUNCTIONS: dict[str, int] = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2)}
"""Name, without prefix and suffix -> number of arguments."""

# How each function is computed, in double and in single precision: by libmvec, by the scalar
# libm, in vectors here ("vector"), in the template itself ("own"), or in double precision and
# rounded ("double").
_WAYS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(FUNCTIONS, ("libmvec", "libmvec")),
    "nextafter": ("libm", "libm"),
    "fmod": ("vector", "vector"),
    **dict.fromkeys("gamma lgamma digamma polygamma erfinv sinc".split(), ("own", "double")),
}

# Those that libmvec has had from the beginning; the others came with glibc 2.35.
_OLDEST = "sin cos exp log pow".split()

# Those that are not left to libmvec where there are 512 bits.
_AVX512 = "exp expm1 log log1p sinh cosh tanh asinh acosh atanh pow".split()

SIMD: frozenset[str] = frozenset(
    name for name, ways in _WAYS.items() if {"libmvec", "vector"} & {*ways})
"""The functions that have vector variants."""

# Those that libm computes well, and those computed in the template.
_COMPLEX_LIBM = "exp log sqrt sin cos sinh cosh asin acos asinh acosh".split()
_COMPLEX_OWN = "tan tanh atan atanh pow log1p expm1".split()

COMPLEX: frozenset[str] = frozenset(_COMPLEX_LIBM + _COMPLEX_OWN)
"""Base names of the complex functions: `exp` is `elemc_cexp` and `elemc_cexpf`."""


@cache
def source() -> str:
    """The C of the library; the same on every machine.

    It is compiled with `-DELEMC_LIBMVEC=2` where glibc's libmvec is there, with 1 where that is
    older than glibc 2.35, else with 0.
    """
    template = environment().get_template("mathlib.c.j2")
    return template.render(functions=FUNCTIONS, ways=_WAYS, oldest=_OLDEST,
                           avx512=_AVX512, complexes=_COMPLEX_LIBM)
