"""The limit that memory sets, with streaming stores."""

from functools import partial

from .limit_ import prepare as prepare_plain
from .limit_ import set_threads

__all__ = ["VERSION", "prepare", "set_threads"]

VERSION = "streaming stores"
prepare = partial(prepare_plain, streaming=True)
