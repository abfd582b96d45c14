#include "truth.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

struct node { struct node *next; long value[7]; };
struct node nodes[64];
static long buffer[4096];
struct counters { volatile long reads, writes; } shared_counters __attribute__((aligned(64)));
struct { volatile long reads; char pad[120]; volatile long writes; } padded_counters __attribute__((aligned(128)));
volatile long lock_word __attribute__((aligned(64)));
static __thread volatile long per_thread;
static volatile long sink;

__attribute__((noinline)) void chase(struct node *from) {
  AT("chase", "chase", "chase", &from->next, "nodes+0x40"); sink += from->next->value[0];
}
static inline __attribute__((always_inline)) long element(const long *at) {
  AT("stream", "element", "stream", at, "buffer+0x80"); return *at;
}
__attribute__((noinline)) static long stream(const long *from) {
  long sum = 1;
  sum += element(from + 16);
  return sum;
}
__attribute__((noinline)) void read_counter(void) {
  AT("false-read", "read_counter", "read_counter", &shared_counters.reads, "shared_counters"); sink += shared_counters.reads;
  AT("padded-read", "read_counter", "read_counter", &padded_counters.reads, "padded_counters"); sink += padded_counters.reads;
}
__attribute__((noinline)) void write_counter(void) {
  AT("false-write", "write_counter", "write_counter", &shared_counters.writes, "shared_counters+0x8"); shared_counters.writes++;
  AT("padded-write", "write_counter", "write_counter", &padded_counters.writes, "padded_counters+0x80"); padded_counters.writes++;
}
__attribute__((noinline)) static void take_lock(void) {
  AT("lock", "take_lock", "take_lock", &lock_word, "lock_word"); __sync_fetch_and_add(&lock_word, 1);
}
__attribute__((noinline)) void places(int argc, char **argv) {
  static volatile long visits;
  volatile long local[4] = {argc};
  AT("local-static", "places", "places", &visits, "visits"); visits++;
  AT("stack", "places", "places", local, "[stack]"); sink += local[0];
  volatile long *heap = malloc(24);
  AT("heap", "places", "places", heap, "[heap]"); *heap = 1;
  AT("thread-local", "places", "places", &per_thread, "-"); per_thread++;
  volatile char *anonymous = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  AT("anonymous", "places", "places", anonymous, "-"); *anonymous = 1;
  int file = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 1 << 16)) abort();
  volatile char *mapped = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  AT("file", "places", "places", mapped + 32, "-"); mapped[32] = 1;
}
int main(int argc, char **argv) {
  for (int i = 0; i < 64; i++) nodes[i].next = &nodes[(i + 17) % 64];
  chase(&nodes[1]);
  sink += stream(buffer);
  read_counter();
  write_counter();
  take_lock();
  places(argc, argv);
  truth_maps();
  return 0;
}
