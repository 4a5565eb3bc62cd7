"""Several turns of a loop at once, as the templates take them: statement beside statement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def beside(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two loops in lanes, of the same statements under other names, as one.

    Their trees are as high at every block.
    """
    other = other | {"merge_top": other["merge_top"].replace(other["top"], one["top"])}
    bodies = {k: after(one[k], other[k]) for k in ("body", "last", "others", "rest")}
    lists = {k: [*v, *other[k]] for k, v in one.items() if isinstance(v, list)}
    return one | lists | bodies | {k: ", ".join(filter(None, (one[k], other[k])))
                                   for k in ("drop_lanes", "merge_lanes", "merge_row", "merge_top",
                                             "set_row")}


def whole(row: dict[str, Any]) -> dict[str, Any]:
    """A loop in lanes of which nothing is left."""
    return row | {"sure": True, "final": not row["cut"], "last": [], "others": [], "rest": []}


def nested(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two nests of loops, of the same statements under other names, as one."""
    def both(key: str) -> list[dict[str, Any]]:
        match one[key], other[key]:
            case [{"kind": "loop"} as inner], [also]:
                return [nested(inner, also)]
        return after(one[key], other[key])

    lists = {k: [*v, *other[k]] for k, v in one.items() if isinstance(v, list)}
    return one | lists | {key: both(key) for key in ("body", "ones", "last")}


def after(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The statements of two turns; what both add to, gcc would store and read again in between."""
    def targets(body: Sequence[dict[str, Any]]) -> set[str]:
        return {s["target"] for s in body if s["kind"] == "assign"}

    found = [*one, *other]
    for target in sorted(targets(one) & targets(other)):
        name, word = f"{target.partition('[')[0]}_between", rf"(?<!\w){re.escape(target)}"
        first, last = (k for k, s in enumerate(found) if s.get("target") == target)
        found[first] = {**found[first], "kind": "let", "name": name}
        for k in range(first + 1, last + 1):
            found[k] = {**found[k], "value": re.sub(word, name, found[k]["value"])}
    return found
