//! Counts beside those of Nsight Compute for the same program.

use std::collections::HashMap;

use rprof::device::log::record::Launched;

use crate::recorded::logs::{collected, counted, fixture, shaped_values, three};

/// A launch as Nsight Compute counted it.
struct Reference {
    name: String,
    launched: Launched,
    values: HashMap<String, f64>,
}

/// Nsight Compute's table of a PyTorch program: quoted cells, thousands apart by commas, units in the second line.
fn nsight_compute() -> Vec<Reference> {
    let text = fixture("recorded/ncu-torch.csv");
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim_end().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).expect("quoted cells");
        inner.split("\",\"").map(str::to_owned).collect()
    };
    let shape = |cell: &str| three(&cell.trim_start_matches('(').trim_end_matches(')').replace(", ", "x"));
    let titles = cells(text.lines().next().expect("a line of titles"));
    let place = |title: &str| titles.iter().position(|other| other == title).unwrap_or_else(|| panic!("no {title}"));
    let (name, grid, block) = (place("Kernel Name"), place("Grid Size"), place("Block Size"));
    let first = place("dram__bytes_read.sum");
    let row = |line: &str| {
        let cells = cells(line);
        let launched = Launched { grid: shape(&cells[grid]), block: shape(&cells[block]) };
        let numbers = titles.iter().zip(&cells).skip(first);
        let values =
            numbers.map(|(title, cell)| (title.clone(), cell.replace(',', "").parse::<f64>().expect("a number")));
        Reference { name: cells[name].clone(), launched, values: values.collect() }
    };
    text.lines().skip(2).map(row).collect()
}

/// Parts of the names of PyTorch's kernels: mangled, and as Nsight Compute writes them.
const OF_PYTORCH: [(&str, &str); 11] = [
    ("normal_and_transformIff", "normal_and_transform<float"),
    ("normal_and_transformIN3c108BFloat16E", "normal_and_transform<c10::BFloat16"),
    ("bfloat16_copy_kernel_cuda", "bfloat16_copy_kernel_cuda"),
    ("FillFunctor", "FillFunctor"),
    ("nvjet_sm90_tst", "nvjet_sm90_tst"),
    ("sm80_xmma_gemm", "sm80_xmma_gemm"),
    ("sm90_xmma_gemm", "sm90_xmma_gemm"),
    ("layer_norm_kernel", "layer_norm_kernel"),
    ("cunn_SoftMaxForward", "cunn_SoftMaxForward"),
    ("CUDAFunctorOnSelf_add", "CUDAFunctorOnSelf_add"),
    ("GeluCUDAKernelImpl", "GeluCUDAKernelImpl"),
];

#[test]
fn counts_of_pytorchs_kernels_equal_those_of_nsight_compute() {
    let reference = nsight_compute();
    assert_eq!(reference.len(), 36);
    // The first launch of a kernel and shape, like the ranges.
    let same = |symbol: &str, launched: Launched| {
        let (_, name) = OF_PYTORCH.into_iter().find(|(mangled, _)| symbol.contains(*mangled))?;
        reference.iter().find(|row| row.name.contains(name) && row.launched == launched)
    };
    // 13 kernels with nine metrics of floating point; three products with these and six of the tensor cores.
    let logs = [(counted("range-torch-flops-one-call"), 13 * 9), (collected("collector-torch"), 3 * (9 + 6))];
    for (log, wanted) in &logs {
        let mut compared = 0;
        for (symbol, launched, metric, value) in shaped_values(log) {
            if !metric.contains("_pred_on") && !metric.contains("ops_path_tensor") {
                continue;
            }
            let Some(row) = same(symbol, launched) else { continue };
            assert_eq!(value, row.values[metric], "{symbol} {launched:?} {metric}");
            compared += 1;
        }
        assert_eq!(compared, *wanted);
    }
}
