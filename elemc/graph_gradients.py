"""The nodes of a graph that gradients are made of.

Grammar, beyond that of `graph`::

    Node  := Exactly(arg, like)                    arg, which must have the shape of like
           | SumTo(arg, like)                      arg summed over what stretching like added
           | Scatter(arg, like, forms)             what reads arg if Index(it, forms) is like it
           | Custom(args, inputs, rule)            args, with a gradient rule of the user's
           | Result(custom, place)                 one of the args of a Custom
"""

from __future__ import annotations

from typing import Any

from .graph import Axis, ExpandTo, Only, Pick
from .node import Derived, Node, node_class
from .records import dataclass


@dataclass(frozen=True)
class Adjoint:
    """What a scan back does; stands for its accumulator, of which only the name is wanted."""

    name: str


@node_class
class Exactly(ExpandTo):
    """`arg`, which must have exactly the shape of `like`: neither is stretched."""


@node_class
class SumTo(Derived):
    """`arg` summed over the axes on which `like`, of its rank, is of size 1 in this call.

    The gradient of stretching; `program` is the traced sum, once the graph is closed.
    """

    parts = ("arg", "like")
    arg: Node
    like: Node
    program: Any

    def __post_init__(self) -> None:
        self.settle(self.like.ndim, self.arg.dtype)


@node_class
class Scatter(Derived):
    """Zeros in the shape of `like`, and `arg` where `Index(like, forms)` reads it.

    The gradient of indexing.
    """

    parts = ("arg", "like")
    arg: Node
    like: Node
    forms: tuple[Axis | Pick | Only, ...]

    def __post_init__(self) -> None:
        self.settle(self.like.ndim, self.arg.dtype)


@node_class
class Custom(Derived):
    """`args`, made of `inputs`, whose gradient is the user's; a value only through its `Result`s.

    `rule(g, z, *inputs)` gives a cotangent for every input; `g` and `z` are `structure(list)` of
    the cotangents of `args` and of `args`, or, if that is None, of the only one.  If `elementwise`,
    inputs are aligned with the only arg, and their cotangents are summed over what stretching them
    has added.
    """

    parts = ("args", "inputs")
    name: str
    args: tuple[Node, ...]
    inputs: tuple[Node, ...]
    rule: Any
    structure: Any
    elementwise: bool

    def __post_init__(self) -> None:
        self.settle(0)


@node_class
class Result(Derived):
    """One of the args of a `Custom`."""

    parts = ("call",)
    call: Custom
    place: int

    @property
    def arg(self) -> Node:
        """What it is, without a rule."""
        return self.call.args[self.place]

    def __post_init__(self) -> None:
        self.settle(self.arg.ndim, self.arg.dtype)
