//! What holds a function, a program or a kernel of a GPU: the one list of classes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares the classes with everything that a class has; one that lacks a column does not compile.
macro_rules! classes {
    ($($(#[doc = $doc:literal])* $variant:ident $name:literal $words:literal $colour:expr;)*) => {
        /// What holds a function, a program or a kernel of a GPU.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Class {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Class {
            /// All of them, in the order of legends.
            pub const ALL: &[Class] = &[$(Class::$variant),*];

            /// Its name in `profile.json`.
            pub fn name(self) -> &'static str {
                match self { $(Class::$variant => $name),* }
            }

            /// The words for it in a sentence: "held by …".
            pub fn words(self) -> &'static str {
                match self { $(Class::$variant => $words),* }
            }

            /// Red, green and blue, legible on light and dark ground; the same in every picture.
            pub fn colour(self) -> (u8, u8, u8) {
                match self { $(Class::$variant => $colour),* }
            }
        }
    };
}

classes! {
    DramBandwidth "dram-bandwidth" "memory bandwidth" (45, 112, 205);
    DramLatency "dram-latency" "memory latency" (108, 76, 196);
    L3Bandwidth "l3-bandwidth" "L3 bandwidth" (38, 146, 206);
    L2Bandwidth "l2-bandwidth" "L2 bandwidth" (28, 160, 176);
    CacheLatency "cache-latency" "cache latency" (146, 92, 182);
    PrivateCacheConflict "private-cache-conflict" "conflicts in L1 and L2" (122, 62, 148);
    Tlb "tlb" "address translation" (84, 96, 168);
    L1Bandwidth "l1-bandwidth" "loads and stores" (36, 160, 130);
    StoreForwarding "store-forwarding" "loads that wait for stores" (64, 140, 104);
    /// Lines that other threads write.
    Sharing "sharing" "cache lines that other threads write" (92, 128, 150);
    Ilp "ilp" "dependency chains" (214, 120, 28);
    Simd "simd" "unused vector lanes" (226, 88, 62);
    FmaBalance "fma-balance" "adds and multiplies that are not fused" (206, 66, 108);
    InstructionMix "instruction-mix" "the number of instructions" (186, 138, 24);
    DivSqrt "div-sqrt" "divisions and square roots" (176, 84, 44);
    /// The processor helps out with microcode: denormal operands and results.
    Assists "assists" "operations on denormal numbers" (190, 60, 90);
    /// Instructions that are programs of microcode themselves.
    Microcode "microcode" "microcoded instructions" (166, 100, 70);
    Mispredict "mispredict" "mispredicted branches" (200, 48, 48);
    FrontEnd "front-end" "instruction supply" (150, 116, 52);
    PageFaults "page-faults" "page faults" (98, 108, 58);
    SystemCalls "system-calls" "system calls" (76, 118, 88);
    Waiting "waiting" "waiting" (120, 112, 140);
    LoadImbalance "load-imbalance" "load imbalance" (196, 74, 158);
    Threads "threads" "unused CPUs" (160, 60, 130);
    Peak "peak" "the arithmetic peak" (60, 158, 72);
    WaitingForRanks "waiting-for-ranks" "waiting for other ranks" (138, 84, 150);
    NetworkLatency "network-latency" "the latency of the network" (66, 104, 150);
    NetworkBandwidth "network-bandwidth" "the rate of the network" (30, 130, 190);
    GpuDramBandwidth "gpu-dram-bandwidth" "the bandwidth of the GPU's memory" (45, 112, 205);
    GpuL2Bandwidth "gpu-l2-bandwidth" "the bandwidth of the GPU's L2" (28, 160, 176);
    GpuL1Bandwidth "gpu-l1-bandwidth" "the bandwidth of the GPU's L1" (36, 160, 130);
    GpuSharedBandwidth "gpu-shared-bandwidth" "the bandwidth of shared memory" (64, 140, 104);
    GpuFp64 "gpu-fp64" "the GPU's FP64 units" (60, 158, 72);
    GpuFp32 "gpu-fp32" "the GPU's FP32 units" (128, 160, 48);
    GpuFp16 "gpu-fp16" "the GPU's FP16 units" (170, 152, 36);
    GpuTensor "gpu-tensor" "the GPU's tensor cores" (206, 66, 108);
    GpuIssue "gpu-issue" "issue slots of the GPU" (186, 138, 24);
    GpuLatency "gpu-latency" "latency on the GPU" (214, 120, 28);
    GpuLaunch "gpu-launch" "launches of kernels" (200, 48, 48);
    Unknown "unknown" "no ceiling that was measured" (130, 134, 142);
}

impl Class {
    /// Whether it is of the kernel or of the threads, not of instructions and their data.
    pub fn is_of_system(self) -> bool {
        matches!(self, Class::PageFaults | Class::SystemCalls | Class::Waiting | Class::LoadImbalance | Class::Threads)
    }

    /// Whether it says what holds the time.
    pub fn is_known(self) -> bool {
        self != Class::Unknown
    }

    /// The class of that name.
    pub fn of_name(name: &str) -> Option<Class> {
        Class::ALL.iter().copied().find(|class| class.name() == name)
    }
}

impl Default for Class {
    /// Nothing is known.
    fn default() -> Class {
        Class::Unknown
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_class() {
        for class in Class::ALL {
            assert_eq!(Class::of_name(class.name()), Some(*class));
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
        assert_eq!(Class::of_name("example"), None);
    }
}
