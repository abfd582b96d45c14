// 16 blocks of 1 MiB are kept, 20 blocks of 40 MiB come and go.
#include <memory>
#include <vector>

namespace store {
struct Block { char bytes[1 << 20]; };
template <typename T> struct Kept {
  std::vector<std::unique_ptr<T>> all;
  __attribute__((noinline)) void keep() {
    all.emplace_back(new T);
    all.back()->bytes[0] = 1;
  }
};
Kept<Block> &kept = *new Kept<Block>; // nobody destroys it
__attribute__((noinline)) void leak() {
  for (int i = 0; i < 16; i++) kept.keep();
  __asm__ volatile("" : : "r"(kept.all.data()) : "memory"); // the last call is no jump
}
__attribute__((noinline)) void churn() {
  for (int i = 0; i < 20; i++) {
    std::vector<char> bytes;
    bytes.reserve(40 << 20);
    __asm__ volatile("" : : "r"(bytes.data()) : "memory");
  }
}
} // namespace store

int main() {
  store::kept.all.reserve(16);
  store::leak();
  store::churn();
}
