//! Metrics that count the work of kernels, in groups of one pass each.
//!
//! Which are right, and which only look so: docs/conventions.md, GPU. A group has one pass because a kernel that is repeated finds another
//! state of the caches.

use std::fmt::Write;

/// Bytes of DRAM, of L2, of L1, of shared memory, and warp instructions of the tensor cores.
pub const DRAM_READ: &str = "dram__bytes_read.sum";
/// See [`DRAM_READ`].
pub const DRAM_WRITE: &str = "dram__bytes_write.sum";
/// Sectors of 32 bytes that L2 served to the multiprocessors.
pub const L2_SECTORS: &str = "lts__t_sectors_srcunit_tex.sum";
/// Bytes between multiprocessors and L1.
pub const L1_BYTES: &str = "l1tex__t_bytes.sum";
/// Wavefronts of 128 bytes of shared memory.
pub const SHARED_WAVEFRONTS: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum";
/// Warp instructions.
pub const INSTRUCTIONS: &str = "smsp__inst_executed.sum";

/// The nine metrics of floating point: instructions of threads whose predicate held.
pub const FLOATING_POINT: [(&str, f64); 9] = [
    ("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 2.0),
    ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2.0),
    // Two lanes an instruction.
    ("smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 2.0),
    ("smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 2.0),
    ("smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 4.0),
];

/// Operations of the tensor cores, by type of the operands. They are operations already: multiplications and additions.
pub const TENSOR: [(&str, &str); 6] = [
    ("bf16", "sm__ops_path_tensor_src_bf16_dst_fp32.sum"),
    ("f16", "sm__ops_path_tensor_src_fp16.sum"),
    ("tf32", "sm__ops_path_tensor_src_tf32_dst_fp32.sum"),
    ("fp64", "sm__ops_path_tensor_src_fp64.sum"),
    ("fp8", "sm__ops_path_tensor_src_fp8.sum"),
    ("int8", "sm__ops_path_tensor_src_int8.sum"),
];

/// Launches of each kernel and shape that are counted for bytes: the first finds cold caches.
const BYTES_LAUNCHES: u32 = 2;
/// Launches that are counted for FLOPs, of which every one has the same.
const FLOPS_LAUNCHES: u32 = 1;

/// A group of metrics that are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Launches of each kernel and shape to count.
    pub launches: u32,
    /// Names of its metrics.
    pub metrics: Vec<&'static str>,
}

/// The groups for a GPU of compute capability `major.minor`, in the order in which they matter.
pub fn groups(major: u32, minor: u32) -> Vec<Group> {
    let bytes = [DRAM_READ, DRAM_WRITE, L2_SECTORS, L1_BYTES, SHARED_WAVEFRONTS, INSTRUCTIONS];
    let has = |metric: &str| match (major, minor) {
        // No operations by type on Turing and older; no FP8 before Ada's data centre parts.
        (..=7, _) => !metric.contains("ops_path"),
        (8, _) | (10.., _) => !metric.ends_with("src_fp8.sum"),
        _ => true,
    };
    let of = |launches, metrics: Vec<&'static str>| Group {
        launches,
        metrics: metrics.into_iter().filter(|m| has(m)).collect(),
    };
    let tensor = TENSOR.iter().map(|(_, metric)| of(FLOPS_LAUNCHES, vec![*metric]));
    let all = [
        of(BYTES_LAUNCHES, bytes.to_vec()),
        of(FLOPS_LAUNCHES, FLOATING_POINT.iter().map(|(name, _)| *name).collect()),
    ];
    all.into_iter().chain(tensor).filter(|group| !group.metrics.is_empty()).collect()
}

/// The file that the collector reads: a line for each group.
pub fn file(groups: &[Group]) -> String {
    groups.iter().fold(String::new(), |mut text, group| {
        let _ = writeln!(text, "{} {}", group.launches, group.metrics.join(" "));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_a_line_for_each_group() {
        let groups = groups(9, 0);
        let file = file(&groups);
        assert_eq!(file.lines().count(), groups.len());
        assert!(file.starts_with("2 dram__bytes_read.sum dram__bytes_write.sum "), "{file}");
        assert_eq!(groups.len(), 8, "the collector takes eight");
        assert!(self::groups(7, 5).iter().all(|group| group.metrics.iter().all(|metric| !metric.contains("ops_path"))));
    }
}
