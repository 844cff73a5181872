//! The meaning of the results of driver calls.

/// `CUresult`s that this crate looks at by itself.
pub const NO_DEVICE: u32 = 100;
/// Out of device or page-locked memory.
pub const OUT_OF_MEMORY: u32 = 2;

/// (code, its name, its meaning, the remedy)
const KNOWN: [(u32, &str, &str, &str); 30] = [
    (1, "INVALID_VALUE", "a value was refused", REPORT),
    (OUT_OF_MEMORY, "OUT_OF_MEMORY", "the memory is used up", "end other programs on this GPU"),
    (3, "NOT_INITIALIZED", "the driver is not initialised", REPORT),
    (34, "STUB_LIBRARY", "the library is a stub", "remove the toolkit's stubs folder from LD_LIBRARY_PATH"),
    (
        46,
        "DEVICE_UNAVAILABLE",
        "another program holds the GPU for itself",
        "end it, or leave compute mode EXCLUSIVE_PROCESS",
    ),
    (
        NO_DEVICE,
        "NO_DEVICE",
        "there is no GPU that this process may use",
        "check nvidia-smi, CUDA_VISIBLE_DEVICES and the container's devices",
    ),
    (101, "INVALID_DEVICE", "there is no such GPU", "check CUDA_VISIBLE_DEVICES"),
    (200, "INVALID_IMAGE", "the code was refused", REPORT),
    (201, "INVALID_CONTEXT", "the context is gone", REPORT),
    (209, "NO_BINARY_FOR_GPU", "the code is not for this GPU", REPORT),
    (214, "ECC_UNCORRECTABLE", "the memory has an error that cannot be corrected", "reset or replace the GPU"),
    (218, "INVALID_PTX", "the PTX was refused", REPORT),
    (
        221,
        "JIT_COMPILER_NOT_FOUND",
        "libnvidia-ptxjitcompiler is missing",
        "install it; containers need the driver capability `compute`",
    ),
    (222, "UNSUPPORTED_PTX_VERSION", "the driver is too old for this PTX", "install driver 520 or later"),
    (500, "NOT_FOUND", "there is no such function", REPORT),
    (700, "ILLEGAL_ADDRESS", "a kernel used a wrong address; the context is lost", LOST),
    (701, "LAUNCH_OUT_OF_RESOURCES", "the GPU has not the registers or shared memory for a launch", REPORT),
    (702, "LAUNCH_TIMEOUT", "a kernel was ended by the watchdog; the context is lost", "use a GPU without a display"),
    (715, "ILLEGAL_INSTRUCTION", "the GPU refused an instruction; the context is lost", LOST),
    (719, "LAUNCH_FAILED", "a kernel failed; the context is lost", LOST),
    (801, "NOT_SUPPORTED", "this GPU or system does not support that", "nothing: the figure is left out"),
    (802, "SYSTEM_NOT_READY", "the system is not ready", "start nvidia-fabricmanager"),
    (
        803,
        "SYSTEM_DRIVER_MISMATCH",
        "the kernel module and libcuda are of different versions",
        "load the module that belongs to the library, or reboot",
    ),
    (
        804,
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "the driver is too old for this CUDA",
        "install a newer driver; the compatibility package does not serve this GPU",
    ),
    (805, "MPS_CONNECTION_FAILED", "the MPS daemon does not answer", MPS),
    (806, "MPS_RPC_FAILURE", "the MPS server does not answer", MPS),
    (807, "MPS_SERVER_NOT_READY", "the MPS server recovers from an error of another program", "try again later"),
    (
        808,
        "MPS_MAX_CLIENTS_REACHED",
        "the MPS server has no room for another program",
        "end other programs on this GPU",
    ),
    (
        809,
        "MPS_MAX_CONNECTIONS_REACHED",
        "the MPS server has no room for another program",
        "end other programs on this GPU",
    ),
    (999, "UNKNOWN", "the driver does not say what failed: the GPU may be lost", LOST),
];

const MPS: &str = "end the daemon (`echo quit | nvidia-cuda-mps-control`), or unset CUDA_MPS_PIPE_DIRECTORY";
const REPORT: &str = "please report this as a defect of rprof";
const LOST: &str = "look for Xid lines in dmesg; `nvidia-smi -q` tells of ECC errors";

fn known(code: u32) -> Option<&'static (u32, &'static str, &'static str, &'static str)> {
    KNOWN.iter().find(|k| k.0 == code)
}

/// `the memory is used up (CUDA_ERROR_OUT_OF_MEMORY, 2)`.
pub fn text(code: u32) -> String {
    known(code).map_or_else(|| format!("CUDA error {code}"), |k| format!("{} (CUDA_ERROR_{}, {code})", k.2, k.1))
}

/// The remedy.
pub fn hint(code: u32) -> &'static str {
    known(code).map_or("run nvidia-smi", |k| k.3)
}

/// Whether the context is lost after it.
pub fn is_fatal(code: u32) -> bool {
    matches!(code, 201 | 214 | 700 | 702 | 709..=719 | 805..=807 | 999)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_unknown_ones_a_number() {
        assert_eq!(text(2), "the memory is used up (CUDA_ERROR_OUT_OF_MEMORY, 2)");
        assert_eq!((text(12345).as_str(), hint(12345)), ("CUDA error 12345", "run nvidia-smi"));
        assert!(is_fatal(719) && is_fatal(700) && !is_fatal(2));
        assert!(KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
