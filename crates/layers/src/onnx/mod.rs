//! An ONNX model as layers. Weights are skipped; their shapes are used.

mod messages;
mod shapes;
mod types;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;

use super::{Layer, LayersError, Network, Work};
use messages::{Graph, Model, Tensor, ValueInfo};
use types::{INT64, Precision, Types};

/// Sizes and types of the tensors that are known so far.
#[derive(Default)]
struct Known {
    shapes: HashMap<String, Vec<u64>>,
    /// Lists of sizes, for reshapes.
    lists: HashMap<String, Vec<i64>>,
    types: Types,
}

/// Nodes that are not predicted: how many, and the name of the first, by operator and the type that is why.
#[derive(Default)]
struct LeftOut(BTreeMap<(String, Option<&'static str>), (u64, String)>);

impl LeftOut {
    fn add(&mut self, operator: &str, element: Option<&'static str>, name: &str) {
        self.0.entry((operator.to_owned(), element)).or_insert_with(|| (0, name.to_owned())).0 += 1;
    }

    fn lines(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|((operator, element), (nodes, first))| match element {
            Some(element) => format!("{nodes} × {operator} of {element} elements (first: {first})"),
            None => format!("{nodes} × {operator}"),
        })
    }
}

/// The layers of a model, the content of the file at `path`. Free dimensions have the sizes of `axes`.
///
/// # Errors
/// It is no such model, a free dimension has no size, an axis fits none, or shapes or types do not go together.
pub fn network(path: &Path, content: Vec<u8>, axes: &[(String, u64)]) -> Result<Network, LayersError> {
    let wrong = |reason: String| LayersError::Model { path: path.to_owned(), reason };
    let no_model = |reason: String| wrong(format!("no ONNX model, or a truncated one: {reason}"));
    let model = Model::decode(Bytes::from(content)).map_err(|e| no_model(e.to_string()))?;
    let graph = model.graph.filter(|graph| !graph.node.is_empty()).ok_or_else(|| no_model("it has no nodes".into()))?;
    let mut known = Known::default();
    graph.initializer.iter().for_each(|tensor| known.add(tensor));
    let batch = inputs(&graph, axes, &mut known).map_err(|error| match error {
        InputError::NoSize(names) => wrong(no_size(&names)),
        InputError::NoAxis(error) => error,
    })?;
    let mut network = Network { batch, has_fixed_batch: true, ..Network::default() };
    let mut left_out = LeftOut::default();
    let mut is_half = false;
    for (i, node) in graph.node.iter().enumerate() {
        let name = if node.name.is_empty() { format!("{} {}", node.op_type, i + 1) } else { node.name.clone() };
        let shapes: Vec<Option<&Vec<u64>>> = node.input.iter().map(|input| known.shapes.get(input)).collect();
        let target = node.input.get(1).and_then(|input| known.lists.get(input)).map(Vec::as_slice);
        let of_node = |reason: String| wrong(format!("node {name:?} ({}): {reason}", node.op_type));
        let mut found = shapes::infer(node, &shapes, target).map_err(of_node)?;
        if found.is_unknown {
            left_out.add(&node.op_type, None, &name);
        }
        if !found.work.is_empty() {
            let precision = known.types.precision(node).map_err(of_node)?;
            is_half |= precision == Precision::Half;
            if let Err(element) = found.work.iter_mut().try_for_each(|(work, _)| take(work, precision)) {
                left_out.add(&node.op_type, Some(element), &name);
                found.work.clear();
            }
        }
        known.types.infer(node);
        if let (Some(output), Some(shape)) = (node.output.first(), found.shape) {
            known.shapes.insert(output.clone(), shape);
        }
        if let (Some(output), Some(tensor)) = (node.output.first(), node.attribute.iter().find_map(|a| a.t.as_ref())) {
            known.add(&Tensor { name: output.clone(), ..tensor.clone() });
        }
        let layer = |(work, calls)| Layer { name: name.clone(), work, calls, seen_s: None };
        network.layers.extend(found.work.into_iter().map(layer));
    }
    if is_half {
        network.left_out.push("half precision: products are measured in single precision".into());
    }
    network.left_out.extend(left_out.lines());
    Ok(network)
}

/// Sets the precision of `work`.
///
/// # Errors
/// Work of this type is not measured: the type's name.
fn take(work: &mut Work, precision: Precision) -> Result<(), &'static str> {
    match (work, precision) {
        (_, Precision::Single | Precision::Half) => Ok(()),
        (Work::Product(shape), Precision::Double) => {
            shape.is_double = true;
            Ok(())
        }
        (Work::Elementwise(..), Precision::Double) => Err("double"),
        (_, Precision::Other(name)) => Err(name),
    }
}

impl Known {
    fn add(&mut self, tensor: &Tensor) {
        let dims: Option<Vec<u64>> = tensor.dims.iter().map(|size| u64::try_from(*size).ok()).collect();
        self.shapes.extend(dims.map(|dims| (tensor.name.clone(), dims)));
        self.types.set(&tensor.name, tensor.data_type);
        if tensor.data_type == INT64 {
            let raw = tensor.raw_data.chunks_exact(8).map(|b| b.try_into().map_or(0, i64::from_le_bytes));
            let list = if tensor.int64_data.is_empty() { raw.collect() } else { tensor.int64_data.clone() };
            self.lists.insert(tensor.name.clone(), list);
        }
    }
}

/// Why the shapes of a graph's inputs are not known.
enum InputError {
    /// Free dimensions without a size: their names.
    NoSize(BTreeSet<String>),
    /// An axis that is no free dimension.
    NoAxis(LayersError),
}

/// Adds the shapes and types of the graph's inputs and those that it gives for other tensors. Returns the batch: the first size of the
/// first input.
fn inputs(graph: &Graph, axes: &[(String, u64)], known: &mut Known) -> Result<Option<u64>, InputError> {
    let (mut missing, mut free) = (BTreeSet::new(), BTreeSet::new());
    let mut batch = None;
    let mut of = |value: &ValueInfo, is_input: bool, known: &mut Known| {
        let Some(tensor) = value.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()) else { return };
        known.types.set(&value.name, tensor.elem_type);
        let Some(shape) = &tensor.shape else { return };
        let size = |(i, dim): (usize, &messages::Dimension)| {
            let fixed = dim.dim_value.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0);
            if fixed.is_some() {
                return fixed;
            }
            let name = axis_name(value, i, dim).filter(|_| is_input || dim.dim_param.is_some())?;
            let size = axes.iter().find(|(axis, _)| *axis == name).map(|(_, size)| *size);
            if size.is_none() && is_input {
                missing.insert(name.clone());
            }
            free.insert(name);
            size
        };
        // All of them, so that all that are missing are named.
        let sizes: Vec<Option<u64>> = shape.dim.iter().enumerate().map(size).collect();
        let Some(sizes) = sizes.into_iter().collect::<Option<Vec<u64>>>() else { return };
        if is_input {
            batch = batch.or(sizes.first().copied());
        }
        known.shapes.entry(value.name.clone()).or_insert(sizes);
    };
    let is_weight = |name: &str| graph.initializer.iter().any(|tensor| tensor.name == name);
    graph.input.iter().filter(|value| !is_weight(&value.name)).for_each(|value| of(value, true, known));
    graph.value_info.iter().for_each(|value| of(value, false, known));
    if let Some((name, _)) = axes.iter().find(|(name, _)| !free.contains(name)) {
        return Err(InputError::NoAxis(no_axis(name, &free)));
    }
    if missing.is_empty() { Ok(batch) } else { Err(InputError::NoSize(missing)) }
}

/// The name that a free dimension is given a size by: its own, else that of its tensor and its place in it, `x.0`. `None`: neither has one.
fn axis_name(value: &ValueInfo, i: usize, dim: &messages::Dimension) -> Option<String> {
    let own = dim.dim_param.clone().filter(|name| !name.is_empty());
    own.or_else(|| (!value.name.is_empty()).then(|| format!("{}.{i}", value.name)))
}

/// Names that are listed in an error.
const LISTED: usize = 6;

fn listed(names: &BTreeSet<String>) -> String {
    let first: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let more = if names.len() > LISTED { format!(" and {} more", names.len() - LISTED) } else { String::new() };
    format!("{}{more}", first.join(", "))
}

fn no_size(names: &BTreeSet<String>) -> String {
    let hint: Vec<String> = names.iter().take(LISTED).map(|name| format!("--axis {name}=SIZE")).collect();
    format!("dimensions of its inputs have no size: {} (hint: {})", listed(names), hint.join(" "))
}

fn no_axis(name: &str, free: &BTreeSet<String>) -> LayersError {
    let reason = match free.is_empty() {
        true => "the model has no free dimension".into(),
        false => format!("the model has no free dimension of this name, it has {}", listed(free)),
    };
    LayersError::Axis { name: name.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::messages::{Dimension, Node, Shape, TensorType, Type};
    use super::*;
    use crate::Work;

    fn value(name: &str, dims: &[Result<i64, &str>]) -> ValueInfo {
        let dim = |dim: &Result<i64, &str>| match dim {
            Ok(size) => Dimension { dim_value: Some(*size), dim_param: None },
            Err(name) => Dimension { dim_value: None, dim_param: Some((*name).into()) },
        };
        let shape = Some(Shape { dim: dims.iter().map(dim).collect() });
        let r#type = Some(Type { tensor_type: Some(TensorType { elem_type: 1, shape }) });
        ValueInfo { name: name.into(), r#type }
    }

    fn node(op_type: &str, input: &[&str], output: &str) -> Node {
        let input = input.iter().map(|name| (*name).into()).collect();
        Node { op_type: op_type.into(), input, output: vec![output.into()], ..Node::default() }
    }

    /// x (batch × 784) · w (784 × 50), ReLU, a softmax.
    fn model() -> Vec<u8> {
        let weights =
            Tensor { name: "w".into(), dims: vec![784, 50], raw_data: vec![1; 64].into(), ..Tensor::default() };
        let nodes = vec![node("MatMul", &["x", "w"], "y"), node("Relu", &["y"], "z"), node("Softmax", &["z"], "s")];
        let input = vec![value("x", &[Err("N"), Ok(784)])];
        let graph = Graph { node: nodes, initializer: vec![weights], input, value_info: Vec::new() };
        Model { graph: Some(graph) }.encode_to_vec()
    }

    fn read(content: &[u8], axes: &[(String, u64)]) -> Result<Network, String> {
        network(Path::new("net.onnx"), content.to_vec(), axes).map_err(|e| e.to_string())
    }

    #[test]
    fn nodes_become_layers() {
        let found = read(&model(), &[("N".into(), 128)]).unwrap();
        let works: Vec<String> = found
            .layers
            .iter()
            .map(|layer| match &layer.work {
                Work::Product(shape) => shape.to_string(),
                Work::Elementwise(operation, elements) => format!("{} {elements}", operation.name()),
            })
            .collect();
        assert_eq!(works, ["128 × 50 × 784 NN", "relu 6400"]);
        assert_eq!((found.batch, found.left_out), (Some(128), vec!["1 × Softmax".to_owned()]));
    }

    /// Name, shape and type of an input.
    type Input<'n> = (&'n str, &'n [Result<i64, &'n str>], i32);

    /// A model of one node with these inputs.
    fn of_one(op_type: &str, inputs: &[Input<'_>]) -> Vec<u8> {
        let named: Vec<&str> = inputs.iter().map(|input| input.0).collect();
        let input = inputs.iter().map(|(name, dims, elem_type)| {
            let mut value = value(name, dims);
            value.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap().elem_type = *elem_type;
            value
        });
        let graph = Graph {
            input: input.collect(),
            node: vec![Node { name: "fc".into(), ..node(op_type, &named, "y") }],
            ..Graph::default()
        };
        Model { graph: Some(graph) }.encode_to_vec()
    }

    #[test]
    fn types_that_are_not_measured_are_left_out_by_name() {
        let two =
            |op: &str, a: i32, b: i32| read(&of_one(op, &[("a", &[Ok(8), Ok(8)], a), ("b", &[Ok(8), Ok(8)], b)]), &[]);
        let integers = two("MatMul", 6, 6).unwrap();
        assert_eq!(integers.left_out, ["1 × MatMul of int32 elements (first: fc)"]);
        assert!(integers.layers.is_empty());
        assert_eq!(two("Add", 11, 11).unwrap().left_out, ["1 × Add of double elements (first: fc)"]);
        let double = two("MatMul", 11, 11).unwrap();
        assert!(matches!(&double.layers[0].work, Work::Product(shape) if shape.is_double));
        let half = two("MatMul", 10, 10).unwrap();
        assert_eq!((half.layers.len(), half.left_out.len()), (1, 1));
        let mixed = two("MatMul", 1, 11).unwrap_err();
        assert!(mixed.contains("node \"fc\" (MatMul): float and double elements"), "{mixed}");
    }

    #[test]
    fn an_axis_is_one_of_the_model_s() {
        let axis = |name: &str| [(name.to_owned(), 4)];
        let unnamed = of_one("Relu", &[("x", &[Err(""), Ok(8)], 1)]);
        let told = read(&unnamed, &[]).unwrap_err();
        assert!(told.contains("--axis x.0=SIZE"), "{told}");
        assert_eq!(read(&unnamed, &axis("x.0")).unwrap().batch, Some(4));
        let other = read(&unnamed, &axis("N")).unwrap_err();
        assert_eq!(other, "--axis N: the model has no free dimension of this name, it has x.0");
        let fixed = read(&of_one("Relu", &[("x", &[Ok(8)], 1)]), &axis("x.0")).unwrap_err();
        assert_eq!(fixed, "--axis x.0: the model has no free dimension");
        let zero = of_one("Relu", &[("x", &[Ok(0), Ok(8)], 1)]);
        assert!(read(&zero, &[]).unwrap_err().contains("x.0"), "a size of 0 is none");
    }

    #[test]
    fn errors_are_one_line() {
        let free = read(&model(), &[]).unwrap_err();
        assert!(free.contains("--axis N=SIZE"), "{free}");
        let whole = model();
        for content in [&whole[..whole.len() / 2], b"no model", b""] {
            let error = read(content, &[("N".into(), 1)]).unwrap_err();
            assert!(error.starts_with("net.onnx: no ONNX model") && !error.contains('\n'), "{error}");
        }
        // A cycle: the node needs its own output.
        let graph = Graph { node: vec![node("Relu", &["y"], "y")], ..Graph::default() };
        let cyclic = read(&Model { graph: Some(graph) }.encode_to_vec(), &[]).unwrap_err();
        assert!(cyclic.contains("\"y\" is not known"), "{cyclic}");
    }
}
