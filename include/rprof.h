/* Marks regions and work of a program for rprof ("Regions and work" in its README). C99 or C++.
 *
 *   rprof_region_begin("solve");        each thread on its own; regions may be nested
 *   rprof_work("particle", 1000);       1000 more particles were done, in the regions that are open and in the program
 *   rprof_region_end("solve");
 *
 * There is no library. A call does nothing; rprof knows rprof_mark by its name. Without rprof it costs a call and a return. */
#ifndef RPROF_H
#define RPROF_H
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A first instruction that the kernel need not step over makes a uprobe cheap. */
#ifdef __x86_64__
#define RPROF_FIRST ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" /* nopl 0(%rax,%rax) */
#else
#define RPROF_FIRST ""
#endif

/* what: 0 begins region `name`, 1 ends it, 2 is work in units of `name`; `amount`: the bits of a double. */
__attribute__((weak, noinline)) void rprof_mark(int what, const char *name, unsigned long long amount)
{
    __asm__ volatile(RPROF_FIRST : : "r"(what), "r"(name), "r"(amount) : "memory");
}
static inline void rprof_region_begin(const char *name) { rprof_mark(0, name, 0); }
static inline void rprof_region_end(const char *name) { rprof_mark(1, name, 0); }
static inline void rprof_work(const char *unit, double amount)
{
    unsigned long long bits;
    memcpy(&bits, &amount, sizeof bits);
    rprof_mark(2, unit, bits);
}

#ifdef __cplusplus
}
#endif
#endif
