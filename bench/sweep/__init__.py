"""Random computations on random layouts, against NumPy and against plain C loops made for each."""
