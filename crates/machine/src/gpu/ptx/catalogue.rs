//! One kernel of every kind, in the shapes that reach the roofs.

use super::{
    Access, Cached, Data, Kernel, Operation, Precision, Shape, Stream, Type, chase, dmma, empty, fill,
    flops_per_element, flush, l1_region, launches_update, link, mix, mma, scalar, scalar_in_lanes, shared, staged,
    stream, trials_read, trials_update, wgmma, working_set,
};

/// All kinds of kernels, for tests.
pub fn all() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for precision in [Precision::F64, Precision::F32, Precision::F16, Precision::Bf16] {
        let unroll = if precision == Precision::Bf16 { 16 } else { 32 };
        for operation in [Operation::Fma, Operation::Add, Operation::Mul] {
            kernels.push(scalar(operation, precision, 8, unroll));
        }
    }
    kernels.push(scalar(Operation::Fma, Precision::I32, 8, 16));
    kernels.push(scalar(Operation::Ex2, Precision::F32, 8, 16));
    kernels.push(scalar_in_lanes(Operation::Fma, Precision::F32, 8, 16, 8));
    kernels.extend([1, 2, 4].map(|chains| scalar(Operation::Fma, Precision::F32, chains, 128 / chains)));
    let types = [Type::Bf16, Type::F16, Type::Tf32, Type::E4m3, Type::S8];
    kernels.extend(types.map(|kind| mma(kind, 8, 4)));
    kernels.push(mma(Type::Bf16, 16, 2));
    kernels.push(dmma(Shape::M8N8K4, 8, 4));
    kernels.push(dmma(Shape::M16N8K16, 4, 4));
    kernels.extend(types.map(wgmma));
    kernels.push(stream(Stream::Read, 8));
    kernels.extend([Stream::Copy, Stream::Triad, Stream::Update, Stream::Write].map(|kind| stream(kind, 4)));
    kernels.extend([Cached::L2Only, Cached::L1AndL2].map(working_set));
    kernels.push(l1_region());
    kernels.extend([Access::Read, Access::Write, Access::Stride2, Access::Stride32].map(shared));
    kernels.extend([trials_update(), trials_read(), launches_update(), staged()]);
    for precision in [Precision::F32, Precision::F64] {
        for data in [Data::FromDram, Data::FromL1] {
            kernels.extend((1..=8).map(|power| flops_per_element(precision, 1 << power, data)));
        }
    }
    kernels.extend([Cached::L1AndL2, Cached::L2Only].map(chase));
    kernels.push(flush());
    kernels.push(fill());
    kernels.extend([link(), mix(), empty()]);
    kernels
}
