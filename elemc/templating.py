"""The Jinja environment that lays out every line of C, and the state of this package's files."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .cache_dirs import key_of, record, save_record

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = os.path.dirname(os.path.abspath(__file__))
PLACES = [os.path.join(root, "templates") for root in (PACKAGE, os.path.dirname(PACKAGE))]
COMPILED = "templates"  # where the cache keeps them
BEGAN = time.time() - 0.05  # the clock of files is coarser


def stamp_now() -> str | None:
    """What this package is: names, sizes and times of its files, Python's and NumPy's version.

    None if a file changed after this process began to import it: then modules of different states
    may work together, and nothing that they find out is kept for other processes.
    """
    rows = [f"{sys.version} {sys.implementation.cache_tag} NumPy {np.__version__}"]
    for place in (PACKAGE, *PLACES):
        try:
            with os.scandir(place) as files:
                states = [(file.path, file.stat()) for file in files if file.is_file()]
        except OSError:
            continue  # templates/ is in one of two places
        if any(state.st_ctime > BEGAN for _, state in states):
            return None
        rows += sorted(f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in states)
    return key_of(*rows)


@cache
def environment() -> Environment:
    """The environment of `templates/`: beside the package in a checkout, inside it in a wheel."""
    import jinja2  # slow to import

    class Compiled(jinja2.BytecodeCache):
        """The templates as Jinja compiles them, which takes longer than to lay out a kernel."""

        def get_cache_key(self, name: str, filename: str | None = None) -> str:
            """The file of a template: one per version of Python."""
            return f"{name}-{sys.implementation.cache_tag}"

        def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            """Fill `bucket`, if its template was compiled by the same Jinja and is unchanged."""
            held = record(os.path.join(COMPILED, bucket.key))
            if stamp and isinstance(held, tuple) and held[0] == _origin(bucket.checksum):
                bucket.bytecode_from_string(held[1])

        def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            """Keep `bucket` for other processes."""
            if stamp:
                save_record(os.path.join(COMPILED, bucket.key),
                            (_origin(bucket.checksum), bucket.bytecode_to_string()))

    def _origin(source: str) -> str:
        return key_of(source, jinja2.__version__, stamp or "")

    stamp = stamp_now()

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PLACES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=Compiled(),
    )
    env.globals.update(zip=zip, len=len)
    return env


def load_templates() -> None:
    """Load all that C is laid out by, which Jinja takes long to compile the first time."""
    env = environment()
    for name in env.list_templates():
        env.get_template(name)
