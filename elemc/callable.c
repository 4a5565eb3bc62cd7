/* The call path in C: look at the arrays, find the kernel for them, run it.
 *
 * A `Callable` holds a short list of entries.  An entry is what fastcall.py wrote down of one
 * specialization of a function: its key, the address of its kernel, and a stream of int64 that
 * says how sizes, pointers, strides and buffers come from the arrays.  A call
 *
 *   1. looks at its operands, and makes one word of the key of each           (collect, look_at)
 *   2. finds the entry with this key whose extents are 1 in the same places   (find, match)
 *   3. checks or makes the outputs, binds all operands, and runs the kernel   (run)
 *
 * An entry keeps the shapes and strides of its latest call, and what followed from them.  A call
 * with the same differs in addresses alone: it skips all but those                  (repeated)
 *
 * Whatever is out of the ordinary - no entry yet, other kinds of arguments, sizes that do not fit,
 * outputs that overlap inputs - is left to `Function._call` in Python, before anything is written:
 * it has the answer, or the error.  The GIL guards the entries; one that is in use is counted.
 *
 * A `Dispatcher` stands before the Callables of a function that is traced per kinds of arguments.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <structmember.h>

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

enum {
  RANK = 8,          /* of an operand whose layout fits into a word of the key */
  OPERANDS = 62,     /* inputs, captured arrays, a mask and outputs of one function: bits of a word */
  WORDS = OPERANDS + 2, /* of a key: the mask and the kind come on top */
  PLACES = 384,      /* extents, pointers or buffers of one kernel */
  ENTRIES = 128,     /* of one function; the one not used for longest is dropped */
  KINDS = 1024,      /* of calls that go to functions without Python */
  RELEASE = 10000,   /* nanoseconds of work from which on the GIL is released */
  SMALL = 8000,      /* nanoseconds of work for which one thread is enough, twice the runtime's GRAIN */
  WEIGHT = 16,       /* units of work in a nanosecond */
  MOST_THREADS = 256,
  LOCAL_BYTES = 4096,    /* of buffers that live on the stack */
  LARGE_BYTES = 1 << 18, /* of outputs whose memory is kept for the next */
  STEP = 4,              /* elements between neighbours, if that is worth knowing */
  FEW = 1024             /* bytes of the largest input from which on rows have kernels */
};

enum { SECOND = 1, THIRD, MEMORY }; /* where the inputs of folds come from */

typedef int (*Kernel)(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
                      const int64_t *n, volatile int64_t *decided, char *const *w);

/* runtime.c */
extern void *elemc_take(size_t bytes, size_t place);
extern size_t elemc_size(const void *data);
extern void elemc_give(void *data);
extern int64_t elemc_large(void);
extern int64_t elemc_second(void);
extern int elemc_threads(double nanoseconds);
extern double elemc_pace(void);
extern int elemc_usual_modes(fenv_t *modes);
extern int elemc_run(Kernel kernel, int64_t phase, int64_t length, int64_t least,
                     double nanoseconds, int threads, char *const *p, const int64_t *s,
                     const int64_t *n, char *const *w, int64_t buffers);

typedef struct {
  char *data;
  const npy_intp *shape, *strides;
  int ndim, itemsize;
} Operand;

/* The keywords of a call, NULL where they say nothing. */
typedef struct {
  PyObject *out, *where, *req;
} Options;

/* What an operand looked like. */
typedef struct {
  PyArray_Descr *dtype; /* NULL: it was a number */
  int ndim, flags;
  npy_intp shape[RANK], strides[RANK];
  npy_intp low, high; /* the bytes it lies within, from its data on */
  uint64_t same;      /* of an output: bits of the inputs that it was, too */
} Seen;

/* What the operands of an entry's latest call looked like, and what follows from their shapes and
 * strides: extents, the kernel's sizes, its pointers and the strides of these, its phases.  Calls that
 * run at once may share it, so nobody writes to it once the entry has it. */
typedef struct {
  Py_ssize_t uses;
  int64_t extents, sizes, pointers, phases; /* how many of them there are */
  int64_t large; /* bits of the inputs that are as large as outputs in recycled memory */
  double most, all; /* nanoseconds of the longest phase that can be in pieces, and of all phases */
  /* one behind the other, after all that was seen; from, offset: of a pointer its operand, bytes from
   * its data; least: indices of a piece; work: nanoseconds of a phase */
  int64_t *extent, *n, *from, *offset, *s, *length, *least;
  double *work;
  int64_t nseen;
  Seen seen[]; /* inputs, captured arrays, a mask; outputs if they were given */
} Found;

typedef struct {
  Py_ssize_t uses;
  Kernel kernel;
  PyObject *captured; /* tuple of the arrays that the function captured */
  PyObject *dtypes;   /* tuple of the dtypes of the outputs */
  PyObject *keep;     /* what keeps the kernel loaded */
  int ninputs;        /* arrays that it reads: inputs, captured arrays, a mask if there is one */
  int words;          /* of the key: operands that the caller passes, and the kind of the call */
  uint64_t key[WORDS];
  int64_t *code;
  size_t bytes; /* of the code */
  Found *found; /* of the latest call; NULL before the first */
  const int64_t *outputs, *buffers; /* where the code tells of them */
} Entry;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  int nin, nout;        /* nin is -1 until the function is ready */
  PyObject *structure;  /* of the answer: tuples of None, one a result; or makes it of a list */
  int wanted[OPERANDS]; /* type numbers of Python numbers as inputs; -1: Python looks at them */
  int used;
  Entry *entry[ENTRIES]; /* latest use first */
  Py_ssize_t hits;
} Callable;

/* All that one call works with, on the stack of its thread. */
typedef struct {
  int given, masked; /* whether the caller passed the outputs, and where= */
  uint64_t kind;     /* of these two, and which outputs are added to */
  int words;
  uint64_t key[WORDS];
  Operand operand[OPERANDS];  /* inputs, then captured arrays, a mask, outputs */
  Operand mask, out[OPERANDS]; /* as the caller passed them */
  PyArrayObject *where;
  PyArrayObject *source[OPERANDS], *target[OPERANDS]; /* inputs that are arrays, outputs */
  int64_t scalar[OPERANDS];
  int64_t extent[PLACES]; /* if it is unlike the entry's latest call */
  Found *found;
  char *p[PLACES], **w, *own_w[PLACES]; /* w: own_w if there is one thread */
} Call;

static PyTypeObject CallableType;
static double large_bytes; /* of arrays that outgrow the caches */
static int64_t second_bytes; /* that the second cache holds */
static double weight;      /* of a nanosecond of this machine, in units of work */
static PyObject *fail; /* runtime.fail: raises the error of a status */
static PyObject *name_call, *name_out, *name_where, *name_req, *name_add, *name_write;

/* -- 1. looking at the operands ---------------------------------------------------------------- */

/* Bits of a word of the key: dtype 5, rank 4, unaligned 1, swapped 1, step 4, packed 7, perm 32 */
static uint64_t word_of(int type, int ndim, int unaligned, int swapped, int step, uint64_t packed,
                        uint64_t perm) {
  return (uint64_t)type | (uint64_t)ndim << 5 | (uint64_t)unaligned << 9 | (uint64_t)swapped << 10 |
         (uint64_t)(step + STEP) << 11 | packed << 15 | perm << 22;
}

static npy_intp magnitude(npy_intp stride) { return stride < 0 ? -stride : stride; }

/* What layout.layout_of tells of an array that is not C-contiguous. */
static void layout_of(const Operand *o, int *step, uint64_t *packed, uint64_t *perm) {
  int order[RANK], count = 0;
  for (int d = 0; d < o->ndim; d++) {
    if (o->shape[d] == 1 || o->strides[d] == 0) continue;
    int k = count++;
    for (; k > 0 && magnitude(o->strides[order[k - 1]]) < magnitude(o->strides[d]); k--)
      order[k] = order[k - 1];
    order[k] = d;
  }
  npy_intp last = count ? o->strides[order[count - 1]] : o->itemsize;
  int known = last % o->itemsize == 0 && magnitude(last) <= STEP * o->itemsize;
  *step = known ? (int)(last / o->itemsize) : 0;
  *packed = *perm = 0;
  for (int k = 0; k < count; k++) {
    int d = order[k];
    *perm = *perm << 4 | (uint64_t)(d + 1);
    if (k + 1 < count && o->strides[d] == o->strides[order[k + 1]] * o->shape[order[k + 1]])
      *packed |= (uint64_t)1 << k;
  }
}

/* Describe an array; 0 if entries have no room for it. */
static int look_at(PyArrayObject *array, Operand *o, uint64_t *word) {
  PyArray_Descr *dtype = PyArray_DESCR(array);
  uint64_t packed, perm = 0;
  int step = 1;
  o->data = PyArray_BYTES(array);
  o->shape = PyArray_DIMS(array);
  o->strides = PyArray_STRIDES(array);
  o->ndim = PyArray_NDIM(array);
  o->itemsize = (int)PyDataType_ELSIZE(dtype);
  if ((unsigned)dtype->type_num > NPY_HALF || o->itemsize == 0 || o->ndim > RANK) return 0;
  if (PyArray_IS_C_CONTIGUOUS(array)) { /* so are all arrays of size 0 */
    int count = 0;
    for (int d = 0; d < o->ndim; d++)
      if (o->shape[d] != 1) {
        perm = perm << 4 | (uint64_t)(d + 1);
        count++;
      }
    packed = ((uint64_t)1 << (count ? count - 1 : 0)) - 1;
  } else {
    layout_of(o, &step, &packed, &perm);
  }
  *word = word_of(dtype->type_num, o->ndim, !PyArray_ISALIGNED(array),
                  !PyArray_ISNOTSWAPPED(array), step, packed, perm);
  return 1;
}

/* A Python number as `type`; 0 where the value may change, which NumPy may warn about. */
static int store_number(PyObject *value, int type, int64_t *place) {
  double number;
  if (PyLong_CheckExact(value)) {
    int overflow;
    long long whole = PyLong_AsLongLongAndOverflow(value, &overflow);
    long long exact = type == NPY_FLOAT ? 1LL << 24 : 1LL << 53;
    if (overflow) return 0;
    if (type == NPY_INT64) {
      *place = whole;
      return 1;
    }
    if (whole > exact || whole < -exact) return 0;
    number = (double)whole;
  } else {
    number = PyFloat_AS_DOUBLE(value);
  }
  if (type == NPY_DOUBLE) {
    memcpy(place, &number, sizeof number);
    return 1;
  }
  if (type != NPY_FLOAT) return 0;
  double size = fabs(number);
  if (size != 0 && !isinf(size) && (size < FLT_MIN || size > FLT_MAX)) return 0;
  float single = (float)number;
  memcpy(place, &single, sizeof single);
  return 1;
}

/* Describe a Python number or a NumPy scalar, as the array of rank 0 that Python makes of it. */
static int look_at_scalar(PyObject *value, int wanted, Operand *o, uint64_t *word, int64_t *place) {
  int type;
  if (PyFloat_CheckExact(value) || PyLong_CheckExact(value)) {
    type = wanted;
    if (type < 0 || (PyFloat_CheckExact(value) && type == NPY_INT64)) return 0;
    if (!store_number(value, type, place)) return 0;
    o->data = (char *)place;
  } else if (Py_IS_TYPE(value, &PyDoubleArrType_Type)) {
    type = NPY_DOUBLE;
    o->data = (char *)&PyArrayScalar_VAL(value, Double);
  } else if (Py_IS_TYPE(value, &PyFloatArrType_Type)) {
    type = NPY_FLOAT;
    o->data = (char *)&PyArrayScalar_VAL(value, Float);
  } else {
    return 0;
  }
  o->shape = o->strides = NULL;
  o->ndim = 0;
  o->itemsize = type == NPY_FLOAT ? 4 : 8;
  *word = word_of(type, 0, 0, 0, 1, 0, 0);
  return 1;
}

static int is(PyObject *name, PyObject *known) {
  return name == known || PyUnicode_Compare(name, known) == 0;
}

/* Take the keywords; 0 if one is none of these. */
static int take_options(PyObject *names, PyObject *const *values, Options *o) {
  Py_ssize_t count = names == NULL ? 0 : PyTuple_GET_SIZE(names);
  o->out = o->where = o->req = NULL;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject *name = PyTuple_GET_ITEM(names, k), *value = values[k];
    if (is(name, name_out))
      o->out = value == Py_None ? NULL : value;
    else if (is(name, name_where))
      o->where = value == Py_True ? NULL : value;
    else if (is(name, name_req))
      o->req = value == Py_None ? NULL : value;
    else
      return 0;
  }
  return 1;
}

/* req=: whether an output is added to; -1 for what Python looks at. */
static int adds(PyObject *req) {
  if (!PyUnicode_CheckExact(req)) return -1;
  return is(req, name_add) ? 1 : is(req, name_write) ? 0 : -1;
}

/* What kind of call it is, by its keywords; 0 if it is one for Python. */
static int sort(const Callable *self, const Options *o, Call *c) {
  c->given = o->out != NULL;
  c->masked = o->where != NULL;
  c->kind = (uint64_t)(c->given | c->masked << 1);
  if (o->req == NULL) return 1;
  int each = PyTuple_CheckExact(o->req);
  if (!c->given || (each && PyTuple_GET_SIZE(o->req) != self->nout)) return 0;
  for (int k = 0; k < self->nout; k++) {
    int added = adds(each ? PyTuple_GET_ITEM(o->req, k) : o->req);
    if (added < 0) return 0;
    c->kind |= (uint64_t)added << (2 + k);
  }
  return 1;
}

static int look_at_output(PyObject *value, int k, Call *c) {
  if (!PyArray_CheckExact(value)) return 0;
  c->target[k] = (PyArrayObject *)value;
  return look_at(c->target[k], &c->out[k], &c->key[c->words++]);
}

/* out=: an array for one output, or a tuple of arrays. */
static int collect_outputs(const Callable *self, PyObject *out, Call *c) {
  if (!PyTuple_CheckExact(out)) return self->nout == 1 && look_at_output(out, 0, c);
  if (PyTuple_GET_SIZE(out) != self->nout) return 0;
  for (int k = 0; k < self->nout; k++)
    if (!look_at_output(PyTuple_GET_ITEM(out, k), k, c)) return 0;
  return 1;
}

static int collect_mask(PyObject *where, Call *c) {
  if (!PyArray_CheckExact(where)) return 0;
  c->where = (PyArrayObject *)where;
  return PyArray_TYPE(c->where) == NPY_BOOL && look_at(c->where, &c->mask, &c->key[c->words++]);
}

/* Describe the operands of a call that is sorted; 0 if it is one for Python. */
static int collect(const Callable *self, PyObject *const *args, const Options *options, Call *c) {
  c->words = self->nin;
  for (int k = 0; k < self->nin; k++) {
    Operand *o = &c->operand[k];
    c->source[k] = PyArray_CheckExact(args[k]) ? (PyArrayObject *)args[k] : NULL;
    if (c->source[k] != NULL) {
      if (!look_at(c->source[k], o, &c->key[k])) return 0;
    } else if (!look_at_scalar(args[k], self->wanted[k], o, &c->key[k], &c->scalar[k])) {
      return 0;
    }
  }
  if (c->masked && !collect_mask(options->where, c)) return 0;
  if (c->given && !collect_outputs(self, options->out, c)) return 0;
  c->key[c->words++] = c->kind;
  return 1;
}

/* -- 2. finding the entry ---------------------------------------------------------------------- */

enum { ONE, DIM, SLICE, PICK, ONLY, JOIN, FIT }; /* as in fastcall.py */

enum { INSTRUCTION = 7 }; /* words: kind, four arguments, the least and most of the extent */

/* An extent that is not always 1 never is. */
static int fits(int64_t extent, int64_t least, int64_t most) {
  return least <= extent && extent <= most && (extent == 1) == (most == 1);
}

static int64_t bytes_of(const Operand *o) {
  int64_t size = o->itemsize;
  for (int d = 0; d < o->ndim; d++) size *= o->shape[d];
  return size;
}

/* The bytes of the largest input, and of all. */
static int64_t most_bytes(const Call *c, int ninputs, int64_t *all) {
  int64_t most = 0;
  *all = 0;
  for (int j = 0; j < ninputs; j++) {
    int64_t size = bytes_of(&c->operand[j]);
    if (size > most) most = size;
    *all += size;
  }
  return most;
}

static int64_t large_inputs(const Call *c, int ninputs) {
  int64_t found = 0;
  for (int j = 0; j < ninputs; j++)
    found |= (int64_t)(bytes_of(&c->operand[j]) >= LARGE_BYTES) << j;
  return found;
}

static Py_ssize_t start_of(const int64_t *step, const int64_t *extent, Py_ssize_t *length) {
  Py_ssize_t size = extent[step[1]];
  if (step[0] == PICK) return step[2] + (step[2] < 0 ? size : 0);
  Py_ssize_t start = step[2], stop = step[3];
  *length = PySlice_AdjustIndices(size, &start, &stop, step[4]);
  return start;
}

static int64_t product(const Call *c, const int64_t **code) {
  int64_t size = 1;
  for (int64_t count = *(*code)++; count > 0; count--) size *= c->extent[*(*code)++];
  return size;
}

/* Whether outputs should go past the caches, as in runtime.py; *code moves behind the lines. */
static int outgrows_caches(const Call *c, const int64_t **code) {
  const int64_t *at = *code + 1;
  double total = 0;
  int long_lines = 1;
  for (int64_t count = *at++; count > 0; count--) {
    const int64_t itemsize = *at++, least = *at++;
    long_lines &= itemsize * product(c, &at) >= least;
    total += (double)itemsize * (double)product(c, &at);
  }
  *code = at;
  return long_lines && total >= large_bytes;
}

/* Whether lines that are read across are more than the first cache holds, as in runtime.py; *code
 * moves behind what tells of them. */
static int crosses(const Call *c, const int64_t **code) {
  const int64_t *at = *code + 1;
  int crossed = 0;
  for (int64_t count = *at++; count > 0; count--) {
    const Operand *o = &c->operand[*at++];
    int64_t step = o->strides[*at++], apart = step & -step;
    int64_t held = *at++ / (apart < 64 ? 64 : apart);
    crossed |= product(c, &at) > (held < 8 ? 8 : held);
  }
  *code = at;
  return crossed;
}

/* Bits of the dimensions of the mask that are 1. */
static int64_t ones_of_mask(const Call *c) {
  int64_t ones = 0;
  for (int d = 0; c->masked && d < c->mask.ndim; d++) ones |= (int64_t)(c->mask.shape[d] == 1) << d;
  return ones;
}

/* Run the extent program, as maps.run_extents: 1 if it is this entry's call, 0 if sizes do not fit
 * together, are 1 in other places, or beyond what the kernel relies on.  Then *code stands behind
 * the program and what tells of sizes. */
static int match(const Entry *e, Call *c, const int64_t **code) {
  const int64_t *step = e->code + 1;
  for (int64_t k = 0; k < e->code[0]; k++, step += INSTRUCTION) {
    int64_t value = 1, a, b;
    Py_ssize_t length;
    switch (step[0]) {
      case ONE:
        break;
      case DIM:
        value = c->operand[step[1]].shape[step[2]];
        break;
      case SLICE:
        start_of(step, c->extent, &length);
        value = length;
        break;
      case PICK:
        a = c->extent[step[1]];
        if (step[2] < -a || step[2] >= a) return 0;
        break;
      default:
        a = c->extent[step[1]];
        b = step[0] == ONLY ? 1 : c->extent[step[2]];
        value = step[0] == JOIN && b == 1 ? a : b;
        if (a != value && a != 1) return 0;
    }
    if (!fits(value, step[5], step[6])) return 0;
    c->extent[k] = value;
  }
  if (ones_of_mask(c) != *step++) return 0;
  *code = step + 2;
  if (step[0] || step[1]) { /* it depends on the size of the inputs */
    int64_t all, most = most_bytes(c, e->ninputs - c->masked, &all);
    if (step[0] && most >= FEW) return 0;
    int from = (double)most >= large_bytes ? MEMORY : all > second_bytes ? THIRD : SECOND;
    if (step[1] && step[1] != from) return 0;
  }
  if (outgrows_caches(c, code) != step[2]) return 0;
  int crossed = (int)**code;
  return crosses(c, code) == crossed;
}

static Entry *to_front(Callable *self, int k) {
  Entry *e = self->entry[k];
  if (k > 0) memmove(self->entry + 1, self->entry, (size_t)k * sizeof *self->entry);
  return self->entry[0] = e;
}

/* The entry for a call, moved to the front, or NULL. */
static Entry *find(Callable *self, Call *c, const int64_t **code) {
  for (int k = 0; k < self->used; k++) {
    Entry *e = self->entry[k];
    if (e->words != c->words || e->key[0] != c->key[0]) continue;
    if (memcmp(e->key, c->key, (size_t)c->words * sizeof *c->key) != 0) continue;
    uint64_t word;
    for (int j = 0; j < PyTuple_GET_SIZE(e->captured); j++)
      look_at((PyArrayObject *)PyTuple_GET_ITEM(e->captured, j), &c->operand[self->nin + j], &word);
    if (c->masked) c->operand[e->ninputs - 1] = c->mask;
    if (match(e, c, code)) return to_front(self, k);
  }
  return NULL;
}

static void drop(Found *f) {
  if (f == NULL || --f->uses > 0) return;
  for (int64_t k = 0; k < f->nseen; k++) Py_XDECREF(f->seen[k].dtype);
  PyMem_Free(f);
}

static void release(Entry *e) {
  if (--e->uses > 0) return;
  drop(e->found);
  Py_DECREF(e->captured);
  Py_DECREF(e->dtypes);
  Py_DECREF(e->keep);
  PyMem_Free(e->code);
  PyMem_Free(e);
}

/* -- 3. running the kernel --------------------------------------------------------------------- */

/* Whether an accumulator without identity meets an empty axis; *code moves behind the checks. */
static int meets_nothing(const Call *c, const int64_t **code) {
  const int64_t *at = *code;
  int found = 0;
  for (int64_t count = *at++; count > 0; count--)
    for (int64_t n = *at++; n > 0; n--) found |= c->extent[*at++] == 0;
  *code = at;
  return found;
}

/* The bytes that an array lies within; none if it is empty. */
static void bounds(const Operand *o, char **low, char **high) {
  *low = *high = o->data;
  for (int d = 0; d < o->ndim; d++) {
    if (o->shape[d] == 0) {
      *high = *low = o->data;
      return;
    }
    npy_intp reach = (o->shape[d] - 1) * o->strides[d];
    *(reach < 0 ? low : high) += reach;
  }
  *high += o->itemsize;
}

static int may_overlap(const Operand *a, const Operand *b) {
  char *a_low, *a_high, *b_low, *b_high;
  bounds(a, &a_low, &a_high);
  bounds(b, &b_low, &b_high);
  return a_low < b_high && b_low < a_high && a_low < a_high && b_low < b_high;
}

/* Whether two operands with the same word of the key are the same elements in the same order. */
static int same(const Operand *a, const Operand *b) {
  size_t bytes = (size_t)a->ndim * sizeof *a->shape;
  return a->data == b->data && memcmp(a->shape, b->shape, bytes) == 0 &&
         memcmp(a->strides, b->strides, bytes) == 0;
}

/* Whether output k as given may be written to; if not, Python says why, or works on a copy. */
static int usable(const Call *c, int k, int nin, int ninputs, const npy_intp *shape, int ndim,
                  int64_t in_place) {
  const Operand *o = &c->out[k];
  int flags = PyArray_FLAGS(c->target[k]);
  /* bit 31 is NumPy's private NPY_ARRAY_WARN_ON_WRITE */
  if (o->ndim != ndim || !(flags & NPY_ARRAY_WRITEABLE) || flags < 0) return 0;
  for (int d = 0; d < ndim; d++) {
    if (o->shape[d] != shape[d]) return 0;
    if (o->strides[d] == 0 && shape[d] > 1 && bytes_of(o) > 0) return 0;
  }
  for (int j = 0; j < ninputs; j++) {
    const Operand *a = &c->operand[j];
    if (may_overlap(o, a) &&
        !(j < nin && in_place >> j & 1 && c->key[nin + c->masked + k] == c->key[j] && same(o, a)))
      return 0;
  }
  for (int j = 0; j < k; j++)
    if (may_overlap(o, &c->out[j])) return 0;
  return 1;
}

/* Whether the mask stretches to an output of this shape; if not, Python says why. */
static int stretches(const Operand *mask, const npy_intp *shape, int ndim) {
  for (int d = mask->ndim - 1, at = ndim - 1; d >= 0; d--, at--)
    if (at < 0 || (mask->shape[d] != 1 && mask->shape[d] != shape[at])) return 0;
  return 1;
}

/* NumPy's way (NEP 49) to let arrays own memory from elsewhere. */
static _Thread_local size_t place; /* of a page, where the next array begins */

static void *take(void *context, size_t bytes) {
  (void)context;
  return elemc_take(bytes, place);
}

static void *take_zeros(void *context, size_t count, size_t size) {
  size_t bytes;
  void *data = __builtin_mul_overflow(count, size, &bytes) ? NULL : take(context, bytes);
  return data == NULL ? NULL : memset(data, 0, bytes);
}

static void give(void *context, void *data, size_t bytes) {
  (void)context, (void)bytes;
  if (data != NULL) elemc_give(data);
}

static void *take_more(void *context, void *data, size_t bytes) {
  if (data != NULL && elemc_size(data) >= bytes) return data;
  void *more = take(context, bytes);
  if (more != NULL && data != NULL) {
    memcpy(more, data, elemc_size(data));
    give(context, data, 0);
  }
  return more;
}

static PyDataMem_Handler large_memory = {"elemc", 1, {NULL, take, take_zeros, take_more, give}};
static PyObject *large_handler; /* large_memory, as NumPy takes it */

/* Where in a page a large output should begin: `behind` a multiple of `unit` bytes.
 *
 * As a large input does, for loops begin with what is left of a line: then all of them read and
 * write whole lines.  What goes past the caches in lines begins with one.  But where calls come
 * between vectors that fill a line each, such lines are claimed one after the other, and slowly if
 * the memory is busy: what functions fill begins half a line behind.  And as processors hold what
 * they load against the stores under way by the last 12 bits of addresses alone, no large input
 * should be just behind it. */
static size_t place_beside(const Call *c, size_t behind, size_t unit) {
  const size_t page = 4096;
  const int64_t large = c->found->large;
  size_t best = behind, least = page;
  for (int j = 0; large >> j != 0; j++) {
    if ((large >> j & 1) == 0) continue;
    const size_t here = (((size_t)c->operand[j].data - behind) / unit * unit + behind) % page;
    size_t near = 0;
    for (int k = 0; large >> k != 0; k++) {
      const size_t ahead = (here - (size_t)c->operand[k].data) % page;
      if (large >> k & 1 && ahead > 0 && ahead < page / 2 && page / 2 - ahead > near)
        near = page / 2 - ahead;
    }
    if (near < least) best = here, least = near;
  }
  return best;
}

/* A new output of a call; `order` has its dimensions from the outermost to the innermost, or is
 * NULL; `begins`: see place_beside. */
static PyArrayObject *allocate(const Call *c, PyArray_Descr *dtype, const npy_intp *shape, int ndim,
                               const int64_t *order, const int64_t *begins) {
  npy_intp strides[NPY_MAXDIMS], step = PyDataType_ELSIZE(dtype);
  if (order != NULL)
    for (int k = ndim - 1; k >= 0; k--) {
      npy_intp size = shape[order[k]];
      strides[order[k]] = step;
      if (size != 0 && __builtin_mul_overflow(step, size, &step)) break; /* NumPy refuses it */
    }
  double bytes = (double)PyDataType_ELSIZE(dtype);
  for (int d = 0; d < ndim; d++) bytes *= (double)shape[d];
  PyObject *before = NULL;
  if (bytes >= LARGE_BYTES) {
    place = place_beside(c, (size_t)begins[0], (size_t)begins[1]);
    before = PyDataMem_SetHandler(large_handler);
    if (before == NULL) return NULL;
  }
  Py_INCREF(dtype);
  PyObject *made = PyArray_NewFromDescr(&PyArray_Type, dtype, ndim, shape,
                                        order == NULL ? NULL : strides, NULL, 0, NULL);
  if (before != NULL) {
    PyObject *mine = PyDataMem_SetHandler(before);
    Py_DECREF(before);
    if (mine == NULL) Py_CLEAR(made);
    Py_XDECREF(mine);
  }
  return (PyArrayObject *)made;
}

/* Outputs, checked or new: 1, 0 if Python has to look at them, -1 and an error.
 * A new output of rank 0 is a place in `scalars`, as it comes back as a scalar.  Under a mask, new
 * ones begin with zeros. */
static int outputs(const Callable *self, const Entry *e, Call *c, const int64_t **code, int check,
                   PyObject **results, npy_clongdouble *scalars) {
  const int64_t *at = *code;
  for (int k = 0; k < self->nout; k++) {
    npy_intp shape[NPY_MAXDIMS];
    int64_t in_place = *at++;
    const int64_t *begins = at;
    at += 2;
    int ndim = (int)*at++;
    for (int d = 0; d < ndim; d++) shape[d] = c->found->extent[*at++];
    const int64_t *order = *at++ ? at : NULL;
    at += order == NULL ? 0 : ndim;
    Operand *o = &c->operand[e->ninputs + k];
    if (check && c->masked && !stretches(&c->mask, shape, ndim)) return 0;
    if (c->given) {
      if (!check) continue;
      if (!usable(c, k, self->nin, e->ninputs, shape, ndim, in_place)) return 0;
      *o = c->out[k];
      continue;
    }
    if (ndim == 0) {
      o->data = memset(&scalars[k], 0, sizeof scalars[k]);
      o->ndim = 0;
      continue;
    }
    PyArrayObject *made =
        allocate(c, (PyArray_Descr *)PyTuple_GET_ITEM(e->dtypes, k), shape, ndim, order, begins);
    if (made == NULL) return -1;
    if (c->masked) memset(PyArray_BYTES(made), 0, (size_t)PyArray_NBYTES(made));
    results[k] = (PyObject *)made;
    o->data = PyArray_BYTES(made);
    o->strides = PyArray_STRIDES(made);
  }
  *code = at;
  return 1;
}

/* Begin what follows from a call's shapes, where its entry had that if no running call reads it;
 * NULL, and an error, if there is no memory. */
static Found *begin(Entry *e, const Call *c) {
  Found *f = e->found;
  e->found = NULL;
  if (f != NULL && f->uses > 1) {
    drop(f);
    f = NULL;
  }
  if (f == NULL) {
    /* of an extent the code has 7 words, of a pointer and a phase at least 3, else at least 1 or 2:
     * more than follow from it */
    const int64_t nseen = e->words + PyTuple_GET_SIZE(e->captured);
    f = PyMem_Calloc(1, sizeof *f + e->bytes + (size_t)nseen * sizeof *f->seen);
    if (f == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    f->uses = 1;
    f->nseen = nseen;
  }
  f->extents = e->code[0];
  f->extent = (int64_t *)(void *)(f->seen + f->nseen);
  memcpy(f->extent, c->extent, (size_t)f->extents * sizeof *f->extent);
  f->large = large_inputs(c, e->ninputs);
  return f;
}

/* Sizes, pointers and strides, as runtime.launch. */
static void bind(const Call *c, const Entry *e, const int64_t **code) {
  const int64_t *at = *code, *program = e->code + 1;
  Found *f = c->found;
  Py_ssize_t length;
  f->sizes = *at++;
  f->n = f->extent + f->extents;
  for (int64_t k = 0; k < f->sizes; k++) {
    int64_t unit = *at++;
    if (unit > 0) /* how many units a product of extents has */
      f->n[k] = (product(c, &at) + unit - 1) / unit;
    else if (unit < 0) { /* the product, or a strip of so many */
      const int64_t most = product(c, &at);
      f->n[k] = most < -unit ? most : -unit;
    } else
      f->n[k] = start_of(program + INSTRUCTION * *at++, c->extent, &length);
  }
  f->pointers = *at++;
  f->from = f->n + f->sizes;
  f->offset = f->from + f->pointers;
  int64_t *s = f->s = f->offset + f->pointers;
  for (int64_t k = 0; k < f->pointers; k++) {
    const Operand *o = &c->operand[f->from[k] = *at++];
    f->offset[k] = 0;
    for (int64_t count = *at++; count > 0; count--, at += 3) {
      npy_intp start = at[2] < 0 ? 1 : start_of(program + INSTRUCTION * at[2], c->extent, &length);
      f->offset[k] += o->strides[at[0]] * at[1] * start;
    }
    for (int64_t count = *at++; count > 0; count--) {
      int64_t stride = 0;
      for (int64_t terms = *at++; terms > 0; terms--, at += 2) stride += o->strides[at[0]] * at[1];
      *s++ = stride;
    }
  }
  f->length = s;
  *code = at;
}

/* What the phases are worth, in nanoseconds: for each, a sum over its loops. */
static void estimate(Found *f, const int64_t **code) {
  const int64_t *at = *code;
  f->most = f->all = 0;
  f->phases = *at++;
  f->least = f->length + f->phases;
  f->work = (double *)(void *)(f->least + f->phases);
  for (int64_t k = 0; k < f->phases; k++) {
    int64_t axis = *at++;
    f->length[k] = axis < 0 ? 1 : f->n[axis];
    f->least[k] = *at++;
    f->work[k] = 0;
    for (int64_t terms = *at++; terms > 0; terms--) {
      double part = (double)*at++ / weight;
      for (int64_t count = *at++; count > 0; count--) part *= (double)f->n[*at++];
      f->work[k] += part;
    }
    f->all += f->work[k];
    if (f->length[k] > 1 && f->work[k] > f->most) f->most = f->work[k];
  }
  *code = at;
}

/* -- calls with the shapes and strides of the one before --------------------------------------- */

static void see(Seen *seen, const Operand *o, PyArrayObject *array) {
  char *low, *high;
  Py_XSETREF(seen->dtype, array == NULL ? NULL : (PyArray_Descr *)Py_NewRef(PyArray_DESCR(array)));
  if (array == NULL) return;
  bounds(o, &low, &high);
  seen->low = low - o->data, seen->high = high - o->data;
  seen->ndim = o->ndim;
  seen->flags = PyArray_FLAGS(array);
  memcpy(seen->shape, o->shape, (size_t)o->ndim * sizeof *o->shape);
  memcpy(seen->strides, o->strides, (size_t)o->ndim * sizeof *o->strides);
}

/* Keep what this call found for the next, if there is room for it.  To forget a dtype may run other
 * code, which may call: the entry has what was found when all is written, and forgets at last. */
static void keep(Entry *e, const Call *c, int nin, int nout) {
  Seen *all = c->found->seen;
  int ncaptured = (int)PyTuple_GET_SIZE(e->captured);
  for (int k = nin; k < e->ninputs; k++)
    if (c->operand[k].ndim > RANK) return;
  for (int k = 0; k < nin; k++) see(&all[k], &c->operand[k], c->source[k]);
  for (int k = 0; k < ncaptured; k++)
    see(&all[nin + k], &c->operand[nin + k], (PyArrayObject *)PyTuple_GET_ITEM(e->captured, k));
  if (c->masked) see(&all[e->ninputs - 1], &c->mask, c->where);
  for (int k = 0; c->given && k < nout; k++) {
    Seen *seen = &all[e->ninputs + k];
    see(seen, &c->out[k], c->target[k]);
    seen->same = 0;
    for (int j = 0; j < nin; j++)
      if (c->source[j] != NULL && c->key[j] == c->key[nin + c->masked + k] &&
          same(&c->operand[j], &c->out[k]))
        seen->same |= (uint64_t)1 << j;
  }
  Found *before = e->found;
  c->found->uses++;
  e->found = c->found;
  drop(before);
}

/* Whether a value is an array like the one seen; then *data is where it is. */
static int like(const Seen *seen, PyObject *value, char **data) {
  enum { MATTER = NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE | INT_MIN }; /* as in usable */
  PyArrayObject *array = (PyArrayObject *)value;
  if (!PyArray_CheckExact(value) || PyArray_DESCR(array) != seen->dtype ||
      PyArray_NDIM(array) != seen->ndim || (PyArray_FLAGS(array) ^ seen->flags) & MATTER)
    return 0;
  const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
  npy_intp other = 0;
  for (int d = 0; d < seen->ndim; d++)
    other |= (shape[d] ^ seen->shape[d]) | (strides[d] ^ seen->strides[d]);
  *data = PyArray_BYTES(array);
  return other == 0;
}

static int apart(const Seen *a, const char *a_data, const Seen *b, const char *b_data) {
  return a_data + a->high <= b_data + b->low || b_data + b->high <= a_data + a->low;
}

/* Whether this is again a call like the entry's latest, its outputs apart from its inputs. */
static int again(const Callable *self, Entry *e, PyObject *const *args, PyObject *where,
                 PyObject *const *outs, Call *c) {
  int nin = self->nin, ninputs = e->ninputs, last = ninputs - c->masked;
  const Seen *seen = e->found->seen;
  uint64_t word;
  for (int k = 0; k < nin; k++) {
    if (seen[k].dtype != NULL ? !like(&seen[k], args[k], &c->operand[k].data)
                              : !look_at_scalar(args[k], self->wanted[k], &c->operand[k], &word,
                                                &c->scalar[k]) || word != e->key[k])
      return 0;
  }
  for (int k = nin; k < last; k++)
    if (!like(&seen[k], PyTuple_GET_ITEM(e->captured, k - nin), &c->operand[k].data)) return 0;
  if (c->masked && !like(&seen[last], where, &c->operand[last].data)) return 0;
  for (int k = ninputs; c->given && k < ninputs + self->nout; k++) {
    if (!like(&seen[k], outs[k - ninputs], &c->operand[k].data)) return 0;
    c->target[k - ninputs] = (PyArrayObject *)outs[k - ninputs];
    for (int j = 0; j < k; j++) {
      char *a = c->operand[j].data, *b = c->operand[k].data;
      int fine = seen[k].same >> j & 1 ? a == b : apart(&seen[j], a, &seen[k], b);
      if (seen[j].dtype != NULL && !fine) return 0;
    }
  }
  return 1;
}

/* The entry whose latest call was like this one, moved to the front, or NULL. */
static Entry *repeated(Callable *self, PyObject *const *args, const Options *options, Call *c) {
  PyObject *const *outs = &options->out;
  if (c->given && PyTuple_CheckExact(options->out)) {
    if (PyTuple_GET_SIZE(options->out) != self->nout) return NULL;
    outs = PySequence_Fast_ITEMS(options->out);
  } else if (c->given && self->nout != 1) {
    return NULL;
  }
  for (int k = 0; k < self->used; k++) {
    Entry *e = self->entry[k];
    if (e->found == NULL || e->key[e->words - 1] != c->kind) continue;
    if (!again(self, e, args, options->where, outs, c)) continue;
    c->found = e->found;
    c->found->uses++;
    return to_front(self, k);
  }
  return NULL;
}

static int64_t rounded(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

/* Lay out the kernel's buffers, those that threads do not share once for each, in `local`, or in
 * *heap, which the caller gives back: 0, or -1 and an error. */
static int buffers(Call *c, const int64_t *at, int threads, char *local, void **heap) {
  int64_t count = *at++, total = 0, where[PLACES], own[PLACES];
  if (threads > 1) total = rounded((int64_t)sizeof *c->w * count * threads);
  for (int64_t k = 0; k < count; k++) {
    int64_t bytes = *at++, shared = *at++, length = 1;
    int too_long = 0;
    for (int64_t places = *at++; places > 0; places--)
      too_long |= __builtin_mul_overflow(length, c->found->n[*at++], &length);
    too_long |= __builtin_mul_overflow(length > 0 ? length : 1, bytes, &bytes);
    where[k] = total;
    too_long |= bytes > INT64_MAX / MOST_THREADS;
    bytes = too_long ? 0 : rounded(bytes);
    own[k] = shared ? 0 : bytes;
    too_long |= __builtin_add_overflow(total, shared ? bytes : bytes * threads, &total);
    if (too_long) {
      PyErr_NoMemory();
      return -1;
    }
  }
  char *base = local;
  if (total > LOCAL_BYTES) {
    base = *heap = elemc_take((size_t)total, 0);
    if (base == NULL) {
      PyErr_NoMemory();
      return -1;
    }
  }
  c->w = threads > 1 ? (char **)(void *)base : c->own_w;
  for (int t = 0; t < threads; t++)
    for (int64_t k = 0; k < count; k++) c->w[t * count + k] = base + where[k] + t * own[k];
  return 0;
}

static int phases(const Call *c, Kernel kernel, int threads, int64_t buffers) {
  const Found *f = c->found;
  PyThreadState *state = f->all > RELEASE || threads > 1 ? PyEval_SaveThread() : NULL;
  int status = 0;
  for (int64_t k = 0; k < f->phases; k++) {
    int64_t decided = 0;
    status |= threads == 1 ? kernel(k, 0, f->length[k], c->p, f->s, f->n, &decided, c->w)
                           : elemc_run(kernel, k, f->length[k], f->least[k], f->work[k], threads,
                                       c->p, f->s, f->n, c->w, buffers);
  }
  if (state != NULL) PyEval_RestoreThread(state);
  return status;
}

/* The next results in tuples within tuples, or as they are where there is none. */
static PyObject *arranged(PyObject *structure, PyObject **results, int *next) {
  if (structure == Py_None) {
    PyObject *one = results[*next];
    results[(*next)++] = NULL;
    return one;
  }
  PyObject *all = PyTuple_New(PyTuple_GET_SIZE(structure));
  for (Py_ssize_t k = 0; all != NULL && k < PyTuple_GET_SIZE(all); k++) {
    PyObject *part = arranged(PyTuple_GET_ITEM(structure, k), results, next);
    if (part == NULL) Py_CLEAR(all);
    else PyTuple_SET_ITEM(all, k, part);
  }
  return all;
}

/* The results as the caller gets them; takes over the references. */
static PyObject *answer(const Callable *self, PyObject **results) {
  int next = 0;
  if (self->structure == Py_None || PyTuple_Check(self->structure))
    return arranged(self->structure, results, &next);
  PyObject *all = PyList_New(self->nout);
  if (all == NULL) return NULL;
  for (; next < self->nout; next++) {
    PyList_SET_ITEM(all, next, results[next]);
    results[next] = NULL;
  }
  PyObject *answer = PyObject_CallOneArg(self->structure, all);
  Py_DECREF(all);
  return answer;
}

/* What the caller gets for outputs that it gave, and for new ones of rank 0. */
static int finish(const Callable *self, const Entry *e, const Call *c, PyObject **results,
                  npy_clongdouble *scalars) {
  for (int k = 0; k < self->nout; k++) {
    if (c->given) {
      results[k] = Py_NewRef((PyObject *)c->target[k]);
    } else if (results[k] == NULL) {
      PyArray_Descr *dtype = (PyArray_Descr *)PyTuple_GET_ITEM(e->dtypes, k);
      results[k] = PyArray_Scalar(&scalars[k], dtype, NULL);
      if (results[k] == NULL) return -1;
    }
  }
  return 0;
}

/* Run an entry's kernel: 1 and *result, which is NULL beside an error; 0 if Python has to.
 * `code` tells what comes after the extents; NULL: what follows from it is found. */
static int run(Callable *self, Entry *e, Call *c, const int64_t *code, PyObject **result) {
  PyObject *results[OPERANDS];
  npy_clongdouble scalars[OPERANDS];
  _Alignas(64) char local[LOCAL_BYTES];
  void *heap = NULL;
  int done, status = 0, first = code != NULL;
  *result = NULL;
  if (first) {
    if (meets_nothing(c, &code)) return 0;
    if ((c->found = begin(e, c)) == NULL) return 1;
    e->outputs = code;
  }
  for (int k = 0; k < self->nout; k++) results[k] = NULL;
  code = e->outputs;
  done = outputs(self, e, c, &code, first, results, scalars);
  if (done == 1) {
    if (first) {
      bind(c, e, &code);
      estimate(c->found, &code);
      e->buffers = code;
      keep(e, c, self->nin, self->nout);
    }
    const Found *f = c->found;
    for (int64_t k = 0; k < f->pointers; k++) c->p[k] = c->operand[f->from[k]].data + f->offset[k];
    int threads = f->most < SMALL ? 1 : elemc_threads(f->most);
    if (buffers(c, e->buffers, threads, local, &heap) == 0) {
      status = phases(c, e->kernel, threads, *e->buffers);
      if (heap != NULL) elemc_give(heap);
      self->hits++;
      if (status != 0)
        *result = PyObject_CallFunction(fail, "iO", status, self); /* raises */
      else if (finish(self, e, c, results, scalars) == 0)
        *result = answer(self, results);
    }
  }
  drop(c->found);
  for (int k = 0; k < self->nout; k++) Py_XDECREF(results[k]);
  return done != 0;
}

/* -- the type ---------------------------------------------------------------------------------- */

/* `self._call` with these arguments. */
static PyObject *call_python(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *names) {
  size_t all = (size_t)nargs + (names == NULL ? 0 : (size_t)PyTuple_GET_SIZE(names));
  PyObject **with_self = PyMem_Malloc((all + 1) * sizeof *with_self);
  if (with_self == NULL) return PyErr_NoMemory();
  with_self[0] = self;
  for (size_t k = 0; k < all; k++) with_self[k + 1] = args[k];
  PyObject *result = PyObject_VectorcallMethod(name_call, with_self, (size_t)nargs + 1, names);
  PyMem_Free(with_self);
  return result;
}

static PyObject *serve(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *names) {
  Callable *self = (Callable *)function;
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  PyObject *result;
  Options options;
  const int64_t *code;
  Call c;
  if (nargs == self->nin && take_options(names, args + nargs, &options) &&
      sort(self, &options, &c)) {
    Entry *e = repeated(self, args, &options, &c);
    if (e != NULL)
      code = NULL;
    else if (collect(self, args, &options, &c))
      e = find(self, &c, &code);
    if (e != NULL) {
      e->uses++;
      int done = run(self, e, &c, code, &result);
      release(e);
      if (done) return result;
    }
  }
  return call_python(function, args, nargs, names);
}

/* Numbers are converted, kernels run, and what is compiled outlives the call, in the usual modes. */
static PyObject *call(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *names) {
  fenv_t modes;
  const int unusual = elemc_usual_modes(&modes);
  PyObject *result = serve(function, args, nargsf, names);
  if (unusual) fesetenv(&modes);
  return result;
}

/* Arguments of `_lacks`, `_key` and `_add`: a tuple of input arrays, and another of out=, where=
 * and req= as in a call. */
static int collect_arrays(const Callable *self, PyObject *arrays, PyObject *rest, Call *c) {
  if (!PyTuple_Check(arrays) || PyTuple_GET_SIZE(arrays) != self->nin) return 0;
  PyObject *out = PyTuple_GET_ITEM(rest, 0), *where = PyTuple_GET_ITEM(rest, 1),
           *req = PyTuple_GET_ITEM(rest, 2);
  Options options = {out == Py_None ? NULL : out, where == Py_True ? NULL : where,
                     req == Py_None ? NULL : req};
  return sort(self, &options, c) &&
         collect(self, PySequence_Fast_ITEMS(arrays), &options, c);
}

PyDoc_STRVAR(lacks_doc, "_lacks(arrays, rest): whether an entry for this call can be added.");

static PyObject *lacks(PyObject *self, PyObject *args) {
  PyObject *arrays, *rest;
  const int64_t *code;
  Call c;
  if (!PyArg_ParseTuple(args, "OO!", &arrays, &PyTuple_Type, &rest)) return NULL;
  return PyBool_FromLong(collect_arrays((Callable *)self, arrays, rest, &c) &&
                         find((Callable *)self, &c, &code) == NULL);
}

PyDoc_STRVAR(key_doc, "_key(arrays, rest): what is alike in calls that one entry may serve, or None.");

static PyObject *key(PyObject *self, PyObject *args) {
  PyObject *arrays, *rest;
  Call c;
  if (!PyArg_ParseTuple(args, "OO!", &arrays, &PyTuple_Type, &rest)) return NULL;
  if (!collect_arrays((Callable *)self, arrays, rest, &c)) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize((char *)c.key, c.words * (Py_ssize_t)sizeof *c.key);
}

PyDoc_STRVAR(add_doc, "_add(arrays, rest, address, code, captured, dtypes, keep): add an entry.");

static PyObject *add(PyObject *callable, PyObject *args) {
  Callable *self = (Callable *)callable;
  PyObject *arrays, *rest, *captured, *dtypes, *keep;
  unsigned long long address;
  const char *code;
  Py_ssize_t bytes;
  Call c;
  if (!PyArg_ParseTuple(args, "OO!Ky#O!O!O", &arrays, &PyTuple_Type, &rest, &address, &code, &bytes,
                        &PyTuple_Type, &captured, &PyTuple_Type, &dtypes, &keep))
    return NULL;
  if (!collect_arrays(self, arrays, rest, &c)) Py_RETURN_NONE;
  Entry *e = PyMem_Calloc(1, sizeof *e);
  int64_t *copy = PyMem_Malloc((size_t)bytes);
  if (e == NULL || copy == NULL) {
    PyMem_Free(e);
    PyMem_Free(copy);
    return PyErr_NoMemory();
  }
  memcpy(copy, code, (size_t)bytes);
  memcpy(e->key, c.key, (size_t)c.words * sizeof *c.key);
  e->uses = 1;
  e->kernel = (Kernel)(uintptr_t)address;
  e->ninputs = self->nin + (int)PyTuple_GET_SIZE(captured) + c.masked;
  e->words = c.words;
  e->code = copy;
  e->bytes = (size_t)bytes;
  e->captured = Py_NewRef(captured);
  e->dtypes = Py_NewRef(dtypes);
  e->keep = Py_NewRef(keep);
  Entry *dropped = self->used == ENTRIES ? self->entry[ENTRIES - 1] : NULL;
  self->used += dropped == NULL;
  memmove(self->entry + 1, self->entry, (size_t)(self->used - 1) * sizeof *self->entry);
  self->entry[0] = e;
  if (dropped != NULL) release(dropped);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(ready_doc, "_ready(wanted, nout, structure): calls may find entries now.");

static PyObject *ready(PyObject *callable, PyObject *args) {
  Callable *self = (Callable *)callable;
  PyObject *wanted, *structure;
  int nout;
  if (!PyArg_ParseTuple(args, "O!iO", &PyTuple_Type, &wanted, &nout, &structure))
    return NULL;
  if (structure != Py_None && !PyTuple_Check(structure) && !PyCallable_Check(structure))
    return PyErr_Format(PyExc_TypeError, "no structure: %R", structure);
  Py_ssize_t nin = PyTuple_GET_SIZE(wanted);
  if (nin < 1 || nout < 1 || nin > OPERANDS || nout > OPERANDS || nin + nout > OPERANDS)
    Py_RETURN_NONE; /* Python serves all calls */
  for (Py_ssize_t k = 0; k < nin; k++) {
    self->wanted[k] = (int)PyLong_AsLong(PyTuple_GET_ITEM(wanted, k));
    if (self->wanted[k] == -1 && PyErr_Occurred()) return NULL;
  }
  Py_XSETREF(self->structure, Py_NewRef(structure));
  self->nout = nout;
  self->nin = (int)nin;
  Py_RETURN_NONE;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *names) {
  (void)args, (void)names;
  Callable *self = (Callable *)type->tp_alloc(type, 0);
  if (self != NULL) {
    self->vectorcall = call;
    self->nin = -1;
  }
  return (PyObject *)self;
}

static int traverse(PyObject *callable, visitproc visit, void *arg) {
  Callable *self = (Callable *)callable;
  Py_VISIT(self->structure);
  for (int k = 0; k < self->used; k++) {
    if (self->entry[k]->uses > 1) continue; /* a running call holds it as well */
    Py_VISIT(self->entry[k]->captured);
    Py_VISIT(self->entry[k]->dtypes);
    Py_VISIT(self->entry[k]->keep);
  }
  return 0;
}

static int clear(PyObject *callable) {
  Callable *self = (Callable *)callable;
  self->nin = -1;
  Py_CLEAR(self->structure);
  while (self->used > 0) release(self->entry[--self->used]);
  return 0;
}

static void dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"_ready", ready, METH_VARARGS, ready_doc},
    {"_lacks", lacks, METH_VARARGS, lacks_doc},
    {"_key", key, METH_VARARGS, key_doc},
    {"_add", add, METH_VARARGS, add_doc},
    {0},
};

static PyMemberDef members[] = {
    {"_hits", T_PYSSIZET, offsetof(Callable, hits), READONLY, "Calls that needed no Python."},
    {0},
};

static PyTypeObject CallableType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "elemc_callable.Callable",
    .tp_doc = "The call path in C; a subclass has `_call`, which serves all other calls.",
    .tp_basicsize = sizeof(Callable),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = new,
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Callable, vectorcall),
    .tp_methods = methods,
    .tp_members = members,
};

/* -- functions traced per kinds of arguments ---------------------------------------------------- */

/* What `elemc.compile` makes: it keeps one function per dtypes and ranks of its arguments, and per
 * value of those that are settings.  Calls whose arguments are of kinds met before go to that
 * function; all others are left to `_call`. */
typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *known; /* dict: the kinds as bytes -> what to call (forward) */
  PyObject *parameters; /* tuple: the names of arguments; None of those that may not be given by it */
  uint64_t statics; /* bits of the arguments that are settings, whatever they are */
  PyObject *latest; /* what is known for the kinds of the latest call, or NULL: */
  Py_ssize_t count;
  uint64_t kinds[OPERANDS];
} Dispatcher;

static PyTypeObject DispatcherType;

/* Dtype, rank, and whether it is a Python number, whose dtype gives way; 0 if it is no such thing. */
static uint64_t kind_of(PyObject *value) {
  enum { NUMBER = 1 << 15 };
  if (PyArray_CheckExact(value)) {
    int type = PyArray_TYPE((PyArrayObject *)value);
    int known = (unsigned)type < NPY_OBJECT || type == NPY_HALF;
    return known ? (uint64_t)((type + 1) << 8 | PyArray_NDIM((PyArrayObject *)value)) : 0;
  }
  if (PyFloat_CheckExact(value)) return NUMBER | (NPY_DOUBLE + 1) << 8;
  if (PyLong_CheckExact(value)) {
    int overflow;
    PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? 0 : NUMBER | (NPY_INT64 + 1) << 8;
  }
  if (Py_IS_TYPE(value, &PyDoubleArrType_Type)) return (NPY_DOUBLE + 1) << 8;
  if (Py_IS_TYPE(value, &PyFloatArrType_Type)) return (NPY_FLOAT + 1) << 8;
  return 0;
}

/* The kinds of arguments: of settings, and of what is nothing else, the addresses, which are larger. */
static void kinds_of(PyObject *const *args, Py_ssize_t nargs, uint64_t statics, uint64_t *kinds) {
  for (Py_ssize_t k = 0; k < nargs; k++) {
    kinds[k] = statics >> k & 1 ? 0 : kind_of(args[k]);
    if (kinds[k] == 0) kinds[k] = (uint64_t)(uintptr_t)args[k];
  }
}

static PyObject *key_of(const uint64_t *kinds, Py_ssize_t count) {
  return PyBytes_FromStringAndSize((char *)kinds, count * (Py_ssize_t)sizeof *kinds);
}

/* What is known for arguments of these kinds, a new reference; NULL, without an error, if nothing. */
static PyObject *lookup(Dispatcher *self, PyObject *const *args, Py_ssize_t nargs) {
  uint64_t kinds[OPERANDS];
  if (nargs > OPERANDS) return NULL;
  kinds_of(args, nargs, self->statics, kinds);
  size_t bytes = (size_t)nargs * sizeof *kinds;
  if (self->latest == NULL || self->count != nargs || memcmp(self->kinds, kinds, bytes) != 0) {
    PyObject *key = key_of(kinds, nargs);
    if (key == NULL) return NULL;
    self->latest = PyDict_GetItemWithError(self->known, key);
    self->count = nargs;
    memcpy(self->kinds, kinds, bytes);
    Py_DECREF(key);
  }
  return Py_XNewRef(self->latest);
}

/* Whether a keyword is one of every function. */
static int is_common(PyObject *name) {
  return is(name, name_out) || is(name, name_where) || is(name, name_req);
}

/* How many of the keywords are those of every function. */
static Py_ssize_t common(PyObject *names) {
  Py_ssize_t count = 0;
  for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++)
    count += is_common(PyTuple_GET_ITEM(names, k));
  return count;
}

/* Put arguments that are given by name behind the others, where their places are, and after them what
 * the `left` keywords of every function say, whose names go to *rest: a new reference, or NULL if there
 * are none.  Returns how many arguments there are; -1 if Python has to look, or after an error. */
static Py_ssize_t in_order(Dispatcher *self, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *names, Py_ssize_t left, PyObject **all, PyObject **rest) {
  Py_ssize_t count = PyTuple_GET_SIZE(names), end = nargs + count - left;
  if (self->parameters == NULL || end > PyTuple_GET_SIZE(self->parameters) || end > OPERANDS)
    return -1;
  memcpy(all, args, (size_t)nargs * sizeof *all);
  for (Py_ssize_t at = nargs; at < end; at++) {
    PyObject *name = PyTuple_GET_ITEM(self->parameters, at);
    Py_ssize_t k = name == Py_None ? count : 0;
    while (k < count && !is(PyTuple_GET_ITEM(names, k), name)) k++;
    if (k == count) return -1;
    all[at] = args[nargs + k];
  }
  *rest = NULL;
  if (left > 0 && (*rest = PyTuple_New(left)) == NULL) return -1;
  for (Py_ssize_t k = 0, at = 0; at < left; k++) {
    PyObject *name = PyTuple_GET_ITEM(names, k);
    if (!is_common(name)) continue;
    PyTuple_SET_ITEM(*rest, at, Py_NewRef(name));
    all[end + at++] = args[nargs + k];
  }
  return end;
}

/* Call `found`: a function, the values of the arrays that this call leaves to defaults, and the bits of
 * the arguments that are settings, None if there are none. */
static PyObject *forward(PyObject *found, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *names) {
  PyObject *function = PyTuple_GET_ITEM(found, 0), *rest = PyTuple_GET_ITEM(found, 1);
  PyObject *settings = PyTuple_GET_ITEM(found, 2);
  Py_ssize_t more = PyTuple_GET_SIZE(rest), at = 0;
  if (more == 0 && settings == Py_None)
    return PyObject_Vectorcall(function, args, (size_t)nargs, names);
  PyObject *all[2 * OPERANDS + 3];
  const uint64_t dropped = settings == Py_None ? 0 : PyLong_AsUnsignedLongLong(settings);
  for (Py_ssize_t k = 0; k < nargs; k++)
    if ((dropped >> k & 1) == 0) all[at++] = args[k];
  for (Py_ssize_t k = 0; k < more; k++) all[at++] = PyTuple_GET_ITEM(rest, k);
  const Py_ssize_t count = at;
  for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++)
    all[at++] = args[nargs + k];
  return PyObject_Vectorcall(function, all, (size_t)count, names);
}

static PyObject *dispatch(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf), given = nargs, left = common(names);
  PyObject *all[OPERANDS + 3], *const *ordered = args, *rest = Py_XNewRef(names);
  if (names != NULL && left < PyTuple_GET_SIZE(names)) {
    Py_CLEAR(rest);
    given = in_order((Dispatcher *)self, args, nargs, names, left, all, &rest);
    ordered = all;
  }
  PyObject *found = given < 0 ? NULL : lookup((Dispatcher *)self, ordered, given);
  PyObject *answer = found == NULL ? NULL : forward(found, ordered, given, rest);
  Py_XDECREF(rest);
  if (found != NULL) {
    Py_DECREF(found);
    return answer;
  }
  if (PyErr_Occurred()) return NULL;
  fenv_t modes; /* what is traced outlives the call, too */
  const int unusual = elemc_usual_modes(&modes);
  PyObject *result = call_python(self, args, nargs, names);
  if (unusual) fesetenv(&modes);
  return result;
}

PyDoc_STRVAR(remember_doc,
             "_remember(args, settings, function, rest): calls like f(*args) are calls of\n"
             "function(*arrays, *rest), where arrays are those of args that are no settings.\n"
             "These, the bits of their places, are the same objects then.");

static PyObject *remember(PyObject *self, PyObject *args) {
  Dispatcher *to = (Dispatcher *)self;
  PyObject *given, *function, *rest;
  unsigned long long settings;
  uint64_t kinds[OPERANDS];
  if (!PyArg_ParseTuple(args, "O!KOO!", &PyTuple_Type, &given, &settings, &function, &PyTuple_Type,
                        &rest))
    return NULL;
  Py_ssize_t count = PyTuple_GET_SIZE(given);
  if (PyTuple_GET_SIZE(rest) > OPERANDS || count > OPERANDS) return Py_NewRef(Py_None);
  for (Py_ssize_t k = 0; k < count; k++) /* what has an address for its kind is kept below */
    if ((settings >> k & 1) == 0 &&
        (to->statics >> k & 1 || kind_of(PyTuple_GET_ITEM(given, k)) == 0))
      return Py_NewRef(Py_None);
  kinds_of(PySequence_Fast_ITEMS(given), count, settings, kinds);
  to->latest = NULL; /* what it was may be replaced */
  if (PyDict_Size(to->known) >= KINDS) PyDict_Clear(to->known); /* settings may be new in every call */
  PyObject *key = key_of(kinds, count);
  PyObject *bits = settings ? PyLong_FromUnsignedLongLong(settings) : Py_NewRef(Py_None);
  PyObject *kept = PyTuple_New(count); /* settings, as long as their addresses count */
  for (Py_ssize_t k = 0; kept != NULL && k < count; k++)
    PyTuple_SET_ITEM(kept, k, Py_NewRef(settings >> k & 1 ? PyTuple_GET_ITEM(given, k) : Py_None));
  PyObject *found =
      bits == NULL || kept == NULL ? NULL : PyTuple_Pack(4, function, rest, bits, kept);
  int status = key == NULL || found == NULL ? -1 : PyDict_SetItem(to->known, key, found);
  Py_XDECREF(key);
  Py_XDECREF(bits);
  Py_XDECREF(kept);
  Py_XDECREF(found);
  return status < 0 ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(accept_doc, "_accept(names, statics): the names of the arguments that have places, None of\n"
                         "those that may not be given by it, and the bits of those that are settings.");

static PyObject *accept(PyObject *self, PyObject *args) {
  PyObject *names;
  unsigned long long statics;
  if (!PyArg_ParseTuple(args, "O!K", &PyTuple_Type, &names, &statics)) return NULL;
  Py_XSETREF(((Dispatcher *)self)->parameters, Py_NewRef(names));
  ((Dispatcher *)self)->statics = statics;
  Py_RETURN_NONE;
}

static PyObject *new_dispatcher(PyTypeObject *type, PyObject *args, PyObject *names) {
  (void)args, (void)names;
  Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->vectorcall = dispatch;
  self->known = PyDict_New();
  if (self->known == NULL) Py_CLEAR(self);
  return (PyObject *)self;
}

static int traverse_dispatcher(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(((Dispatcher *)self)->known);
  return 0;
}

static int clear_dispatcher(PyObject *self) {
  ((Dispatcher *)self)->latest = NULL;
  if (((Dispatcher *)self)->known != NULL) PyDict_Clear(((Dispatcher *)self)->known);
  return 0;
}

static void dealloc_dispatcher(PyObject *self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(((Dispatcher *)self)->known);
  Py_CLEAR(((Dispatcher *)self)->parameters); /* of strings, in no circle */
  Py_TYPE(self)->tp_free(self);
}

static PyMethodDef dispatcher_methods[] = {
    {"_remember", remember, METH_VARARGS, remember_doc},
    {"_accept", accept, METH_VARARGS, accept_doc},
    {0},
};

static PyTypeObject DispatcherType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "elemc_callable.Dispatcher",
    .tp_doc = "Calls of traced functions; a subclass has `_call`, which serves new kinds.",
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = new_dispatcher,
    .tp_dealloc = dealloc_dispatcher,
    .tp_traverse = traverse_dispatcher,
    .tp_clear = clear_dispatcher,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Dispatcher, vectorcall),
    .tp_methods = dispatcher_methods,
};

/* -- the module -------------------------------------------------------------------------------- */

PyDoc_STRVAR(prepare_doc, "prepare(subclass, fail): calls of this subclass take the fast path.");

/* Python 3.11 lets no class made by `class` inherit the flag. */
static PyObject *prepare(PyObject *module, PyObject *args) {
  PyTypeObject *type;
  PyObject *function;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &function)) return NULL;
  if (!(PyType_IsSubtype(type, &CallableType) || PyType_IsSubtype(type, &DispatcherType)) ||
      type->tp_call != PyVectorcall_Call) {
    PyErr_SetString(PyExc_TypeError, "prepare takes a subclass without __call__");
    return NULL;
  }
  type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  Py_XSETREF(fail, Py_NewRef(function));
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"prepare", prepare, METH_VARARGS, prepare_doc}, {0}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "elemc_callable", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_elemc_callable(void) {
  import_array();
  large_bytes = (double)elemc_large();
  second_bytes = elemc_second();
  weight = WEIGHT / elemc_pace();
  large_handler = PyCapsule_New(&large_memory, "mem_handler", NULL);
  name_call = PyUnicode_InternFromString("_call");
  name_out = PyUnicode_InternFromString("out");
  name_where = PyUnicode_InternFromString("where");
  name_req = PyUnicode_InternFromString("req");
  name_add = PyUnicode_InternFromString("add");
  name_write = PyUnicode_InternFromString("write");
  PyObject *module = PyModule_Create(&definition);
  if (name_call == NULL || name_out == NULL || name_where == NULL || name_req == NULL ||
      name_add == NULL || name_write == NULL ||
      large_handler == NULL || module == NULL ||
      PyModule_AddType(module, &CallableType) < 0 ||
      PyModule_AddType(module, &DispatcherType) < 0 ||
      PyModule_AddIntConstant(module, "OPERANDS", OPERANDS) < 0 ||
      PyModule_AddIntConstant(module, "PLACES", PLACES) < 0) {
    Py_XDECREF(module);
    return NULL;
  }
  return module;
}
