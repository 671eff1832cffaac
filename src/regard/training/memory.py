"""Keeping memory that training frees and asks for again, step after step; needs no torch, so that commands can begin with it."""

from __future__ import annotations

import ctypes
import sys


def keep_freed_memory() -> None:
    """Tell the C library to keep large freed blocks for the next step instead of returning them to the system.

    With glibc's defaults each step of training on a processor returns its activations to the system and has them back as new
    pages, filled with zeros, which cost about a tenth of the time. A setting of the whole process, so the command line makes
    it, not `regard.train`. Where the C library is another one nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not hasattr(library, "gnu_get_libc_version"):
        return
    trim_threshold, maximum_mapped = -1, -4  # M_TRIM_THRESHOLD, M_MMAP_MAX of malloc.h
    library.mallopt(maximum_mapped, 0)
    library.mallopt(trim_threshold, 2**31 - 1)
