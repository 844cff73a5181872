//! Output shapes of operators, and their work.

use super::messages::{Attribute, Node};
use crate::Work;
use rprof_machine::products::elementwise::Operation;
use rprof_profile::blas::Dimensions;

/// A node's output, and its work.
#[derive(Debug, Clone, PartialEq)]
pub struct Yield {
    /// The shape of its first output; `None`: not known.
    pub shape: Option<Vec<u64>>,
    /// Its work, and calls of it. Empty: none, or it is `unknown`.
    pub work: Vec<(Work, u64)>,
    /// Its work is not predicted.
    pub is_unknown: bool,
}

impl Yield {
    fn free(shape: Option<Vec<u64>>) -> Result<Yield, String> {
        Ok(Yield { shape, work: Vec::new(), is_unknown: false })
    }

    fn unknown(shape: Option<Vec<u64>>) -> Result<Yield, String> {
        Ok(Yield { shape, work: Vec::new(), is_unknown: true })
    }

    fn of(shape: Vec<u64>, work: Work, calls: u64) -> Result<Yield, String> {
        let sizes = match &work {
            Work::Product(shape) => vec![shape.m, shape.n, shape.k.unwrap_or(1)],
            Work::Elementwise(_, elements) => vec![*elements],
        };
        if sizes.contains(&0) || calls == 0 {
            return Err("a size is 0, so there is nothing to compute".into());
        }
        Ok(Yield { shape: Some(shape), work: vec![(work, calls)], is_unknown: false })
    }
}

/// Product of sizes. `None`: an overflow.
pub fn elements(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size))
}

fn attribute<'n>(node: &'n Node, name: &str) -> Option<&'n Attribute> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

fn integer(node: &Node, name: &str, default: i64) -> i64 {
    attribute(node, name).map_or(default, |attribute| attribute.i)
}

/// `[1, 1]` of `strides`, and the like: `n` sizes from `least` on.
fn integers(node: &Node, name: &str, (n, least, default): (usize, u64, u64)) -> Result<Vec<u64>, String> {
    let Some(found) = attribute(node, name) else { return Ok(vec![default; n]) };
    if found.ints.len() != n {
        return Err(format!("{name} has {} sizes instead of {n}", found.ints.len()));
    }
    let size = |size: &i64| u64::try_from(*size).ok().filter(|size| *size >= least);
    let wrong = |size: &i64| format!("{name} has a size of {size}, which is less than {least}");
    found.ints.iter().map(|i| size(i).ok_or_else(|| wrong(i))).collect()
}

/// Sizes [m, n, k] in single precision; without k of a matrix by a vector.
fn product([m, n]: [u64; 2], k: Option<u64>, transposes: &str) -> Work {
    let transposes = transposes.to_owned();
    Work::Product(Dimensions { m, n, k, transposes, is_row_major: true, is_double: false, is_complex: false })
}

/// Refuses a bias of `shape` that cannot be added to an `output` without changing its shape.
fn bias_fits(shape: Option<&Vec<u64>>, output: &[u64]) -> Result<(), String> {
    let Some(shape) = shape else { return Ok(()) };
    let sizes = shape.iter().rev().zip(output.iter().rev());
    let fits = shape.len() <= output.len() && sizes.fold(true, |fits, (a, b)| fits && (a == b || *a == 1));
    if fits { Ok(()) } else { Err(format!("a bias of {shape:?} does not fit an output of {output:?}")) }
}

/// The output of `node` for inputs of these shapes (`None`: not known or absent). `target` is the value of its second input, if that is
/// a list of sizes.
///
/// # Errors
/// The shapes do not go together.
pub fn infer(node: &Node, inputs: &[Option<&Vec<u64>>], target: Option<&[i64]>) -> Result<Yield, String> {
    let first = inputs.first().copied().flatten();
    let needed = |i: usize| {
        let name = node.input.get(i).map_or("", String::as_str);
        inputs.get(i).copied().flatten().ok_or_else(|| format!("the shape of its input {name:?} is not known"))
    };
    let elementwise = |operation: Operation| {
        let shape = needed(0)?;
        let size = elements(shape).ok_or("its output is too large")?;
        Yield::of(shape.clone(), Work::Elementwise(operation, size), 1)
    };
    match node.op_type.as_str() {
        "MatMul" => matrix_product(needed(0)?, needed(1)?),
        "Gemm" => {
            let (a, b) = (needed(0)?, needed(1)?);
            let ([a0, a1], [b0, b1]) = (pair(a)?, pair(b)?);
            let (ta, tb) = (integer(node, "transA", 0) != 0, integer(node, "transB", 0) != 0);
            let (m, k) = if ta { (a1, a0) } else { (a0, a1) };
            let (inner, n) = if tb { (b1, b0) } else { (b0, b1) };
            if k != inner {
                return Err(format!("{m} × {k} by {inner} × {n} does not go together"));
            }
            let letter = |t| if t { 'T' } else { 'N' };
            bias_fits(inputs.get(2).copied().flatten(), &[m, n])?;
            let work = product([m, n], Some(k), &format!("{}{}", letter(ta), letter(tb)));
            Yield::of(vec![m, n], work, 1)
        }
        "Conv" => {
            let weights = needed(1)?;
            if let Some(bias) = inputs.get(2).copied().flatten().filter(|bias| Some(&bias[..]) != weights.get(..1)) {
                return Err(format!("a bias of {bias:?} does not fit weights of {weights:?}"));
            }
            convolution(node, needed(0)?, weights)
        }
        "Relu" | "LeakyRelu" | "Clip" => elementwise(Operation::Relu),
        "Sigmoid" => elementwise(Operation::Sigmoid),
        "Exp" => elementwise(Operation::Exp),
        "Tanh" => elementwise(Operation::Tanh),
        "Add" | "Sub" | "Mul" => {
            let shape = broadcast(needed(0)?, needed(1)?)?;
            let size = elements(&shape).ok_or("its output is too large")?;
            Yield::of(shape, Work::Elementwise(Operation::Add, size), 1)
        }
        "Flatten" => {
            let shape = needed(0)?;
            let axis = integer(node, "axis", 1);
            let from_end = if axis < 0 { shape.len() as i64 } else { 0 };
            let axis = usize::try_from(axis + from_end).ok().filter(|axis| *axis <= shape.len());
            let axis = axis.ok_or_else(|| format!("its axis is none of {} dimensions", shape.len()))?;
            let sizes = elements(&shape[..axis]).zip(elements(&shape[axis..])).ok_or("its output is too large")?;
            Yield::free(Some(vec![sizes.0, sizes.1]))
        }
        "Reshape" => match (first, target) {
            (Some(shape), Some(target)) => Yield::free(Some(reshaped(shape, target)?)),
            _ => Yield::free(None),
        },
        "Identity" | "Dropout" | "Cast" => Yield::free(first.cloned()),
        "Constant" | "Shape" | "Squeeze" | "Unsqueeze" => Yield::free(None),
        "MaxPool" | "AveragePool" => {
            let shape = needed(0)?;
            let n = attribute(node, "kernel_shape").map(|a| a.ints.len()).ok_or("it has no kernel_shape")?;
            let kernel = integers(node, "kernel_shape", (n, 1, 1))?;
            Yield::unknown(Some(windows(node, shape, &kernel, shape.get(1).copied().unwrap_or(1))?))
        }
        "GlobalAveragePool" => {
            let shape = needed(0)?;
            Yield::unknown(Some(shape.iter().enumerate().map(|(i, size)| if i < 2 { *size } else { 1 }).collect()))
        }
        "BatchNormalization" | "Softmax" | "LayerNormalization" | "Gelu" | "Erf" | "Sqrt" => {
            Yield::unknown(first.cloned())
        }
        _ => Yield::unknown(None),
    }
}

fn pair(shape: &[u64]) -> Result<[u64; 2], String> {
    shape.try_into().map_err(|_| format!("a matrix is needed, not {} dimensions", shape.len()))
}

/// Of the last two dimensions, for all others. One dimension is a vector: a row as the first operand, a column as the second.
fn matrix_product(a: &[u64], b: &[u64]) -> Result<Yield, String> {
    let many = |of: &[u64], more: u64| {
        elements(of).and_then(|all| all.checked_mul(more)).ok_or_else(|| "it has too many rows".to_owned())
    };
    let together = |k: u64, inner: u64| match k == inner {
        true => Ok(()),
        false => Err(format!("{a:?} by {b:?} does not go together")),
    };
    match (a, b) {
        ([], _) | (_, []) => return Err("a vector or a matrix is needed, not a single number".into()),
        (&[ref rows @ .., k], &[inner]) => {
            together(k, inner)?;
            return Yield::of(rows.to_vec(), product([many(rows, 1)?, k], None, "N"), 1);
        }
        (&[k], &[ref batch @ .., inner, n]) => {
            together(k, inner)?;
            let shape = [batch, &[n]].concat();
            return Yield::of(shape, product([k, n], None, "T"), many(batch, 1)?);
        }
        _ => {}
    }
    let (Some((&[m, k], batch)), Some((&[inner, n], others))) = (split(a), split(b)) else {
        return Err("matrices are needed".into());
    };
    together(k, inner)?;
    let outer = broadcast(batch, others)?;
    let calls = elements(&outer).ok_or("it has too many matrices")?;
    let shape = [&outer[..], &[m, n]].concat();
    // One matrix for all: the rows of all are one product.
    if others.is_empty() {
        return Yield::of(shape, product([many(batch, m)?, n], Some(k), "NN"), 1);
    }
    Yield::of(shape, product([m, n], Some(k), "NN"), calls)
}

fn split(shape: &[u64]) -> Option<(&[u64; 2], &[u64])> {
    shape.split_last_chunk::<2>().map(|(outer, last)| (last, outer))
}

fn broadcast(a: &[u64], b: &[u64]) -> Result<Vec<u64>, String> {
    let length = a.len().max(b.len());
    let size = |shape: &[u64], i: usize| (i + shape.len()).checked_sub(length).map_or(1, |i| shape[i]);
    (0..length)
        .map(|i| match (size(a, i), size(b, i)) {
            (a, b) if a == b || b == 1 => Ok(a),
            (1, b) => Ok(b),
            (a, b) => Err(format!("sizes {a} and {b} do not go together")),
        })
        .collect()
}

fn reshaped(shape: &[u64], target: &[i64]) -> Result<Vec<u64>, String> {
    let all = elements(shape).ok_or("its input is too large")?;
    if target.iter().filter(|size| **size < 0).count() > 1 || target.iter().any(|size| *size < -1) {
        return Err(format!("a shape of {target:?} has more than one free size, or one below -1"));
    }
    let mut sizes: Vec<u64> = target
        .iter()
        .enumerate()
        .map(|(i, size)| match size {
            0 => shape.get(i).copied().unwrap_or(1),
            size => u64::try_from(*size).unwrap_or(1),
        })
        .collect();
    if let Some(free) = target.iter().position(|size| *size < 0) {
        let rest = elements(&sizes).filter(|rest| *rest > 0).ok_or("its shape is empty")?;
        sizes[free] = all / rest;
    }
    match elements(&sizes) {
        Some(size) if size == all => Ok(sizes),
        _ => Err(format!("{all} elements do not fill its shape")),
    }
}

/// The output of something with windows of `kernel` over all but the first two dimensions.
fn windows(node: &Node, shape: &[u64], kernel: &[u64], channels: u64) -> Result<Vec<u64>, String> {
    let n = kernel.len();
    if shape.len() != n + 2 || n == 0 {
        return Err(format!("an input of {} dimensions is needed, not of {}", n + 2, shape.len()));
    }
    let strides = integers(node, "strides", (n, 1, 1))?;
    let dilations = integers(node, "dilations", (n, 1, 1))?;
    let mut pads = integers(node, "pads", (2 * n, 0, 0))?;
    let padding = attribute(node, "auto_pad").map_or(&b"NOTSET"[..], |a| &a.s);
    match padding {
        b"NOTSET" | b"" | b"SAME_UPPER" | b"SAME_LOWER" => {}
        b"VALID" => pads.fill(0),
        other => return Err(format!("auto_pad {:?} is not known", String::from_utf8_lossy(other))),
    }
    let round_up = integer(node, "ceil_mode", 0) != 0;
    let mut out = vec![shape[0], channels];
    for i in 0..n {
        let stride = strides[i];
        if padding.starts_with(b"SAME") {
            out.push(shape[2 + i].div_ceil(stride));
            continue;
        }
        let taps = kernel[i].checked_sub(1).ok_or("a window has no element")?;
        let width = dilations[i].saturating_mul(taps).saturating_add(1);
        let padded = shape[2 + i].saturating_add(pads[i]).saturating_add(pads[n + i]);
        let room = padded.checked_sub(width).ok_or_else(|| format!("a window of {width} over {padded}"))?;
        out.push(1 + if round_up { room.div_ceil(stride) } else { room / stride });
    }
    Ok(out)
}

/// As a product of each image: weights by the columns of its windows (im2col).
fn convolution(node: &Node, input: &[u64], weights: &[u64]) -> Result<Yield, String> {
    let [out_channels, per_group, kernel @ ..] = weights else { return Err("its weights have no channels".into()) };
    let groups = u64::try_from(integer(node, "group", 1)).unwrap_or(0);
    if groups == 0 || out_channels % groups != 0 || input.get(1) != per_group.checked_mul(groups).as_ref() {
        let channels = input.get(1).copied().unwrap_or(0);
        return Err(format!(
            "{channels} channels in {groups} groups of {per_group}, {out_channels} out, do not go together"
        ));
    }
    if let Some(said) = attribute(node, "kernel_shape")
        && !said.ints.iter().map(|size| u64::try_from(*size)).eq(kernel.iter().map(|size| Ok(*size)))
    {
        return Err(format!("its kernel_shape is not that of its weights, {kernel:?}"));
    }
    let shape = windows(node, input, kernel, *out_channels)?;
    // One channel a group: no matrix product.
    if *per_group == 1 && groups > 1 {
        return Yield::unknown(Some(shape));
    }
    let columns = elements(&shape[2..]).ok_or("its output is too large")?;
    let terms = elements(&weights[1..]).ok_or("its weights are too large")?;
    let calls = input[0].checked_mul(groups).ok_or("it has too many products")?;
    Yield::of(shape, product([out_channels / groups, columns], Some(terms), "NN"), calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(op_type: &str, attributes: &[(&str, &[i64])]) -> Node {
        let attribute = |(name, ints): &(&str, &[i64])| Attribute {
            name: (*name).into(),
            i: ints[0],
            ints: ints.to_vec(),
            ..Attribute::default()
        };
        Node { op_type: op_type.into(), attribute: attributes.iter().map(attribute).collect(), ..Node::default() }
    }

    fn of(node: &Node, inputs: &[&[u64]]) -> Result<Yield, String> {
        let inputs: Vec<Vec<u64>> = inputs.iter().map(|shape| shape.to_vec()).collect();
        infer(node, &inputs.iter().map(Some).collect::<Vec<_>>(), None)
    }

    fn sizes(found: &Yield) -> (Vec<u64>, Option<[u64; 3]>, u64) {
        let (work, calls) = found.work.first().expect("work");
        let sizes = match work {
            Work::Product(shape) => Some([shape.m, shape.n, shape.k.unwrap_or(0)]),
            Work::Elementwise(..) => None,
        };
        (found.shape.clone().expect("a shape"), sizes, *calls)
    }

    #[test]
    fn products_and_convolutions() {
        let gemm = of(&node("Gemm", &[("transB", &[1])]), &[&[128, 784], &[50, 784]]).unwrap();
        assert_eq!(sizes(&gemm), (vec![128, 50], Some([128, 50, 784]), 1));
        // The first layer of LeNet: 6 filters of 5 × 5 over 28 × 28 with padding 2.
        let conv = of(&node("Conv", &[("pads", &[2, 2, 2, 2])]), &[&[32, 1, 28, 28], &[6, 1, 5, 5]]).unwrap();
        assert_eq!(sizes(&conv), (vec![32, 6, 28, 28], Some([6, 784, 25]), 32));
        let grouped = of(&node("Conv", &[("group", &[2])]), &[&[3, 4, 8, 8], &[6, 2, 3, 3]]).unwrap();
        assert_eq!(sizes(&grouped), (vec![3, 6, 6, 6], Some([3, 36, 18]), 6));
        let batched = of(&node("MatMul", &[]), &[&[8, 12, 64, 32], &[8, 12, 32, 64]]).unwrap();
        assert_eq!(sizes(&batched), (vec![8, 12, 64, 64], Some([64, 64, 32]), 96));
        let shared = of(&node("MatMul", &[]), &[&[8, 12, 32], &[32, 64]]).unwrap();
        assert_eq!(sizes(&shared), (vec![8, 12, 64], Some([96, 64, 32]), 1));
    }

    #[test]
    fn vectors_are_rows_and_columns() {
        let vector = |a: &[u64], b: &[u64]| {
            let found = of(&node("MatMul", &[]), &[a, b]).unwrap();
            let Some((Work::Product(work), calls)) = found.work.first() else { panic!("no product") };
            (found.shape.clone().unwrap(), work.to_string(), *calls)
        };
        assert_eq!(vector(&[8, 64, 32], &[32]), (vec![8, 64], "512 × 32 N".into(), 1));
        assert_eq!(vector(&[32], &[32, 10]), (vec![10], "32 × 10 T".into(), 1));
        assert_eq!(vector(&[32], &[5, 32, 10]), (vec![5, 10], "32 × 10 T".into(), 5));
        assert_eq!(vector(&[32], &[32]), (vec![], "1 × 32 N".into(), 1));
        assert!(of(&node("MatMul", &[]), &[&[32], &[31, 10]]).is_err());
        assert!(of(&node("MatMul", &[]), &[&[], &[3, 3]]).is_err());
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let image: &[u64] = &[1, 4, 8, 8];
        let weights: &[u64] = &[6, 4, 3, 3];
        let refused = |node: Node, inputs: &[&[u64]], part: &str| {
            let error = of(&node, inputs).expect_err(part);
            assert!(error.contains(part), "{error}");
        };
        refused(node("Conv", &[("strides", &[0, 1])]), &[image, weights], "strides has a size of 0");
        refused(node("Conv", &[("dilations", &[1, 0])]), &[image, weights], "dilations has a size of 0");
        refused(node("Conv", &[("pads", &[1, 1, -1, 1])]), &[image, weights], "pads has a size of -1");
        refused(node("Conv", &[("strides", &[1])]), &[image, weights], "strides has 1 sizes instead of 2");
        refused(node("Conv", &[("kernel_shape", &[5, 5])]), &[image, weights], "kernel_shape");
        refused(node("Conv", &[]), &[image, weights, &[5]], "a bias of [5]");
        refused(node("MaxPool", &[("kernel_shape", &[0, 2])]), &[image], "kernel_shape has a size of 0");
        refused(node("Gemm", &[]), &[&[8, 4], &[4, 6], &[8]], "a bias of [8]");
        refused(node("Gemm", &[]), &[&[8, 4], &[4, 6], &[1, 8, 6]], "a bias of [1, 8, 6]");
        refused(node("Gemm", &[]), &[&[0, 4], &[4, 6]], "a size is 0");
        refused(node("Flatten", &[("axis", &[-3])]), &[&[8, 4]], "its axis");
        assert!(of(&node("Conv", &[]), &[image, weights, &[6]]).is_ok());
        for bias in [&[6][..], &[1], &[], &[8, 1], &[1, 6]] {
            assert!(of(&node("Gemm", &[]), &[&[8, 4], &[4, 6], bias]).is_ok(), "{bias:?}");
        }
        let flat = of(&node("Flatten", &[("axis", &[-1])]), &[&[2, 3, 4]]).unwrap();
        assert_eq!(flat.shape, Some(vec![6, 4]));
        assert!(reshaped(&[2, 3, 4], &[-1, -1]).is_err());
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let depthwise = of(&node("Conv", &[("group", &[4])]), &[&[1, 4, 8, 8], &[4, 1, 3, 3]]).unwrap();
        assert!(depthwise.is_unknown && depthwise.shape == Some(vec![1, 4, 6, 6]));
        assert!(of(&node("Quux", &[]), &[&[1]]).unwrap().is_unknown);
        assert!(of(&node("MatMul", &[]), &[&[2, 3], &[4, 5]]).is_err());
        assert!(of(&node("Conv", &[]), &[&[1, 1, 2, 2], &[1, 1, 3, 3]]).is_err());
        assert!(infer(&node("Relu", &[]), &[None], None).is_err());
        assert_eq!(reshaped(&[2, 3, 4], &[0, -1]), Ok(vec![2, 12]));
        assert!(reshaped(&[2, 3], &[4]).is_err());
    }
}
