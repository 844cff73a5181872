//! Families of measured curves: the text of each picture around its curves.

/// Curves with ids that begin alike share a picture.
#[derive(Debug, Clone, Copy)]
pub struct Family<'a> {
    /// How the ids begin.
    pub name: &'a str,
    pub title: &'a str,
    /// The picture's content, in one line.
    pub note: &'a str,
    /// Title of the horizontal axis.
    pub horizontal: &'a str,
    /// Whether x is the size of a working set, so that the ends of the caches belong into the picture.
    pub of_sets: bool,
}

/// Of the curves of reuse, one for each size.
const REUSE: &str =
    "one core's pass, a copy in, n kernels, a copy out; bytes that the core and all kernels read and write";

const KNOWN: [Family<'static>; 16] = [
    Family {
        name: "workingset",
        title: "bandwidth over working set",
        note: "by kind of stream; bytes as they cross the level that holds the set, fills and write-backs included",
        horizontal: "bytes of all threads' working sets",
        of_sets: true,
    },
    Family {
        name: "latency",
        title: "latency over working set, by size of pages",
        note: "one thread chases a pointer through scattered lines; the extra cost of 4 KiB pages is the TLB's",
        horizontal: "bytes of the working set",
        of_sets: true,
    },
    Family {
        name: "flops-per-element",
        title: "FLOP rate over FLOPs per element",
        note: "a polynomial of each element of an array in L1: bound by loads on the left, by the FP pipes on the right",
        horizontal: "FLOPs per element",
        of_sets: false,
    },
    Family {
        name: "overlap",
        title: "restarted dependency chains under way at once",
        note: "one thread; chains of n dependent operations, one after the other: the core overlaps as many as its window holds",
        horizontal: "operations in a chain",
        of_sets: false,
    },
    Family {
        name: "chains",
        title: "FLOP rate over independent chains",
        note: "one thread; where a curve turns flat, the pipes are full",
        horizontal: "independent chains",
        of_sets: false,
    },
    Family {
        name: "prefetch-distance",
        title: "DRAM read over software prefetch distance",
        note: "one prefetch for each line, n bytes ahead of the load",
        horizontal: "bytes ahead",
        of_sets: false,
    },
    Family {
        name: "gpu-reuse",
        title: "effective bandwidth over reuse of copied data, 64 MiB",
        note: REUSE,
        horizontal: "kernels on the data",
        of_sets: false,
    },
    Family {
        name: "gpu-reuse-8m",
        title: "effective bandwidth over reuse of copied data, 8 MiB",
        note: REUSE,
        horizontal: "kernels on the data",
        of_sets: false,
    },
    Family {
        name: "gpu-reuse-1m",
        title: "effective bandwidth over reuse of copied data, 1 MiB",
        note: REUSE,
        horizontal: "kernels on the data",
        of_sets: false,
    },
    Family {
        name: "gpu-link",
        title: "copies between host and GPU",
        note: "the best of four, as the host sees it",
        horizontal: "bytes of a copy",
        of_sets: false,
    },
    Family {
        name: "gpu-workingset",
        title: "read bandwidth over working set",
        note: "all multiprocessors read one set again and again, through L1 (l1l2) or past it (l2); small sets are merged on their way to L2",
        horizontal: "bytes of the set",
        of_sets: true,
    },
    Family {
        name: "gpu-l1",
        title: "read bandwidth over the set of each multiprocessor",
        note: "each multiprocessor reads a region of its own again and again",
        horizontal: "bytes of a region",
        of_sets: false,
    },
    Family {
        name: "gpu-flops-per-element",
        title: "FLOP rate over FLOPs per element",
        note: "each element is read, computed with and written: bound by bytes on the left, by the FP pipes on the right",
        horizontal: "FLOPs per element",
        of_sets: false,
    },
    Family {
        name: "gpu-ilp",
        title: "FLOP rate over warps, by independent chains in each",
        note: "FP32 FMA; a curve for each number of independent chains in a warp: warps times chains must cover the latency",
        horizontal: "warps on a multiprocessor",
        of_sets: false,
    },
    Family {
        name: "gpu-trials",
        title: "bandwidth over working set, by the place of the loop over trials",
        note: "in the kernel (update, read), around the launches, in the kernel with data staged in shared memory",
        horizontal: "bytes of the set",
        of_sets: true,
    },
    Family {
        name: "gpu-tensor-rate",
        title: "rate of the tensor cores over time",
        note: "launches of 4 ms after a pause: the clock falls when the power limit is reached",
        horizontal: "seconds since the first launch",
        of_sets: false,
    },
];

impl<'a> Family<'a> {
    /// The family of that name; an unknown family uses its name for all texts.
    pub fn named(name: &'a str) -> Family<'a> {
        let unknown = Family { name, title: name, note: "measured on this host", horizontal: name, of_sets: false };
        KNOWN.into_iter().find(|f| f.name == name).unwrap_or(unknown)
    }

    /// The family of a curve's id: the part before the first dot.
    pub fn of(id: &str) -> &str {
        id.split('.').next().unwrap_or(id)
    }
}
