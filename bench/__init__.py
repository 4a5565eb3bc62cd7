"""Benchmarks: elemc beside NumPy, numexpr, numba, JAX, PyTorch and others, measured in one run.

`python -m bench --help` says how.  Nothing here imports NumPy before the number of threads is
pinned, so this file stays empty.
"""
