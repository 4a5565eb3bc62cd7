/* What kernels and calls need besides mathematics: streaming stores, large memory, threads.
 *
 * Plain C, without Python; loaded once per process, before any kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* -- streaming stores --------------------------------------------------------------------------- */

/* What a kernel holds of an output that goes past the caches: the line that the latest block did not
 * fill, of which there are `held` bytes, and where in memory it goes on.  Kernels have REST aligned bytes. */
typedef struct {
  _Alignas(64) char line[64];
  char *next;
  int64_t held;
} Rest;
_Static_assert(sizeof(Rest) == 128, "REST of emit.py");

/* Write what is held as usual: nothing fills its line. */
void elemc_end_stream(void *of) {
  Rest *rest = of;
  if (rest->held > 0) memcpy(rest->next - rest->held, rest->line, (size_t)rest->held);
  rest->held = 0;
}

#if defined __x86_64__
/* Assembly, for the header of all intrinsics takes 0.1 s to read. */
#if defined __AVX512F__
enum { WIDTH = 64 };
#define STREAM "vmovntdq"
#elif defined __AVX__
enum { WIDTH = 32 };
#define STREAM "vmovntdq"
#else
enum { WIDTH = 16 };
#define STREAM "movntdq"
#endif
typedef char vector __attribute__((vector_size(WIDTH), aligned(1), may_alias));

/* Write one line past the caches. */
static inline void stream_line(char *to, const char *from) {
  for (int k = 0; k < 64; k += WIDTH)
    __asm__(STREAM " %1, %0" : "=m"(*(vector *)(to + k)) : "x"(*(const vector *)(from + k)));
}
#endif

/* Hold more of a line, less than all of it. */
static inline void hold(Rest *rest, const char *from, int64_t bytes) {
#if defined __AVX512BW__
  const uint64_t more = ((1ULL << bytes) - 1) << rest->held;
  vector line = *(const vector *)rest->line;
  __asm__("vmovdqu8 %1, %0%{%2%}" : "+v"(line) : "m"(*(const vector *)(from - rest->held)), "Yk"(more));
  *(vector *)rest->line = line;
#else
  memcpy(rest->line + rest->held, from, (size_t)bytes);
#endif
  rest->held += bytes;
}

/* Copy a block that lies in the first cache to memory, past the caches: an output that outgrows
 * them is not read before it is written, and displaces nothing.  The line that a block does not
 * fill is held, for the next one goes on there if rows follow each other.  A block that was made in
 * place (`block` is `to`) goes through the caches: what follows is asked for, to be written. */
void elemc_stream(void *of, char *to, const void *block, int64_t bytes) {
  enum { NEXT = 1024 };
  Rest *rest = of;
  const char *from = block;
  if (to == from) {
    for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(to + bytes + NEXT + k, 1);
    return;
  }
#if defined __x86_64__
  if (rest->next != to) elemc_end_stream(rest);
  rest->next = to + bytes;
  int64_t head = -(intptr_t)to & 63; /* until a line begins */
  if (head > bytes) head = bytes;
  if (head > 0) {
    if (rest->held == 0) /* nobody holds what is before it */
      memcpy(to, from, (size_t)head);
    else {
      hold(rest, from, head);
      if (rest->held == 64) stream_line(to + head - 64, rest->line), rest->held = 0;
    }
    to += head, from += head, bytes -= head;
  }
  for (; bytes >= 64; to += 64, from += 64, bytes -= 64) stream_line(to, from);
  if (bytes > 0) hold(rest, from, bytes);
#else
  (void)rest;
  memcpy(to, from, (size_t)bytes);
#endif
}

/* Bytes from which on an output outgrows the caches: a quarter of the last one, which others
 * share, and at most 16 MiB. */
int64_t elemc_large(void) {
  static int64_t large;
  if (large == 0) {
    long last = -1;
#if defined _SC_LEVEL3_CACHE_SIZE
    last = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    int64_t quarter = last > 0 ? last / 4 : 8 << 20;
    large = quarter > 16 << 20 ? 16 << 20 : quarter < 1 << 20 ? 1 << 20 : quarter;
  }
  return large;
}

/* Bytes that the second cache holds. */
int64_t elemc_second(void) {
  long second = -1;
#if defined _SC_LEVEL2_CACHE_SIZE
  second = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  return second > 0 ? second : 1 << 20;
}

/* -- large memory ------------------------------------------------------------------------------- */

/* New pages cost more to fetch than most kernels take to fill them.  So large memory comes in
 * huge pages, and what is given back is kept, and given out again.  Of what is kept the latest
 * `HOT` bytes stay as they are; the system may take the rest back whenever it is short of memory
 * (MADV_FREE), and there is never more than `most`. */

enum {
  HEADER = 64,          /* before the data: the size of its block */
  PAGE = 4096,
  SPARES = 32,          /* blocks that are kept */
  SMALL_GRAIN = 1 << 18,
  HUGE_PAGE = 1 << 21,
  HOT = 1 << 26
};

typedef struct {
  char *start;
  size_t bytes;
  int offered; /* to the system */
} Block;

static struct {
  pthread_mutex_t lock;
  int count;
  Block spare[SPARES]; /* the latest last */
  int64_t held, most, reused, mapped;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = -1};

static int64_t most_spare(void) {
  if (memory.most < 0) memory.most = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 8;
  return memory.most;
}

static size_t rounded(size_t bytes, size_t grain) { return (bytes + grain - 1) / grain * grain; }

/* Take spare block k out of the list. */
static Block remove_spare(int k) {
  Block found = memory.spare[k];
  memory.count--;
  memmove(memory.spare + k, memory.spare + k + 1,
          (size_t)(memory.count - k) * sizeof *memory.spare);
  memory.held -= (int64_t)found.bytes;
  return found;
}

/* The smallest spare block of about this size. */
static Block find_spare(size_t bytes) {
  int best = -1;
  for (int k = 0; k < memory.count; k++) {
    size_t has = memory.spare[k].bytes;
    if (has >= bytes && has <= bytes + bytes / 4 &&
        (best < 0 || has <= memory.spare[best].bytes))
      best = k;
  }
  return best < 0 ? (Block){0} : remove_spare(best);
}

/* New pages, huge ones if there are any; starts where a huge page does. */
static char *map_pages(size_t bytes) {
  char *start = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
  if (start == MAP_FAILED) return NULL;
  size_t before = -(uintptr_t)start & (HUGE_PAGE - 1);
  if (before > 0) munmap(start, before);
  munmap(start + before + bytes, HUGE_PAGE - before);
#if defined MADV_HUGEPAGE
  madvise(start + before, bytes, MADV_HUGEPAGE); /* a wish */
#endif
  return start + before;
}

static void shrink(int64_t most) {
  while (memory.count > 0 && (memory.count == SPARES || memory.held > most)) {
    Block old = remove_spare(0);
    munmap(old.start, old.bytes);
  }
}

/* At least `bytes` bytes that begin at this `place` of a page; NULL if there are none. */
void *elemc_take(size_t bytes, size_t place) {
  if (bytes > PTRDIFF_MAX - 2 * HUGE_PAGE) return NULL;
  if (place < HEADER) place += PAGE;
  bytes = rounded(bytes + place, bytes < 4 * HUGE_PAGE ? SMALL_GRAIN : HUGE_PAGE);
  pthread_mutex_lock(&memory.lock);
  Block found = find_spare(bytes);
  if (found.start != NULL) {
    memory.reused++;
  } else {
    found = (Block){.start = map_pages(bytes), .bytes = bytes};
    if (found.start == NULL) {
      shrink(0);
      found.start = map_pages(bytes);
    }
    memory.mapped++;
  }
  pthread_mutex_unlock(&memory.lock);
  if (found.start == NULL) return NULL;
  memcpy(found.start, &found.bytes, sizeof found.bytes);
  return found.start + place;
}

/* The block that `data` lies in. */
static Block block_of(const void *data) {
  Block block = {.start = (char *)((uintptr_t)data & -(uintptr_t)HUGE_PAGE)};
  memcpy(&block.bytes, block.start, sizeof block.bytes);
  return block;
}

/* How many bytes there are at `data`. */
size_t elemc_size(const void *data) {
  Block block = block_of(data);
  return block.bytes - (size_t)((const char *)data - block.start);
}

/* Give back what `elemc_take` gave. */
void elemc_give(void *data) {
  Block block = block_of(data);
  pthread_mutex_lock(&memory.lock);
  int64_t most = most_spare(), hot = 0;
  if ((int64_t)block.bytes > most) {
    munmap(block.start, block.bytes);
  } else {
    shrink(most - (int64_t)block.bytes);
    memory.spare[memory.count++] = block;
    memory.held += (int64_t)block.bytes;
    for (int k = memory.count - 1; k >= 0; k--) {
      Block *b = &memory.spare[k];
      hot += (int64_t)b->bytes;
      if (hot <= HOT || b->offered) continue;
#if defined MADV_FREE
      madvise(b->start, b->bytes, MADV_FREE);
#endif
      b->offered = 1;
    }
  }
  pthread_mutex_unlock(&memory.lock);
}

/* Keep at most this many bytes from now on; -1: an eighth of the machine's memory. */
void elemc_keep_at_most(int64_t bytes) {
  pthread_mutex_lock(&memory.lock);
  memory.most = bytes;
  shrink(most_spare());
  pthread_mutex_unlock(&memory.lock);
}

/* Bytes kept and the most that may be; how often memory was given out again, and mapped. */
void elemc_memory(int64_t facts[4]) {
  pthread_mutex_lock(&memory.lock);
  facts[0] = memory.held, facts[1] = most_spare();
  facts[2] = memory.reused, facts[3] = memory.mapped;
  pthread_mutex_unlock(&memory.lock);
}

/* -- floating-point arithmetic ------------------------------------------------------------------ */

/* Have the arithmetic that kernels and their functions are written for: to nearest, with subnormal
 * numbers, without traps.  A thread can be in another: its program called fesetround, or loaded what
 * was linked with -ffast-math, which makes subnormal numbers 0 from then on.  Gives 1 if it was, and
 * what it was in, for fesetenv. */
int elemc_usual_modes(fenv_t *modes) {
#if defined __x86_64__
  const int usual = (__builtin_ia32_stmxcsr() & 0xffc0) == 0x1f80; /* but for what was raised */
#elif defined __aarch64__
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  const int usual = (control & 0x01f01f07) == 0; /* but for what FE_DFL_ENV leaves as it is */
#else /* at least */
  const int usual = fegetround() == FE_TONEAREST;
#endif
  if (usual) return 0;
  fegetenv(modes);
  fesetenv(FE_DFL_ENV);
  return 1;
}

/* -- threads ------------------------------------------------------------------------------------ */

/* A phase of a kernel is cut into pieces.  The calling thread and the workers have a share each (two
 * threads the same from call to call, which is in their caches), and then take pieces of others.
 * Workers start when they are first needed.  One that has nothing to do looks for a seat at a job for
 * a moment, then sleeps; a call does not wait for a worker that has not woken up.  Little work is
 * shared with those that are awake only, unless call follows call.  While one call uses the workers,
 * calls of other Python threads run on their own thread alone. */

typedef int (*Kernel)(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
                      const int64_t *n, volatile int64_t *decided, char *const *w);

typedef struct {
  Kernel kernel;
  int64_t phase, length, piece; /* piece: indices of the parallel axis */
  char *const *p;
  const int64_t *s, *n;
  char *const *w; /* buffers of thread 0, then those of thread 1, ... */
  int64_t buffers;
  volatile int64_t decided; /* set by the thread that knows what all fold: the others end */
  int threads;
  _Atomic int status;
} Job;

typedef struct {
  _Alignas(64) _Atomic int64_t next; /* index that nobody has taken */
  int64_t end;
} Share;

enum {
  MOST_THREADS = 256,
  STACK = 16 << 20, /* bytes of a worker, for the trees of strips */
  GRAIN = 4000,     /* nanoseconds of work that are worth a thread that is awake */
  WAKING = 30000,   /* that are worth waking one */
  LOOKING = 100000, /* for which a worker looks for work before it sleeps */
  NARROW = 150      /* columns: of fewer, a part has too many lines in common with its neighbours */
};

static struct {
  pthread_mutex_t busy; /* held by the call that uses the workers */
  pthread_mutex_t lock; /* guards `calls` */
  pthread_cond_t wake;
  int64_t calls; /* that woke those who sleep */
  int threads;   /* the most of a call */
  int workers;
  int64_t latest; /* when a call last missed workers */
  int avoided;    /* one more than the processor that workers leave to the caller; 0: none */
  pthread_t thread[MOST_THREADS];
  Job job;        /* changes while nobody has a seat */
  _Alignas(64) _Atomic int seats; /* at the job that workers may still take */
  _Atomic int sleeping;
  _Alignas(64) _Atomic int left; /* seats that are done with */
  Share shares[MOST_THREADS];
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .threads = 1};

static void pause_a_moment(void) {
#if defined __x86_64__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Cut the job into shares of whole pieces. */
static void share(const Job *job) {
  const int64_t pieces = (job->length + job->piece - 1) / job->piece;
  int64_t begin = 0;
  for (int t = 0; t < job->threads; t++) {
    const int64_t end = (pieces * (t + 1) + job->threads - 1) / job->threads * job->piece;
    atomic_store(&pool.shares[t].next, begin);
    pool.shares[t].end = end < job->length ? end : job->length;
    begin = end;
  }
}

/* Take pieces until there are none left. */
static void work(Job *job, int thread) {
  int status = 0;
  for (int k = 0; k < job->threads; k++) {
    Share *share = &pool.shares[(thread + k) % job->threads];
    int64_t begin, end;
    while ((begin = atomic_fetch_add(&share->next, job->piece)) < share->end) {
      end = share->end - begin > job->piece ? begin + job->piece : share->end;
      status |= job->kernel(job->phase, begin, end, job->p, job->s, job->n,
                            &job->decided, job->w + thread * job->buffers);
    }
  }
#if defined __x86_64__
  __builtin_ia32_sfence(); /* what was streamed is there for all */
#endif
  atomic_fetch_or(&job->status, status);
}

/* Take a seat at the job, if one is left: its number; else 0. */
static int take_seat(void) {
  int seats = atomic_load(&pool.seats);
  while (seats > 0 && !atomic_compare_exchange_weak(&pool.seats, &seats, seats - 1))
    ;
  return seats;
}

/* Look for a seat for a moment: its number; 0 if there was none. */
static int look_for_seat(void) {
  int64_t end = nanoseconds() + LOOKING;
  do {
    for (int k = 0; k < 50; k++) {
      int seat = take_seat();
      if (seat > 0) return seat;
      pause_a_moment();
    }
    sched_yield(); /* the caller may be waiting for this processor */
  } while (nanoseconds() < end);
  return 0;
}

static void sleep_until_called(void) {
  pthread_mutex_lock(&pool.lock);
  atomic_fetch_add(&pool.sleeping, 1);
  for (int64_t calls = pool.calls; calls == pool.calls;) pthread_cond_wait(&pool.wake, &pool.lock);
  atomic_fetch_sub(&pool.sleeping, 1);
  pthread_mutex_unlock(&pool.lock);
}

static void *worker(void *unused) {
  for (;;) {
    int seat = look_for_seat();
    if (seat == 0) {
      sleep_until_called();
      continue;
    }
    work(&pool.job, seat);
    const int others = atomic_exchange(&pool.seats, 0); /* for whom nothing is left */
    atomic_fetch_add(&pool.left, 1 + others);
  }
  return unused;
}

/* Have `count` workers; fewer if the system gives no more. */
static void start_workers(int count) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of Python */
  pthread_attr_t room;
  pthread_attr_init(&room);
  pthread_attr_setstacksize(&room, STACK);
  for (; pool.workers < count; pool.workers++) {
    if (pthread_create(&pool.thread[pool.workers], &room, worker, NULL) != 0) break;
    pthread_detach(pool.thread[pool.workers]); /* it never ends */
    pool.avoided = 0;
  }
  pthread_attr_destroy(&room);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* How many threads are worth their while for so much work. */
int elemc_threads(double nanoseconds) {
  double worth = nanoseconds / GRAIN;
  return worth < 2 ? 1 : worth < pool.threads ? (int)worth : pool.threads;
}

/* The most threads that a call uses, its own included. */
void elemc_use_threads(int count) { pool.threads = count < MOST_THREADS ? count : MOST_THREADS; }

/* Indices per piece: several pieces for every thread, as some are faster; if there are many
 * indices, a piece is a multiple of what kernels take at a time.  It has `least` or more, but an even
 * share is enough that is not too narrow. */
static int64_t piece_of(int64_t length, double nanoseconds, int threads, int64_t least) {
  double pieces = 2 * nanoseconds / GRAIN < 8 * threads ? 2 * nanoseconds / GRAIN : 8 * threads;
  int64_t piece = (int64_t)((double)length / pieces) + 1, grain = 512;
  while (grain > 1 && piece < 4 * grain) grain /= 2;
  piece = (piece + grain - 1) / grain * grain;
  const int64_t shares = length / NARROW < threads ? length / NARROW : threads;
  const int64_t even = shares > 1 ? (length + 16 * shares - 1) / (16 * shares) * 16 : least;
  if (least > even) least = even;
  return piece < least ? least : piece;
}

/* Keep workers off the caller's processor.  Some systems, virtual ones above all, wake them there
 * though another one is idle, and they would wait until the call is over. */
static void step_aside(void) {
#if defined __linux__
  const int here = sched_getcpu();
  cpu_set_t others;
  if (here < 0 || here + 1 == pool.avoided || sched_getaffinity(0, sizeof others, &others) != 0)
    return;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others) == 0) return;
  for (int k = 0; k < pool.workers; k++)
    pthread_setaffinity_np(pool.thread[k], sizeof others, &others);
  pool.avoided = here + 1;
#endif
}

/* How many of `count` workers will look for so much work.  Those who sleep are called, and those who
 * are missing started, as many as are worth it, or all where call follows call. */
static int call_workers(int count, double work, int64_t phase) {
  const int awake = pool.workers - atomic_load(&pool.sleeping);
  if (awake >= count) return count;
  const int64_t before = pool.latest;
  pool.latest = nanoseconds();
  const int follows = phase == 0 && pool.latest - before < LOOKING;
  const int worth = follows || work > (double)count * WAKING ? count : (int)(work / WAKING);
  if (worth <= awake) return awake;
  start_workers(worth);
  step_aside();
  pthread_mutex_lock(&pool.lock);
  pool.calls++;
  for (int k = awake; k < worth; k++) pthread_cond_signal(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  return worth < pool.workers ? worth : pool.workers;
}

/* Run the job by this thread and as many workers as will look for it; gives its status. */
static int run_together(Job job, double nanoseconds) {
  const int64_t others = (job.length - 1) / job.piece;
  const int helpers = call_workers(others < job.threads ? (int)others : job.threads - 1,
                                   nanoseconds, job.phase);
  job.threads = helpers + 1;
  if (helpers == 0) job.piece = job.length;
  pool.job = job;
  share(&pool.job);
  atomic_store(&pool.left, 0);
  atomic_store(&pool.seats, helpers);
  work(&pool.job, 0);
  int taken = helpers - atomic_exchange(&pool.seats, 0);
  for (int k = 0; atomic_load(&pool.left) < taken; k++) /* each is at its last piece */
    k < 10000 ? pause_a_moment() : (void)sched_yield();
  return atomic_load(&pool.job.status);
}

/* Run a phase that is worth `nanoseconds` by at most `threads` threads, in pieces as `piece_of` has
 * them; returns its status. */
int elemc_run(Kernel kernel, int64_t phase, int64_t length, int64_t least, double nanoseconds,
              int threads, char *const *p, const int64_t *s, const int64_t *n, char *const *w,
              int64_t buffers) {
  const int worth = elemc_threads(nanoseconds);
  if (threads > worth) threads = worth;
  const int64_t piece = threads < 2 ? length : piece_of(length, nanoseconds, threads, least);
  fenv_t modes; /* which the call path in C has made the usual ones, others not */
  const int unusual = elemc_usual_modes(&modes);
  int status;
  if (piece < length && pthread_mutex_trylock(&pool.busy) == 0) {
    status = run_together((Job){.kernel = kernel, .phase = phase, .length = length, .piece = piece,
                                .p = p, .s = s, .n = n, .w = w, .buffers = buffers,
                                .threads = threads}, nanoseconds);
    pthread_mutex_unlock(&pool.busy);
  } else {
    int64_t decided = 0;
    status = kernel(phase, 0, length, p, s, n, &decided, w);
  }
  if (unusual) fesetenv(&modes);
  return status;
}

/* -- the machine, measured ---------------------------------------------------------------------- */

enum { TRIAD, PRODUCT, QUOTIENT };

/* Nanoseconds of an element of a loop over n of them; the best of some passes. */
static double pace_of(int loop, double *a, int64_t n, int passes) {
  int64_t best = INT64_MAX;
  for (int k = 0; k < passes; k++) {
    const double *b = a + n, *c = b + n, y = 1 + 0x1p-40;
    const int64_t start = nanoseconds();
    if (loop == TRIAD)
      for (int64_t i = 0; i < n; i++) a[i] = b[i] + 2 * c[i];
    else if (loop == PRODUCT)
      for (int64_t i = 0; i < n; i++) a[i] = b[i] * y;
    else
      for (int64_t i = 0; i < n; i++) a[i] = b[i] / y;
    __asm__ volatile("" : : "r"(a) : "memory"); /* they are wanted */
    const int64_t taken = nanoseconds() - start;
    if (taken < best) best = taken;
  }
  return (double)best / (double)n;
}

/* That of a triad on this machine: the geometric mean of its second cache and what lies behind it; 0 if
 * there is no memory to find out. */
double elemc_measure_pace(void) {
  enum { NEAR = 1 << 13, FAR = 1 << 20 };
  double *a = malloc(3 * FAR * sizeof *a);
  if (a == NULL) return 0;
  memset(a, 0, 3 * FAR * sizeof *a);
  const double mean = __builtin_sqrt(pace_of(TRIAD, a, NEAR, 100) * pace_of(TRIAD, a, FAR, 5));
  free(a);
  return mean;
}

/* How memory is asked for lines before they are wanted: not, where the processor foresees them better;
 * into the first or the second cache; or into that from eight pages in turns. */
enum { UNASKED = 0, FIRST = 1, SECOND = 2, IN_TURNS = 8 };

/* Ask for lines as kernels do, `on` bytes on. */
static inline __attribute__((always_inline)) void ask(const double *from, int64_t bytes, int64_t on,
                                                      int64_t way) {
  if (way == UNASKED) return;
  for (const char *place = (const char *)from; place < (const char *)from + bytes; place += 64) {
    const int64_t line = (int64_t)place >> 6;
    if (way == IN_TURNS)
      __builtin_prefetch((const char *)(((line >> 9) + 1) << 15) + ((line & 7) << 12) +
                         ((line >> 3 & 63) << 6), 0, 2);
    else if (way == SECOND)
      __builtin_prefetch(place + on, 0, 2);
    else
      __builtin_prefetch(place + on);
  }
}

/* Add up n numbers. */
static void sums(const double *a, int64_t n, int64_t way) {
  enum { LANES = 16 };
  double sum[LANES] = {0};
  for (int64_t i = 0; i < n; i += LANES) {
    ask(a + i, sizeof sum, 8192, way);
    _Pragma("GCC unroll 4") for (int l = 0; l < LANES; l++) sum[l] += a[i + l];
  }
  __asm__ volatile("" : : "r"(sum) : "memory"); /* it is wanted */
}

/* Add up the products of the first half of n numbers and the second. */
static void products(const double *a, int64_t n, int64_t way) {
  enum { LANES = 16 };
  const double *b = a + n / 2;
  double sum[LANES] = {0};
  for (int64_t i = 0; i < n / 2; i += LANES) {
    ask(a + i, sizeof sum, 256, way);
    ask(b + i, sizeof sum, 256, way);
    _Pragma("GCC unroll 4") for (int l = 0; l < LANES; l++) sum[l] += a[i + l] * b[i + l];
  }
  __asm__ volatile("" : : "r"(sum) : "memory"); /* it is wanted */
}

/* Let the second half of n numbers, past the caches or through them, be twice the first. */
static void doubles(double *a, int64_t n, int64_t way, int past) {
  enum { LINE = 128 };
  Rest rest = {0};
  double line[LINE];
  for (int64_t i = 0; i < n / 2; i += LINE) {
    ask(a + i, sizeof line, 8192, way);
    double *to = a + n / 2 + i, *block = past ? line : to;
    _Pragma("GCC ivdep") for (int l = 0; l < LINE; l++) block[l] = 2 * a[i + l];
    elemc_stream(&rest, (char *)to, block, sizeof line);
  }
  elemc_end_stream(&rest);
}

/* Add up n numbers in rows, four at a time: as many streams. */
static void sums_of_four(const double *a, int64_t n) {
  enum { LANES = 16, ROW = 2832 };
  double sum[4][LANES] = {{0}};
  for (const double *rows = a; rows + 4 * ROW <= a + n; rows += 4 * ROW)
    for (int64_t i = 0; i < ROW; i += LANES)
      _Pragma("GCC unroll 4") for (int l = 0; l < LANES; l++) {
        sum[0][l] += rows[i + l];
        sum[1][l] += rows[ROW + i + l];
        sum[2][l] += rows[2 * ROW + i + l];
        sum[3][l] += rows[3 * ROW + i + l];
      }
  __asm__ volatile("" : : "r"(sum) : "memory"); /* they are wanted */
}

enum { SUMS, PRODUCTS, DOUBLES, THROUGH, BY_FOURS };

/* Nanoseconds of a loop over n numbers. */
static int64_t time_of(int64_t loop, double *a, int64_t n, int64_t way) {
  const int64_t start = nanoseconds();
  if (loop == SUMS) sums(a, n, way);
  if (loop == PRODUCTS) products(a, n, way);
  if (loop == DOUBLES) doubles(a, n, way, 1);
  if (loop == THROUGH) doubles(a, n, way, 0);
  if (loop == BY_FOURS) sums_of_four(a, n);
  return nanoseconds() - start;
}

typedef struct {
  int64_t loop, way;
} Trial;

enum { MOST = 4, TRIED = 24 * HUGE_PAGE }; /* trials; bytes of each */

/* Which of some trials goes through memory fastest: each is held against the best one before, and has to
 * be faster by a twentieth at least, most times, for machines are noisy; -1 if there is no memory. */
static int fastest(const Trial *trials, int count) {
  enum { PASSES = 9, NUMBERS = TRIED / sizeof(double) };
  double *a = (double *)map_pages(TRIED);
  if (a == NULL) return -1;
  memset(a, 0, TRIED);
  int64_t taken[MOST][PASSES];
  for (int k = 0; k < PASSES; k++)
    for (int t = 0; t < count; t++)
      taken[t][k] = time_of(trials[t].loop, a, NUMBERS, trials[t].way);
  munmap(a, TRIED);
  int best = 0;
  for (int t = 1; t < count; t++) {
    int faster = 0;
    for (int k = 0; k < PASSES; k++)
      faster += taken[t][k] < taken[best][k] - taken[best][k] / 20;
    if (faster > PASSES / 2) best = t;
  }
  return best;
}

/* How memory is best asked for what a loop reads, the sums, the products or one of the doubles above: 0,
 * 1, 2 or 8, as there; -1 if there is no memory to find out. */
int64_t elemc_measure_asking(int64_t loop) {
  const Trial trials[MOST] = {{loop, FIRST}, {loop, UNASKED}, {loop, IN_TURNS}, {loop, SECOND}};
  const int best = fastest(trials, loop >= DOUBLES ? MOST : MOST - 1); /* sums wait for the second cache */
  return best < 0 ? -1 : trials[best].way;
}

/* How many rows of one array are summed fastest at once: 4 side by side, or 1, for which memory is asked
 * in a `way`; -1 if there is no memory to find out. */
int64_t elemc_measure_rows(int64_t way) {
  const Trial trials[] = {{SUMS, way}, {BY_FOURS, UNASKED}};
  const int best = fastest(trials, 2);
  return best < 0 ? -1 : best ? 4 : 1;
}

/* Whether what outgrows the caches is written sooner through them: 0 or 1; -1 if there is no memory to
 * find out.  It is not where the last of them, of which `elemc_large` is a quarter, holds all of it. */
int64_t elemc_measure_stores(void) {
  if (4 * elemc_large() >= TRIED) return 0;
  const Trial trials[] = {{DOUBLES, FIRST}, {THROUGH, FIRST}};
  return fastest(trials, 2);
}

/* In the time of how many multiplications of vectors there is a division; 0 where they are not fused
 * with additions, by which quotients are corrected. */
double elemc_measure_division(void) {
#if !defined __FP_FAST_FMA && !defined __FMA__
  return 0;
#endif
  enum { NEAREST = 1 << 10 };
  double a[3 * NEAREST];
  for (int i = 0; i < 3 * NEAREST; i++) a[i] = 1 + i;
  return pace_of(QUOTIENT, a, NEAREST, 100) / pace_of(PRODUCT, a, NEAREST, 100);
}

static double slower = 1; /* than work is estimated to be, on this machine */

void elemc_use_pace(double factor) { slower = factor; }

double elemc_pace(void) { return slower; }

/* -- fork --------------------------------------------------------------------------------------- */

/* A child has no workers, and nobody holds its locks. */
static void after_fork(void) {
  pthread_mutex_init(&memory.lock, NULL);
  pthread_mutex_init(&pool.busy, NULL);
  pthread_mutex_init(&pool.lock, NULL);
  pthread_cond_init(&pool.wake, NULL);
  pool.workers = pool.avoided = 0;
  atomic_store(&pool.sleeping, 0);
  atomic_store(&pool.seats, 0);
}

__attribute__((constructor)) static void prepare(void) { pthread_atfork(NULL, NULL, after_fork); }
