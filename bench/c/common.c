/*
 * The workloads as plain C loops, T being float or double.
 *
 * Each function computes one workload: p has the operands, then the outputs; m and n are the
 * extents of the first operand (1 and n of a vector).  Constants are of single precision where T
 * is (-fsingle-precision-constant), functions by <tgmath.h>, loops in vectors by the compiler.
 */
#include <float.h>
#include <stdint.h>
#include <tgmath.h>

#define PRAGMA(text) _Pragma(#text)
#define PARALLEL_WITH(clauses) PRAGMA(omp parallel for if (m * n > 50000) clauses)
#define PARALLEL PARALLEL_WITH()
#define IN(name, k) const T *restrict name = p[k]
#define OUT(name, k) T *restrict name = p[k]
