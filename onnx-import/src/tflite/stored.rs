//! Constants and variables: their bytes, and the forms in which the model stores them.

use std::borrow::Cow;

use crate::error::{NodeResult, WarningKind, invalid, unsupported};
use crate::limits;
use crate::proto::{TensorProto, data_type};
use crate::tflite::layout::{between, permute_bytes, permuted};
use crate::tflite::schema::{Quantization, Type};
use crate::tflite::translator::{Translator, Value};

/// A constant or a variable.
#[derive(Clone, Debug)]
pub(crate) struct Root<'m> {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) dims: Vec<usize>,
    pub(crate) quantization: Option<Quantization>,
    /// Elements, little-endian; 4-bit ones as bytes.
    pub(crate) bytes: Cow<'m, [u8]>,
    /// The forms in which it is stored, with the names of their FP32 values.
    pub(crate) stored: Vec<(Form, String)>,
}

/// How a root is stored: under other dimensions, then permuted, then under others again.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Form {
    pub(crate) view: Vec<usize>,
    pub(crate) permutation: Vec<usize>,
    pub(crate) dims: Vec<usize>,
}

/// Bytes of an element.
fn width(ty: Type) -> Option<usize> {
    Some(match ty {
        Type::Int4 | Type::Int8 | Type::Uint8 | Type::Bool => 1,
        Type::Float16 | Type::Bfloat16 | Type::Int16 => 2,
        Type::Float32 | Type::Int32 => 4,
        Type::Float64 | Type::Int64 => 8,
        Type::Resource | Type::Other(_) => return None,
    })
}

/// The importer's element type; 4-bit integers are bytes by then.
pub(crate) fn element(ty: Type) -> i32 {
    match ty {
        Type::Float32 => data_type::FLOAT,
        Type::Float16 => data_type::FLOAT16,
        Type::Bfloat16 => data_type::BFLOAT16,
        Type::Float64 => data_type::DOUBLE,
        Type::Int4 | Type::Int8 => data_type::INT8,
        Type::Uint8 => data_type::UINT8,
        Type::Int16 => data_type::INT16,
        Type::Int32 => data_type::INT32,
        Type::Int64 => data_type::INT64,
        Type::Bool => data_type::BOOL,
        Type::Resource | Type::Other(_) => data_type::UNDEFINED,
    }
}

/// Integers of 4 bits as bytes, the low half of a byte first.
fn unpacked(bytes: &[u8], count: usize) -> Vec<u8> {
    let halves = bytes.iter().flat_map(|&b| [((b << 4) as i8 >> 4) as u8, (b as i8 >> 4) as u8]);
    halves.take(count).collect()
}

/// Roots.
impl<'m> Translator<'m> {
    /// Takes a constant of the file as a root.
    pub(super) fn constant(&mut self, tensor: usize) -> NodeResult<Option<Value>> {
        let t = &self.subgraph.tensors[tensor];
        let Some(bytes) = t.data else { return Ok(None) };
        let name = t.name.clone();
        if t.sparse {
            return Err(unsupported(
                format!("tensor `{name}`"),
                "is stored sparse",
                "dense tensors",
            ));
        }
        let value =
            self.root(&name, t.ty, t.dims.clone(), t.quantization.clone(), Cow::Borrowed(bytes))?;
        self.values.insert(tensor, value.clone());
        Ok(Some(value))
    }

    /// A new root, as it is stored.
    pub(crate) fn root(
        &mut self,
        name: &str,
        ty: Type,
        dims: Vec<usize>,
        quantization: Option<Quantization>,
        bytes: Cow<'m, [u8]>,
    ) -> NodeResult<Value> {
        let count = limits::count(&dims).ok_or_else(|| invalid!("tensor `{name}` is too large"))?;
        let Some(width) = width(ty) else {
            return Err(unsupported(
                format!("tensor `{name}`"),
                format!("element type {}", ty.name()),
                "floats and integers",
            ));
        };
        let needed = if ty == Type::Int4 { count.div_ceil(2) } else { count * width };
        if bytes.len() != needed {
            return Err(invalid!(
                "tensor `{name}` of {} {dims:?} takes {needed} bytes, its buffer has {}",
                ty.name(),
                bytes.len()
            ));
        }
        if let Some(q) = &quantization
            && q.scales.len() > 1
            && dims.get(q.axis) != Some(&q.scales.len())
        {
            return Err(invalid!(
                "tensor `{name}` of {dims:?} has {} scales along axis {}",
                q.scales.len(),
                q.axis
            ));
        }
        let bytes = match ty {
            Type::Int4 => Cow::Owned(unpacked(&bytes, count)),
            _ => bytes,
        };
        let permutation = (0..dims.len()).collect();
        self.roots.push(Root {
            name: name.to_string(),
            ty,
            dims,
            quantization,
            bytes,
            stored: Vec::new(),
        });
        Ok(Value::Stored { root: self.roots.len() - 1, permutation })
    }

    /// The integers of a constant; `None` if they are computed.
    pub(crate) fn known_ints(&mut self, tensor: usize) -> NodeResult<Option<Vec<i64>>> {
        let Value::Stored { root, permutation } = self.value(tensor)? else { return Ok(None) };
        let root = &self.roots[root];
        if !permutation.is_sorted() {
            return Ok(None);
        }
        Ok(match root.ty {
            Type::Int32 => Some(
                root.bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&b| i64::from(i32::from_le_bytes(b)))
                    .collect(),
            ),
            Type::Int64 => {
                Some(root.bytes.as_chunks::<8>().0.iter().map(|&b| i64::from_le_bytes(b)).collect())
            }
            _ => None,
        })
    }
}

/// Roots as names of the model.
impl Translator<'_> {
    /// The FP32 (or INT64) value of a root in a form.
    pub(crate) fn stored(&mut self, index: usize, form: Form) -> NodeResult<String> {
        let root = &self.roots[index];
        if let Some((_, name)) = root.stored.iter().find(|(other, _)| *other == form) {
            return Ok(name.clone());
        }
        let pure = |form: &Form| {
            form.view == root.dims && form.dims == permuted(&form.view, &form.permutation)
        };
        if let Some((other, name)) = root.stored.first().cloned() {
            if pure(&form) && pure(&other) {
                // One parameter, moved for its second use.
                let axes = between(&other.permutation, &form.permutation);
                let moved = self.transpose(&name, &axes, "layout");
                self.referred.insert(moved.clone());
                self.roots[index].stored.push((form, moved.clone()));
                return Ok(moved);
            }
            let message = format!(
                "`{}` is used in two layouts; it is stored twice, and each is trained on its own",
                root.name
            );
            self.warn(WarningKind::Untied, message);
        }
        self.spend(self.roots[index].bytes.len())?;
        let root = &self.roots[index];
        let (ty, quantization) = (root.ty, root.quantization.clone());
        let width = width(ty).unwrap_or(1);
        let bytes = permute_bytes(&root.bytes, width, &form.view, &form.permutation);
        let name = root.name.clone();
        let name = self.unique(&name);
        let (dtype, bytes) = match ty {
            // Integers without a scale are shapes and axes.
            Type::Int32 if quantization.is_none() => {
                let wide = bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .flat_map(|&b| i64::from(i32::from_le_bytes(b)).to_le_bytes());
                (data_type::INT64, wide.collect())
            }
            ty => (element(ty), bytes),
        };
        self.initializers.push(TensorProto {
            name: name.clone(),
            dims: form.dims.iter().map(|&d| d as i64).collect(),
            data_type: dtype,
            raw_data: Some(bytes),
            ..TensorProto::default()
        });
        let value = match &quantization {
            Some(q) if !ty.is_float() => {
                let view = form.dims.len() != form.permutation.len();
                let axis = match view {
                    true => q.axis,
                    false => form.permutation.iter().position(|&a| a == q.axis).unwrap_or(0),
                };
                self.dequantize(&name, dtype, q, axis)?
            }
            _ => name,
        };
        self.referred.insert(value.clone());
        self.roots[index].stored.push((form, value.clone()));
        Ok(value)
    }

    /// Lets initializers take more bytes than the file has: bits that become floats, which are bounded otherwise.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.budget = self.budget.saturating_add(bytes);
    }

    /// Makes room for the zeros of a variable that the file has no value for.
    pub(crate) fn spend_empty(&mut self, elements: usize) -> NodeResult<()> {
        self.empty += elements;
        if self.empty > limits::MAX_UNSTORED {
            return Err(invalid!("more than {} elements without values", limits::MAX_UNSTORED));
        }
        self.allow(4 * elements);
        Ok(())
    }

    /// Counts bytes of initializers.
    pub(crate) fn spend(&mut self, bytes: usize) -> NodeResult<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(invalid!("tensors share bytes: they take four times what the file holds")),
        }
    }

    /// A root with its axes permuted.
    pub(crate) fn stored_permuted(
        &mut self,
        root: usize,
        permutation: Vec<usize>,
    ) -> NodeResult<String> {
        let view = self.roots[root].dims.clone();
        let dims = permuted(&view, &permutation);
        self.stored(root, Form { view, permutation, dims })
    }
}
