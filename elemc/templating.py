"""The Jinja environment that lays out every line of C."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = os.path.dirname(__file__)


@cache
def environment() -> Environment:
    """The environment of `templates/`: beside the package in a checkout, inside it in a wheel."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # slow to import

    places = [os.path.join(root, "templates") for root in (PACKAGE, os.path.dirname(PACKAGE))]
    env = Environment(
        loader=FileSystemLoader(places),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.globals.update(zip=zip, len=len)
    return env
