/* A program tells where its accesses are: the address of an instruction, its function and line, the function it is part of
   when it is inlined, whom it returns to, and what it accesses. Nobody who reads symbols is asked. */
#include <stdio.h>
#include <unistd.h>

#ifdef __x86_64__
#define HERE ({ void *here_; __asm__ volatile("1: lea 1b(%%rip), %0" : "=r"(here_)); here_; })
#else
#define HERE ({ void *here_; __asm__ volatile("1: adr %0, 1b" : "=r"(here_)); here_; })
#endif

/* Of a role: its function, the function it is inlined in (the same, if it is not), the address and name of its datum. */
#define AT(role, function, outer, address, datum)                                                                     \
  truth_say(role, function, outer, __FILE__, __LINE__, HERE, __builtin_return_address(0), (const void *)(address), datum)

__attribute__((noinline)) static void truth_say(const char *role, const char *function, const char *outer, const char *file,
                                                int line, void *ip, void *caller, const void *address, const char *datum) {
  const char *base = file;
  for (const char *at = file; *at; at++)
    if (*at == '/') base = at + 1;
  printf("at\t%s\t%s\t%s\t%s\t%d\t%p\t%p\t%p\t%s\n", role, function, outer, base, line, ip, caller, address, datum);
}

__attribute__((noinline)) static void truth_maps(void) {
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  printf("pid\t%d\n", getpid());
  while (maps && fgets(line, sizeof line, maps)) printf("map\t%s", line);
  if (maps) fclose(maps);
  fflush(stdout);
}
