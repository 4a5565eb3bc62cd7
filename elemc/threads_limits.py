"""How other packages bound elemc's threads: threadpoolctl, if the program uses it."""

from __future__ import annotations

import sys

from .threads import choose, default_number, forget, number_of_threads

_told: list[bool] = []


def tell_threadpoolctl() -> None:
    """Register with threadpoolctl, if it is imported and does not know yet.

    `threadpoolctl.threadpool_limits(1)`, by which joblib and scikit-learn keep their workers from
    starting more threads than there are CPUs, then bounds the threads of calls as well.
    """
    if _told or "threadpoolctl" not in sys.modules:
        return
    import threadpoolctl  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if not hasattr(threadpoolctl, "register"):
        return  # before version 3.2

    class Threads(threadpoolctl.LibController):  # type: ignore[misc]
        """The library made of runtime.c."""

        user_api = internal_api = "elemc"
        filename_prefixes = ("kernel",)
        check_symbols = ("elemc_use_threads",)

        def get_num_threads(self) -> int:
            return number_of_threads()

        def set_num_threads(self, num_threads: int) -> None:
            choose(num_threads)
            if num_threads == default_number():
                forget()  # this is the end of a block
            self.dynlib.elemc_use_threads(num_threads)

        def get_version(self) -> str:
            return str(sys.modules["elemc"].__version__)  # which is imported after this module

    threadpoolctl.register(Threads)
    _told.append(True)
