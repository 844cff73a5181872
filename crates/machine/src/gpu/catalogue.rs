//! The ids of all ceilings of a GPU, with their units.

/// (id, unit), in the order of reports.
pub const ALL: [(&str, &str); 54] = [
    ("gpu.fp64.fma", "flop/s"),
    ("gpu.fp64.add", "flop/s"),
    ("gpu.fp64.mul", "flop/s"),
    ("gpu.fp32.fma", "flop/s"),
    ("gpu.fp32.add", "flop/s"),
    ("gpu.fp32.mul", "flop/s"),
    ("gpu.fp16.fma", "flop/s"),
    ("gpu.fp16.add", "flop/s"),
    ("gpu.fp16.mul", "flop/s"),
    ("gpu.bf16.fma", "flop/s"),
    ("gpu.bf16.add", "flop/s"),
    ("gpu.bf16.mul", "flop/s"),
    ("gpu.int32.mad", "op/s"),
    ("gpu.ex2", "op/s"),
    ("gpu.mma.bf16", "flop/s"),
    ("gpu.mma.f16", "flop/s"),
    ("gpu.mma.tf32", "flop/s"),
    ("gpu.mma.s8", "op/s"),
    ("gpu.mma.fp64", "flop/s"),
    ("gpu.tensor.bf16", "flop/s"),
    ("gpu.tensor.f16", "flop/s"),
    ("gpu.tensor.tf32", "flop/s"),
    ("gpu.tensor.fp8", "flop/s"),
    ("gpu.tensor.int8", "op/s"),
    ("gpu.tensor.fp64", "flop/s"),
    ("gpu.tensor.bf16.sustained", "flop/s"),
    ("gpu.tensor.f16.sustained", "flop/s"),
    ("gpu.tensor.tf32.sustained", "flop/s"),
    ("gpu.tensor.fp8.sustained", "flop/s"),
    ("gpu.tensor.int8.sustained", "op/s"),
    ("gpu.dram.read", "byte/s"),
    ("gpu.dram.copy", "byte/s"),
    ("gpu.dram.triad", "byte/s"),
    ("gpu.dram.update", "byte/s"),
    ("gpu.dram.write", "byte/s"),
    ("gpu.l2.read", "byte/s"),
    ("gpu.l1.read", "byte/s"),
    ("gpu.shared.read", "byte/s"),
    ("gpu.shared.write", "byte/s"),
    ("gpu.shared.stride2", "byte/s"),
    ("gpu.shared.stride32", "byte/s"),
    ("gpu.lat.l1", "s"),
    ("gpu.lat.l2", "s"),
    ("gpu.lat.dram", "s"),
    ("gpu.launch", "s"),
    ("gpu.launch.wait", "s"),
    ("gpu.link.h2d.pinned", "byte/s"),
    ("gpu.link.d2h.pinned", "byte/s"),
    ("gpu.link.h2d.pageable", "byte/s"),
    ("gpu.link.d2h.pageable", "byte/s"),
    ("gpu.link.both.pinned", "byte/s"),
    ("gpu.link.zerocopy", "byte/s"),
    ("gpu.link.managed.to-gpu", "byte/s"),
    ("gpu.link.managed.to-cpu", "byte/s"),
];

/// The unit of ceiling `id`.
pub fn unit(id: &str) -> &'static str {
    ALL.iter().find(|(known, _)| *known == id).map_or("", |(_, unit)| unit)
}

/// The place of ceiling `id` in reports.
pub fn place(id: &str) -> usize {
    ALL.iter().position(|(known, _)| *known == id).unwrap_or(ALL.len())
}
