#include "truth.h"
#include <cstdlib>
#include <memory>
#include <vector>

namespace fleet {
struct alignas(64) Counters { volatile long reads = 0, writes = 0; };
struct alignas(128) Padded { volatile long reads = 0; char pad[120]; volatile long writes = 0; };
Counters shared_counters;
Padded padded_counters;

template <typename T> struct Table {
  static T rows[64];
  struct Row { Row *next; T value; };
  __attribute__((noinline)) void touch(Row *row) const {
    AT("chase", "fleet::Table<long>::touch", "fleet::Table<long>::touch", &row->next, "-");
    if (row->next) row->value++;
  }
  static inline __attribute__((always_inline)) T element(const T *at) {
    AT("stream", "fleet::Table<long>::element", "fleet::stream<long>", at, "fleet::Table<long>::rows+0x10"); return *at;
  }
};
template <typename T> T Table<T>::rows[64];
template <typename T> __attribute__((noinline)) T stream(const T *from) {
  T sum = 1;
  sum += Table<T>::element(from + 2);
  return sum;
}
struct Reader {
  virtual ~Reader() = default;
  virtual void operator()() = 0;
};
namespace {
volatile long lock_word alignas(64);
struct Counting final : Reader {
  __attribute__((noinline)) void operator()() override {
    AT("false-read", "fleet::(anonymous namespace)::Counting::operator()", "fleet::(anonymous namespace)::Counting::operator()", &shared_counters.reads, "fleet::shared_counters"); (void)shared_counters.reads;
    AT("padded-read", "fleet::(anonymous namespace)::Counting::operator()", "fleet::(anonymous namespace)::Counting::operator()", &padded_counters.reads, "fleet::padded_counters"); (void)padded_counters.reads;
  }
};
} // namespace
__attribute__((noinline)) bool operator+=(Counters &counters, long by) {
  AT("false-write", "fleet::operator+=", "fleet::operator+=", &counters.writes, "fleet::shared_counters+0x8"); counters.writes = counters.writes + by;
  return counters.writes > 3;
}
} // namespace fleet

int main() {
  using namespace fleet;
  auto row = std::make_unique<Table<long>::Row>();
  auto next = std::make_unique<Table<long>::Row>();
  row->next = next.get();
  Table<long>().touch(row.get());
  volatile long sum = stream(Table<long>::rows);
  std::unique_ptr<Reader> reader(new Counting);
  (*reader)();
  sum = sum + (shared_counters += 1);
  auto write = [&](long by) __attribute__((noinline)) {
    AT("padded-write", "main::{lambda(long)#1}::operator()", "main::{lambda(long)#1}::operator()", &padded_counters.writes, "fleet::padded_counters+0x80"); padded_counters.writes = by;
    sum = by;
  };
  write(2);
  auto lock = []() __attribute__((noinline)) {
    AT("lock", "main::{lambda()#2}::operator()", "main::{lambda()#2}::operator()", &lock_word, "fleet::(anonymous namespace)::lock_word"); __sync_fetch_and_add(&lock_word, 1);
  };
  lock();
  std::vector<long> heap(40);
  AT("heap", "main", "main", heap.data(), "[heap]");
  truth_maps();
}
