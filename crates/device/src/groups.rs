//! Metrics that count the work of kernels, in groups of one pass each.
//!
//! Which are right, and which only look so: docs/conventions.md, GPU. On most chips the groups of bytes and of FLOPs have one pass each: a
//! kernel that is repeated finds another state of the caches. Operations of the tensor cores take up to seven passes. Names and
//! passes were asked of CUPTI 13.0 for TU102, GA100, GA102, AD102, GH100, GB100 and GB202 (fixtures/gpu/metrics.tsv).

use std::fmt::Write;

/// Bytes of DRAM, of L2, of L1, of shared memory, and warp instructions of the tensor cores.
pub const DRAM_READ: &str = "dram__bytes_read.sum";
/// See [`DRAM_READ`].
pub const DRAM_WRITE: &str = "dram__bytes_write.sum";
/// Sectors of 32 bytes that L2 served to the multiprocessors.
pub const L2_SECTORS: &str = "lts__t_sectors_srcunit_tex.sum";
/// Bytes from L2 to the multiprocessors, each of which counts its own: equal requests of several are merged on their way to L2.
pub const RECEIVED: &str = "l1tex__m_xbar2l1tex_read_bytes.sum";
/// Bytes from the multiprocessors to L2.
pub const SENT: &str = "l1tex__m_l1tex2xbar_write_bytes.sum";
/// Bytes between multiprocessors and L1.
pub const L1_BYTES: &str = "l1tex__t_bytes.sum";
/// Wavefronts of 128 bytes of shared memory.
pub const SHARED_WAVEFRONTS: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum";
/// Warp instructions.
pub const INSTRUCTIONS: &str = "smsp__inst_executed.sum";

/// The nine metrics of floating point: thread instructions with a true predicate.
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

/// Operations of the tensor cores, by type of the operands: multiplications and additions. No chip has all of these metrics.
pub const TENSOR: [(&str, &str); 8] = [
    ("bf16", "sm__ops_path_tensor_src_bf16_dst_fp32.sum"),
    ("f16", "sm__ops_path_tensor_src_fp16.sum"),
    ("f16", "sm__ops_path_tensor_src_fp16_dst_fp16.sum"),
    ("f16", "sm__ops_path_tensor_src_fp16_dst_fp32.sum"),
    ("tf32", "sm__ops_path_tensor_src_tf32_dst_fp32.sum"),
    ("fp64", "sm__ops_path_tensor_src_fp64.sum"),
    ("fp8", "sm__ops_path_tensor_src_fp8.sum"),
    ("int8", "sm__ops_path_tensor_src_int8.sum"),
];

/// Warp instructions of the tensor pipe: if it is 0 there are no operations to count. (Some FMAs of half precision use that pipe, too.)
pub const TENSOR_INSTRUCTIONS: &str = "sm__inst_executed_pipe_tensor.sum";

/// Sectors of 32 bytes that accesses to global memory touch.
pub const GLOBAL_SECTORS: &str = "smsp__sass_sectors_mem_global.sum";
/// Warp instructions that access global memory. One takes 16 sectors at most: 16 bytes for each of 32 threads.
pub const GLOBAL_INSTRUCTIONS: &str = "smsp__sass_inst_executed_op_global.sum";
/// Thread instructions with a true predicate.
pub const THREAD_INSTRUCTIONS: &str = "smsp__sass_thread_inst_executed_pred_on.sum";

/// Launches of each kernel and shape that are counted for bytes: the first finds cold caches.
const BYTES_LAUNCHES: u32 = 2;
/// Launches that are counted for FLOPs and for the bytes that multiprocessors receive, of which every one has the same.
const FLOPS_LAUNCHES: u32 = 1;

/// A group of metrics that are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Launches of each kernel and shape to count.
    pub launches: u32,
    /// The metric of another group that must not be 0.
    pub condition: Option<&'static str>,
    /// Names of its metrics.
    pub metrics: Vec<&'static str>,
}

/// The groups for a GPU of compute capability `major.minor`, in the order in which they matter.
pub fn groups(major: u32, minor: u32) -> Vec<Group> {
    let bytes = [DRAM_READ, DRAM_WRITE, L2_SECTORS, L1_BYTES, SHARED_WAVEFRONTS, INSTRUCTIONS, TENSOR_INSTRUCTIONS];
    let has = |metric: &str| match metric {
        DRAM_READ | DRAM_WRITE => major < 12,
        _ if !metric.contains("ops_path") => true,
        _ if metric.contains("src_int8") => true,
        _ if metric.contains("src_fp16.") => major == 9,
        _ if metric.contains("src_fp16_dst_fp16") => major != 9,
        _ if metric.contains("src_fp16_dst_fp32") => major >= 8 && major != 9,
        _ if metric.contains("src_fp8") => (major, minor) == (8, 9) || major == 9,
        _ => major >= 8,
    };
    let of = |launches, condition, metrics: &mut dyn Iterator<Item = &'static str>| Group {
        launches,
        condition,
        metrics: metrics.filter(|metric| has(metric)).collect(),
    };
    let code = [GLOBAL_SECTORS, GLOBAL_INSTRUCTIONS, THREAD_INSTRUCTIONS];
    vec![
        of(BYTES_LAUNCHES, None, &mut bytes.into_iter()),
        of(FLOPS_LAUNCHES, None, &mut FLOATING_POINT.iter().map(|(name, _)| *name).chain(code)),
        of(FLOPS_LAUNCHES, Some(TENSOR_INSTRUCTIONS), &mut TENSOR.iter().map(|(_, metric)| *metric)),
    ]
}

/// The group of the bytes that multiprocessors receive from L2 and send there, which is counted on demand: it takes two to five passes
/// (`fixtures/gpu/metrics.tsv`).
pub fn received() -> Group {
    Group { launches: FLOPS_LAUNCHES, condition: None, metrics: vec![RECEIVED, SENT] }
}

/// The file that the collector reads: a line for each group.
pub fn file(groups: &[Group]) -> String {
    groups.iter().fold(String::new(), |mut text, group| {
        let condition = group.condition.map_or(String::new(), |metric| format!("if:{metric} "));
        let _ = writeln!(text, "{} {condition}{}", group.launches, group.metrics.join(" "));
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
        assert_eq!(groups.len(), 3);
        assert!(file.contains("\n1 if:sm__inst_executed_pipe_tensor.sum sm__ops_path_tensor_src_bf16"), "{file}");
        let tensor = |major, minor| self::groups(major, minor)[2].metrics.len();
        assert_eq!([tensor(7, 5), tensor(8, 0), tensor(8, 9), tensor(9, 0), tensor(10, 0)], [2, 6, 7, 6, 6]);
        assert!(!self::groups(12, 0)[0].metrics.contains(&DRAM_READ), "it has no such metric");
    }
}
