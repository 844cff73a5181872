//! Types of the elements of tensors: which work on them is measured.

use std::collections::HashMap;

use super::messages::Node;

/// `TensorProto.DataType` (onnx/onnx.proto).
pub const INT64: i32 = 7;
const BOOL: i32 = 9;
const FLOAT: i32 = 1;
const FLOAT16: i32 = 10;
const DOUBLE: i32 = 11;
const BFLOAT16: i32 = 16;

/// Names of the types from 1 on.
const NAMES: [&str; 16] = [
    "float",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
    "string",
    "bool",
    "float16",
    "double",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
    "bfloat16",
];

/// How the elements of a node's inputs are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Also if no type is known.
    Single,
    Double,
    /// Measured as single precision.
    Half,
    /// Neither a BLAS nor the elementwise loops have it.
    Other(&'static str),
}

impl Precision {
    fn of(element: Option<i32>) -> Precision {
        match element {
            None | Some(FLOAT) => Precision::Single,
            Some(DOUBLE) => Precision::Double,
            Some(FLOAT16 | BFLOAT16) => Precision::Half,
            Some(other) => Precision::Other(name(other)),
        }
    }
}

fn name(element: i32) -> &'static str {
    usize::try_from(element - 1).ok().and_then(|i| NAMES.get(i)).copied().unwrap_or("unknown")
}

/// Element types by tensor, as far as they are known.
#[derive(Debug, Default)]
pub struct Types(HashMap<String, i32>);

impl Types {
    /// Notes the type of a tensor, if it is no gap (0).
    pub fn set(&mut self, tensor: &str, element: i32) {
        if element != 0 {
            self.0.insert(tensor.to_owned(), element);
        }
    }

    fn of_input(&self, node: &Node, i: usize) -> Option<i32> {
        node.input.get(i).and_then(|input| self.0.get(input)).copied()
    }

    /// The precision of the work of `node`; all its inputs have one type.
    ///
    /// # Errors
    /// They have several.
    pub fn precision(&self, node: &Node) -> Result<Precision, String> {
        let mut known = (0..node.input.len()).filter_map(|i| self.of_input(node, i));
        let first = known.next();
        match known.find(|other| Some(*other) != first).zip(first) {
            Some((other, first)) => Err(format!("{} and {} elements do not go together", name(first), name(other))),
            None => Ok(Precision::of(first)),
        }
    }

    /// Notes the type of what `node` yields, if the operator decides it.
    pub fn infer(&mut self, node: &Node) {
        let Some(output) = node.output.first() else { return };
        let element = match node.op_type.as_str() {
            "Cast" => node.attribute.iter().find(|a| a.name == "to").and_then(|to| i32::try_from(to.i).ok()),
            "Shape" => Some(INT64),
            "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Not" => Some(BOOL),
            // As their first input.
            "MatMul" | "Gemm" | "Conv" | "Relu" | "LeakyRelu" | "Clip" | "Sigmoid" | "Exp" | "Tanh" | "Add" | "Sub"
            | "Mul" | "Flatten" | "Reshape" | "Identity" | "Dropout" | "Squeeze" | "Unsqueeze" | "MaxPool"
            | "AveragePool" | "GlobalAveragePool" | "BatchNormalization" | "Softmax" | "LayerNormalization"
            | "Gelu" | "Erf" | "Sqrt" => self.of_input(node, 0),
            _ => None,
        };
        element.into_iter().for_each(|element| self.set(output, element));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(op_type: &str, input: &[&str]) -> Node {
        let input = input.iter().map(|name| (*name).into()).collect();
        Node { op_type: op_type.into(), input, output: vec!["y".into()], ..Node::default() }
    }

    #[test]
    fn one_type_for_all_inputs() {
        let mut types = Types::default();
        types.set("f", FLOAT);
        types.set("d", DOUBLE);
        types.set("i", 6);
        types.set("gap", 0);
        assert_eq!(types.precision(&node("Add", &["f", "f"])), Ok(Precision::Single));
        assert_eq!(types.precision(&node("Add", &["gap", "d"])), Ok(Precision::Double));
        assert_eq!(types.precision(&node("Add", &["i", "i"])), Ok(Precision::Other("int32")));
        assert_eq!(
            types.precision(&node("Add", &["f", "d"])),
            Err("float and double elements do not go together".into())
        );
        types.infer(&node("Relu", &["d"]));
        assert_eq!(types.precision(&node("Relu", &["y"])), Ok(Precision::Double));
        types.infer(&node("Shape", &["d"]));
        assert_eq!(types.precision(&node("Relu", &["y"])), Ok(Precision::Other("int64")));
        types.set("odd", 99);
        assert_eq!(types.precision(&node("Relu", &["odd"])), Ok(Precision::Other("unknown")));
    }
}
