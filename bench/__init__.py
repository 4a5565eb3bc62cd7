"""Benchmarks: elemc beside NumPy, numexpr, numba, JAX, PyTorch and others, measured in one run.

* `python -m bench` compares on the workloads, `--verdict` says where a peer is ahead;
* `python -m bench --sweep` compares with NumPy and plain C loops on random computations;
* `python -m bench overhead` tells what calls, compilations and starts cost, `first` what the first
  calls of fresh processes cost beside others'.

`--help` says how.  Nothing here imports NumPy before the number of threads is pinned, so this file
stays empty.
"""
