/* Acts of known size, one a run: what the kernel can be asked about without a PMU. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#define NOINLINE __attribute__((noinline))

static volatile long sink;
static char copied[64 * PAGE] __attribute__((aligned(4096)));
struct pair { volatile long read, written; } pair __attribute__((aligned(64)));

NOINLINE static char *map(long pages) {
  char *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
  return at;
}

/* Who calls nothing gets no frame of its own. */
NOINLINE static void begin(void) { __asm__ volatile(""); }

NOINLINE static void touch(volatile char *at, long pages) {
  begin();
  for (long page = 0; page < pages; page++) at[page * PAGE] = 1;
}

/* Four threads touch 16, 32, 48, 64 pages. */
NOINLINE static void work(long share) {
  char *at = map(16 * share);
  touch(at, 16 * share);
  sink += at[0];
}
static void *worker(void *number) {
  char name[16];
  snprintf(name, sizeof name, "pool-%ld", (long)number);
  pthread_setname_np(pthread_self(), name);
  work((long)number);
  return 0;
}
static void pool(void) {
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, (void *)(i + 1));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}

/* Four children write to 64 pages they share with their parent; the last one becomes another program, which touches 100. */
NOINLINE static void serve(void) {
  touch(copied, 64);
  sink += copied[PAGE];
}
NOINLINE static void after_exec(void) {
  char *at = map(100);
  touch(at, 100);
  sink += at[0];
}
static void forks(char *self) {
  touch(copied, 64);
  for (int i = 1; i <= 4; i++) {
    pid_t child = fork();
    if (!child) {
      char name[16];
      snprintf(name, sizeof name, "child-%d", i);
      prctl(PR_SET_NAME, name);
      serve();
      if (i == 4) execl(self, "acts", "after-exec", (char *)0);
      _exit(0);
    }
    waitpid(child, 0, 0);
  }
}

/* 64 pages of a file are written through a mapping. */
NOINLINE static void write_file(volatile char *at, long pages) {
  touch(at, pages);
  sink += at[0];
}
static void files(const char *path) {
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < 64; i++) {
    char page[PAGE];
    memset(page, i, sizeof page);
    if (write(file, page, sizeof page) != sizeof page) exit(1);
  }
  write_file(mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 64);
}

/* 16 MiB in small pages, then in huge ones; says how much of it became huge. */
NOINLINE static void small(void) {
  char *at = map(4096);
  touch(at, 4096);
  sink += at[0];
}
NOINLINE static void huge(void) {
  const long size = 16L << 20, align = 2L << 20;
  char *at = mmap(0, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  at = (char *)(((long)at + align - 1) & -align);
  madvise(at, size, MADV_HUGEPAGE);
  touch(at, 4096);
  sink += at[0];
}
static void pages(void) {
  small();
  huge();
  char line[256];
  FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
  while (rollup && fgets(line, sizeof line, rollup))
    if (!strncmp(line, "AnonHugePages:", 14)) fputs(line, stdout);
}

/* 8 huge pages of those that the kernel keeps for whoever asks for such; says whether it has them. */
NOINLINE static void reserved(volatile char *at) {
  for (long page = 0; page < 8; page++) at[page << 21] = 1;
  sink++;
}
static void hugetlb(void) {
  const int two_mebibytes = 21 << 26;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | two_mebibytes;
  char *at = mmap(0, 16L << 20, PROT_READ | PROT_WRITE, flags, -1, 0);
  puts(at == MAP_FAILED ? "none" : "taken");
  if (at != MAP_FAILED) reserved(at);
}

/* One thread holds a lock four times for 30 ms, another one wants it meanwhile. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
NOINLINE static void want_lock(void) {
  pthread_mutex_lock(&lock);
  sink++;
  pthread_mutex_unlock(&lock);
}
NOINLINE static void contend(void) {
  want_lock();
  sink++;
}
static void *waiter(void *unused) {
  pthread_setname_np(pthread_self(), "waiter");
  for (int i = 0; i < 4; i++) {
    pthread_barrier_wait(&barrier);
    contend();
    pthread_barrier_wait(&barrier);
  }
  return unused;
}
static void locks(void) {
  pthread_t thread;
  pthread_barrier_init(&barrier, 0, 2);
  pthread_create(&thread, 0, waiter, 0);
  for (int i = 0; i < 4; i++) {
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&barrier);
    usleep(30000);
    pthread_mutex_unlock(&lock);
    pthread_barrier_wait(&barrier);
  }
  pthread_join(thread, 0);
}

/* One thread reads a word 30 times, another one writes its neighbour 50 times. */
NOINLINE static void get(void) { sink += pair.read; }
NOINLINE static void put(void) { pair.written = 7; }
static void *reader(void *unused) {
  pthread_setname_np(pthread_self(), "reader");
  for (int i = 0; i < 30; i++) get();
  return unused;
}
static void *writer(void *unused) {
  pthread_setname_np(pthread_self(), "writer");
  for (int i = 0; i < 50; i++) put();
  return unused;
}
static void words(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, reader, 0);
  pthread_create(&threads[1], 0, writer, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}

/* A chain of pointers through 16 MiB in an order no prefetcher guesses, and a walk through them in order. */
struct node { struct node *next; long pad[7]; };
NOINLINE static struct node *chase(struct node *at, long steps) {
  for (long i = 0; i < steps; i++)
    at = at->next; /* the chase */
  return at;
}
NOINLINE static long stream(const struct node *from, long count) {
  long sum = 0;
  for (long i = 0; i < count; i++)
    sum += from[i].pad[0]; /* the stream */
  return sum;
}
static void walk(void) {
  const long count = 1 << 18;
  struct node *nodes = calloc(count, sizeof *nodes);
  unsigned long at = 0;
  for (long i = 0; i < count; i++) {
    unsigned long next = (at * 5 + 1234567) % count; /* a full period: 5 is 1 mod 4, the rest is odd */
    nodes[at].next = &nodes[next];
    at = next;
  }
  sink += chase(nodes, 3000000)->pad[0];
  for (int i = 0; i < 30; i++) sink += stream(nodes, count);
}

/* 16 blocks of 1 MiB are kept, 20 blocks of 40 MiB come and go. */
NOINLINE static void *keep(void) {
  char *at = malloc(1 << 20);
  at[0] = 1;
  return at;
}
NOINLINE static void leak(void) {
  for (int i = 0; i < 16; i++) sink += (long)keep();
}
NOINLINE static void churn(void) {
  for (int i = 0; i < 20; i++) {
    volatile char *at = malloc(40L << 20);
    at[0] = 1;
    free((void *)at);
  }
}

/* An arena of its own for each thread: 64 MiB that nobody may touch, opened piece by piece as they fill. */
NOINLINE static void fill_arena(void) {
  for (int i = 0; i < 40; i++) {
    char *at = malloc(100 * 1000);
    if (at) memset(at, i + 1, 100 * 1000);
    sink += (long)at;
  }
}
static void *arena(void *unused) {
  fill_arena();
  return unused;
}
static void arenas(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, arena, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}

int main(int argc, char **argv) {
  const char *act = argc > 1 ? argv[1] : "";
  if (!strcmp(act, "pool")) pool();
  if (!strcmp(act, "forks")) forks(argv[0]);
  if (!strcmp(act, "after-exec")) after_exec();
  if (!strcmp(act, "files")) files(argv[2]);
  if (!strcmp(act, "pages")) pages();
  if (!strcmp(act, "hugetlb")) hugetlb();
  if (!strcmp(act, "locks")) locks();
  if (!strcmp(act, "words")) words();
  if (!strcmp(act, "walk")) walk();
  if (!strcmp(act, "arenas")) arenas();
  if (!strcmp(act, "memory")) {
    leak();
    churn();
  }
  return 0;
}
