#!/usr/bin/env python3
"""Writes a synthetic profile: report.py MODEL SAMPLES FUNCTIONS OUT, from the functions and the machine of the profile MODEL.

Functions after the model's own are copies of these under names of C++ templates. The first 800 of them have samples; the others have
no time and few instructions, as most functions of a large program. Stacks are
8 deep, under 64 roots, so that the flame graph has as many boxes as one of a large program.
"""
import copy
import json
import random
import sys

model, samples, functions, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
random.seed(1)


def period_of(k):
    """CPU seconds at instruction k: every third has some."""
    return 0.001 * k if k % 3 == 1 else None


profile = json.load(open(model))
models = [f for f in profile["functions"]]
own = len(models)
for i in range(functions - own):
    f = copy.copy(models[i % own])
    f["name"] = "ns::Class%d<std::vector<double, std::allocator<double>>>::method_%d(int, double const*) const" % (i, i)
    f["module"] = "lib%d.so" % (i % 40)
    f["share"] = 0.0001
    if i >= 800:
        f.update(share=None, time_s=None, cpu_s=None, inclusive_s=None, time_ci95_s=None, instructions=1000, bytes=None, loops=[], lines=[])
    profile["functions"].append(f)
# As many instructions of hot loops as a profile has at most.
model_loop = next(f["loops"][0] for f in models if f["loops"])
for i in range(min(40, functions)):
    code = [
        {"offset": 4096 + 8 * k, "length": 8, "text": "vfmadd231pd ymm%d,ymm1,[rax+rcx*8+%#x]" % (k % 16, 32 * k), "executions": 10**9 + k, "cpu_s": period_of(k)}
        for k in range(60)
    ]
    profile["functions"][i]["loops"] = [dict(model_loop, disassembly={"instructions": code})]
profile["frames"] = [
    {"name": f["name"], "module": f["module"], "file": f["file"], "line": f["line"], "inlined": False}
    for f in profile["functions"]
]
stacks = []
for root in range(64):
    stacks.append({"parent": None, "frame": root})
for i in range(4096):
    stacks.append({"parent": i // 2, "frame": random.randrange(own + 800)})
profile["stacks"] = stacks
threads = len(profile["run"]["threads"])
period = 3.4 / samples
profile["samples"] = [
    {"t_s": i * period + 1e-9 * random.randrange(100), "weight_s": period, "thread": i % threads, "stack": random.randrange(len(stacks)), "waiting": False}
    for i in range(samples)
]
profile["run"]["passes"][0]["samples"] = samples
with open(out, "w") as file:
    json.dump(profile, file, separators=(",", ":"))
