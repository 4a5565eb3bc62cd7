"""How a compiler learns that functions of the math library have vector variants.

gcc reads it in their declarations, where `SIMD` stands.  clang reads that and ignores it: what its
vectorizer looks at is an attribute of calls, which no C says but a flag gives to all of them.  It
names each function's variants, which have to be declared in the file, too.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from typing import Any

import _cffi_backend  # what cffi.FFI().dlopen calls

DECLARED = re.compile(r"extern (double|float) (elemc_\w+)\((.*)\) SIMD;")

ISAS = {"b": 16, "c": 32, "d": 32, "e": 64}
"""Letters of the x86-64 vector function ABI, in libmvec's names -> bytes of their vectors."""

# The variants that the math library has are those of the first line that a compiler defines.
WITH = {"__AVX512F__": "bde", "__AVX2__": "bd", "__AVX__": "bc", "__SSE2__": "b"}

LATER = "_ZGVbN2v_tan"  # in libmvec since glibc 2.35; before, it had a few functions only


@functools.cache  # holds it: a library that nobody holds is closed
def _libmvec() -> Any:
    return _cffi_backend.load_library("libmvec.so.1", os.RTLD_NOW | os.RTLD_GLOBAL)


def open_libmvec() -> int:
    """Load glibc's libmvec: 1 if it has few functions, 2 if all.

    It is not linked: that would take glibc's development files, which zig does without.

    Raises
    ------
    OSError
        If there is none.
    """
    try:
        _libmvec().load_function(_cffi_backend.FFI().typeof("void (*)(void)"), LATER)
    except AttributeError:
        return 1
    return 2


def isas_of(macros: str) -> str:
    """The letters of the variants of the math library, by a compiler's macros (`-dM -E`)."""
    return next((isas for macro, isas in WITH.items() if f"#define {macro} " in macros), "")


def for_clang(source: str, isas: str) -> tuple[str, tuple[str, ...]]:
    """C to append to a kernel, and flags for it, so that clang calls the variants."""
    found = list(_variants(source, isas))
    if not found:
        return "", ()
    types = {(kind, size) for kind, size, *_ in found}
    lines = [f"typedef {kind} {kind}{size} __attribute__((vector_size({size})));"
             for kind, size in sorted(types)]
    lines += [f"extern {kind}{size} {variant}({', '.join([f'{kind}{size}'] * count)});"
              for kind, size, variant, _, count in found]
    names = [variant for _, _, variant, _, _ in found]
    lines.append("__attribute__((used)) static void *const elemc_variants[] = "
                 f"{{{', '.join(names)}}};")
    told = ",".join(f"{variant}({variant})" for variant in names)
    words = ("-default-function-attr", f"vector-function-abi-variant={told}")
    return "\n".join(["", *lines, ""]), tuple(w for word in words for w in ("-Xclang", word))


def _variants(source: str, isas: str) -> Iterator[tuple[str, int, str, str, int]]:
    """Type, vector's bytes, name, function and number of arguments of every variant declared."""
    for kind, function, takes in DECLARED.findall(source):
        count = takes.count(",") + 1
        for isa in isas:
            lanes = ISAS[isa] // (8 if kind == "double" else 4)
            yield kind, ISAS[isa], f"_ZGV{isa}N{lanes}{'v' * count}_{function}", function, count
