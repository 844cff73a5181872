//! Multiplications with a product that only one addition of the same block uses: both could be one fused operation.

use crate::form::{Form, Kind};
use crate::op::{NO_FORM, NONE, Op, kind};

/// Marks such pairs among the instructions of a block.
pub(super) fn mark(ops: &mut [Op]) {
    for product in 0..ops.len() {
        if let Some(sum) = taker(ops, product) {
            ops[product].kind |= kind::FUSED_PRODUCT;
            ops[sum].kind |= kind::FUSED_SUM;
        }
    }
}

/// The addition that takes the product of instruction `product`.
fn taker(ops: &[Op], product: usize) -> Option<usize> {
    let multiply = &ops[product];
    let register = multiply.writes[0];
    if !is(multiply, Kind::FMul) || register == NONE || multiply.is(kind::STORE) {
        return None;
    }
    let behind = &ops[product + 1..];
    let reads = |op: &Op| op.data.contains(&register) || op.address.contains(&register);
    let writes = |op: &Op| op.writes.contains(&register);
    let first = behind.iter().position(|op| reads(op) || writes(op))?;
    let sum = &behind[first];
    let fits = is(sum, Kind::FAdd) && sum.form % 4 == multiply.form % 4 && !sum.is(kind::FUSED_SUM);
    if !fits || !sum.data.contains(&register) {
        return None;
    }
    // The product must be dead behind the sum.
    let dead =
        writes(sum) || behind[first + 1..].iter().find(|op| reads(op) || writes(op)).is_some_and(|op| !reads(op));
    dead.then_some(product + 1 + first)
}

fn is(op: &Op, kind: Kind) -> bool {
    op.form != NO_FORM && Form(op.form).kind() == kind
}
