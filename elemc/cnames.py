"""Names that are harmless in C."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

RESERVED = re.compile(r"(begin|end|phase|status|decided|[abcijnpsw]|([abceijnt]|acc|row|buffer)\d+|"
                      r"(elemc|kernel)_.*|_.*|.*_(p|v|s\d+|\d+)|l|half|[fc]?(32|64)|"
                      r"int|long|main)$")
# With a number, these may be the names of other variables, strides, types or functions.
UNFIT = re.compile(r"(.*_)?[a-z]?|.*\d|elemc.*")
C_WORDS = set(("auto break case char const continue default do double else enum extern float for "
               "goto if inline int long register restrict return short signed sizeof static "
               "struct switch typedef union unsigned void volatile while asm typeof where "
               "complex64 complex128 bool_t AT SIMD PURE INDEPENDENT UNROLL LANES STRIP LINE "
               "BLOCK ROWS TREE TILE PAD linux unix").split()) | {
    f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)}


def identifier(name: str) -> str:
    """`name` as a C identifier."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


def stem(name: str) -> str:
    """What names of C variables begin with that end in a number, after `name`, an accumulator."""
    plain = identifier(name)
    return f"{plain}_fold" if UNFIT.fullmatch(plain) else plain


def c_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that are harmless in C, all different, as close to the user's as that allows."""
    taken: set[str] = set()
    result = []
    for name in names:
        plain = identifier(name)
        if plain in C_WORDS or keyword.iskeyword(plain) or RESERVED.match(plain):
            bare = plain.lstrip("_")
            plain = f"{bare}_in" if bare[:1].isalpha() else f"x{bare}_in"
        base, number = plain, 1
        while plain in taken:
            number += 1
            plain = f"{base}_in{number}"
        taken.add(plain)
        result.append(plain)
    return tuple(result)


def output_names(count: int, taken: Sequence[str]) -> tuple[str, ...]:
    """z, or z0, z1, ...; with another letter if an input has that name."""
    for letter in ("z", "out", "result", "output_of_elemc"):
        names = (letter,) if count == 1 else tuple(f"{letter}{k}" for k in range(count))
        if not set(names) & set(taken):
            return names
    raise AssertionError("no name is left for the outputs")


def fresh(base: str, taken: set[str]) -> str:
    """A name that is not taken yet, and is from now on."""
    name = next(n for n in (f"{base}{k or ''}" for k in range(len(taken) + 1)) if n not in taken)
    taken.add(name)
    return name
