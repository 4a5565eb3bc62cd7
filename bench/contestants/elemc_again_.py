"""elemc once more: how far apart two measurements of the same program are."""

from . import elemc_

VERSION, set_threads, prepare = elemc_.VERSION, elemc_.set_threads, elemc_.prepare
