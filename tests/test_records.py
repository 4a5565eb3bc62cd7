"""Records are dataclasses: made by place and by name, compared by their fields, told as written."""

from dataclasses import field, fields, replace

import pytest

from elemc.records import dataclass


@dataclass(frozen=True)
class Point:
    """Of two numbers."""

    x: int
    y: int = 2
    notes: list[str] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class Named(Point):
    """A point with a name."""

    name: str = field(default="", repr=False)


def test_made_by_place_and_by_name():
    assert vars(Point(1)) == {"x": 1, "y": 2, "notes": []}
    assert vars(Point(1, y=3)) == {"x": 1, "y": 3, "notes": []}
    assert vars(Named(1, 2, ["a"], "n")) == {"x": 1, "y": 2, "notes": ["a"], "name": "n"}
    assert Point(1).notes is not Point(1).notes
    assert [f.name for f in fields(Named)] == ["x", "y", "notes", "name"]


@pytest.mark.parametrize("args, named", [
    ((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((), {"y": 1})])
def test_every_field_once(args, named):
    with pytest.raises(TypeError, match="x"):
        Point(*args, **named)


def test_compared_and_told():
    one, other = Point(1, 2, ["a"]), Point(1, 2)
    assert one == other and hash(one) == hash(other) and one != Point(1, 3)
    assert one != Named(1, 2)
    assert replace(one, y=5) == Point(1, 5) and replace(one, y=5).notes == ["a"]
    assert repr(Named(1, name="n")) == "Named(x=1, y=2, notes=[])"
