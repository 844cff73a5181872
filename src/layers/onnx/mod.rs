//! An ONNX model as layers. Weights are skipped; their shapes are used.

mod messages;
mod shapes;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;

use super::{Layer, LayersError, Network};
use messages::{Graph, Model, Tensor, ValueInfo};

/// `TensorProto.DataType`
const INT64: i32 = 7;
const FLOAT16: i32 = 10;
const DOUBLE: i32 = 11;
const BFLOAT16: i32 = 16;

/// Sizes and types of the tensors that are known so far.
#[derive(Default)]
struct Known {
    shapes: HashMap<String, Vec<u64>>,
    /// Lists of sizes, for reshapes.
    lists: HashMap<String, Vec<i64>>,
}

/// The layers of a model, the content of the file at `path`. Free dimensions have the sizes of `axes`.
///
/// # Errors
/// It is no such model, a free dimension has no size, or shapes do not go together.
pub fn network(path: &Path, content: &[u8], axes: &[(String, u64)]) -> Result<Network, LayersError> {
    let wrong = |reason: String| LayersError::Model { path: path.to_owned(), reason };
    let no_model = |reason: String| wrong(format!("no ONNX model, or a truncated one: {reason}"));
    let model = Model::decode(Bytes::copy_from_slice(content)).map_err(|e| no_model(e.to_string()))?;
    let graph = model.graph.filter(|graph| !graph.node.is_empty()).ok_or_else(|| no_model("it has no nodes".into()))?;
    let mut known = Known::default();
    graph.initializer.iter().for_each(|tensor| known.add(tensor));
    let batch = inputs(&graph, axes, &mut known).map_err(wrong)?;
    let element = element_type(&graph);
    let mut network = Network { batch, has_fixed_batch: true, ..Network::default() };
    if matches!(element, Some(FLOAT16 | BFLOAT16)) {
        network.left_out.push("half precision: products are measured in single precision".into());
    }
    let mut unknown: HashMap<&str, u64> = HashMap::new();
    for (i, node) in graph.node.iter().enumerate() {
        let name = if node.name.is_empty() { format!("{} {}", node.op_type, i + 1) } else { node.name.clone() };
        let shapes: Vec<Option<&Vec<u64>>> = node.input.iter().map(|input| known.shapes.get(input)).collect();
        let target = node.input.get(1).and_then(|input| known.lists.get(input)).map(Vec::as_slice);
        let found = shapes::infer(node, &shapes, target, element == Some(DOUBLE))
            .map_err(|reason| wrong(format!("node {name:?} ({}): {reason}", node.op_type)))?;
        if found.is_unknown {
            *unknown.entry(&node.op_type).or_default() += 1;
        }
        if let (Some(output), Some(shape)) = (node.output.first(), found.shape) {
            known.shapes.insert(output.clone(), shape);
        }
        if let (Some(output), Some(tensor)) = (node.output.first(), node.attribute.iter().find_map(|a| a.t.as_ref())) {
            known.add(&Tensor { name: output.clone(), ..tensor.clone() });
        }
        let layer = |(work, calls)| Layer { name: name.clone(), work, calls, seen_s: None };
        network.layers.extend(found.work.into_iter().map(layer));
    }
    let mut unknown: Vec<_> = unknown.into_iter().collect();
    unknown.sort_unstable();
    network.left_out.extend(unknown.into_iter().map(|(name, nodes)| format!("{nodes} × {name}")));
    Ok(network)
}

impl Known {
    fn add(&mut self, tensor: &Tensor) {
        let dims: Option<Vec<u64>> = tensor.dims.iter().map(|size| u64::try_from(*size).ok()).collect();
        self.shapes.extend(dims.map(|dims| (tensor.name.clone(), dims)));
        if tensor.data_type == INT64 {
            let raw = tensor.raw_data.chunks_exact(8).map(|b| b.try_into().map_or(0, i64::from_le_bytes));
            let list = if tensor.int64_data.is_empty() { raw.collect() } else { tensor.int64_data.clone() };
            self.lists.insert(tensor.name.clone(), list);
        }
    }
}

/// Adds the shapes of the graph's inputs, and those that it states of other tensors. Returns the batch: the first size of the first input.
fn inputs(graph: &Graph, axes: &[(String, u64)], known: &mut Known) -> Result<Option<u64>, String> {
    let mut missing = BTreeSet::new();
    let mut batch = None;
    let mut of = |value: &ValueInfo, is_input: bool, known: &mut Known| {
        let shape = value.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()).and_then(|t| t.shape.as_ref());
        let Some(shape) = shape else { return };
        let size = |dim: &messages::Dimension| {
            let name = dim.dim_param.as_deref().unwrap_or("");
            let fixed = dim.dim_value.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0);
            let size = fixed.or_else(|| axes.iter().find(|(axis, _)| axis == name).map(|(_, size)| *size));
            if size.is_none() && is_input {
                missing.insert(if name.is_empty() { "?".to_owned() } else { name.to_owned() });
            }
            size
        };
        // All of them, so that all that are missing are named.
        let sizes: Vec<Option<u64>> = shape.dim.iter().map(size).collect();
        let Some(sizes) = sizes.into_iter().collect::<Option<Vec<u64>>>() else { return };
        if is_input {
            batch = batch.or(sizes.first().copied());
        }
        known.shapes.entry(value.name.clone()).or_insert(sizes);
    };
    let is_weight = |name: &str| graph.initializer.iter().any(|tensor| tensor.name == name);
    graph.input.iter().filter(|value| !is_weight(&value.name)).for_each(|value| of(value, true, known));
    graph.value_info.iter().for_each(|value| of(value, false, known));
    if missing.is_empty() {
        return Ok(batch);
    }
    let named: Vec<&str> = missing.iter().map(String::as_str).collect();
    let hint: Vec<String> = named.iter().map(|name| format!("--axis {name}=SIZE")).collect();
    Err(format!("dimensions of its inputs have no size: {} (hint: {})", named.join(", "), hint.join(" ")))
}

fn element_type(graph: &Graph) -> Option<i32> {
    let value = graph.input.first()?;
    Some(value.r#type.as_ref()?.tensor_type.as_ref()?.elem_type)
}

#[cfg(test)]
mod tests {
    use super::messages::{Dimension, Node, Shape, TensorType, Type};
    use super::*;
    use crate::layers::Work;

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
        network(Path::new("net.onnx"), content, axes).map_err(|e| e.to_string())
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
