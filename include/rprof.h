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

/* A first instruction that the kernel need not step over makes a uprobe cheap. Not a nop of five bytes: Linux 6.18 makes a call of that,
 * which a forked child cannot make. */
#ifdef __x86_64__
#define RPROF_FIRST ".byte 0x66, 0x90" /* xchg %ax,%ax */
#else
#define RPROF_FIRST ""
#endif

/* One function of this name, whatever the compiler knows of its calls. */
#if defined(__GNUC__) && !defined(__clang__)
#define RPROF_KEPT __attribute__((weak, used, noipa))
#else
#define RPROF_KEPT __attribute__((weak, used, noinline))
#endif

/* what: 0 begins region `name`, 1 ends it, 2 is work in units of `name`; `amount`: the bits of a double. */
RPROF_KEPT void rprof_mark(int what, const char *name, unsigned long long amount)
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
