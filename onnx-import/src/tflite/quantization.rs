//! Quantized tensors: activations are FP32 behind quantizers, integers that the file stores are FP32 parameters.

use crate::error::{NodeResult, WarningKind, invalid, unsupported};
use crate::proto::{AttributeProto, TensorProto, data_type};
use crate::tflite::schema::{Quantization, Type};
use crate::tflite::translator::Translator;

/// The importer's domain of quantizers in FP32.
pub(crate) const QUANTIZERS: &str = "qonnx.custom_op.general";

impl Translator<'_> {
    /// The FP32 value of integers.
    pub(crate) fn dequantize(
        &mut self,
        x: &str,
        dtype: i32,
        q: &Quantization,
        axis: usize,
    ) -> NodeResult<String> {
        let mut operands = vec![x.to_string(), self.scale(q)];
        // Biases of 32 bits have no zero points.
        if q.zero_points.iter().any(|&z| z != 0) || dtype != data_type::INT32 {
            operands.push(self.zero_point(q, dtype)?);
        }
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        Ok(self.add("DequantizeLinear", &operands, axis_of(q, axis), "dequantize"))
    }

    fn scale(&mut self, q: &Quantization) -> String {
        match q.scales[..] {
            [scale] => self.floats(&[], &[scale], "scale"),
            _ => self.floats(&[q.scales.len()], &q.scales, "scale"),
        }
    }

    fn zero_point(&mut self, q: &Quantization, dtype: i32) -> NodeResult<String> {
        let name = self.unique(&format!("{}/zero_point", self.current));
        let mut bytes = Vec::new();
        for &zero in &q.zero_points {
            match dtype {
                data_type::INT8 => i8::try_from(zero).map(|z| bytes.push(z as u8)).ok(),
                data_type::UINT8 => u8::try_from(zero).map(|z| bytes.push(z)).ok(),
                data_type::INT32 => i32::try_from(zero).map(|z| bytes.extend(z.to_le_bytes())).ok(),
                _ => return Err(wide(data_type::name(dtype))),
            }
            .ok_or_else(|| invalid!("a zero point of {zero} in {}", data_type::name(dtype)))?;
        }
        let dims = if q.zero_points.len() == 1 { vec![] } else { vec![q.zero_points.len() as i64] };
        self.initializers.push(TensorProto {
            name: name.clone(),
            dims,
            data_type: dtype,
            raw_data: Some(bytes),
            ..TensorProto::default()
        });
        Ok(name)
    }

    /// Brings an FP32 value to the grid of a quantized tensor; as it is if the tensor is none. The quantizer is QONNX's,
    /// through which errors pass straight when the network is trained.
    pub(crate) fn on_grid(&mut self, tensor: usize, x: String) -> NodeResult<String> {
        let t = &self.subgraph.tensors[tensor];
        let Some(q) = grid(t.ty, t.quantization.as_ref())? else { return Ok(x) };
        let (signed, zero) = (t.ty == Type::Int8, q.zero_points[0]);
        let range = if signed { -128..=127 } else { 0..=255 };
        if !range.contains(&zero) {
            return Err(invalid!("a zero point of {zero} in {}", t.ty.name()));
        }
        let scale = q.scales[0];
        let scale = self.floats(&[], &[scale], "scale");
        let zero = self.floats(&[], &[zero as f32], "zero_point");
        let bits = self.floats(&[], &[8.0], "bits");
        let attributes = vec![
            AttributeProto::int("signed", i64::from(signed)),
            AttributeProto::int("narrow", 0),
            AttributeProto::string("rounding_mode", "ROUND"),
        ];
        let y = self.add("Quant", &[&x, &scale, &zero, &bits], attributes, "quantize");
        self.of_domain(QUANTIZERS);
        Ok(y)
    }

    /// Whether two tensors have one grid, so that what only moves elements needs no quantizer.
    pub(crate) fn same_grid(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.subgraph.tensors[a], &self.subgraph.tensors[b]);
        let scale = |q: &Option<Quantization>| q.clone().map(|q| (q.scales, q.zero_points));
        a.ty == b.ty && scale(&a.quantization) == scale(&b.quantization)
    }

    /// Says that an input or output of integers is FP32 here.
    pub(crate) fn say_grid(&mut self, tensor: usize, what: &str, name: &str) {
        let t = &self.subgraph.tensors[tensor];
        if let Ok(Some(q)) = grid(t.ty, t.quantization.as_ref()) {
            let message = format!(
                "{what} `{name}` is FP32 here; the file's is {}, (value / {}) rounded + {}",
                t.ty.name(),
                q.scales[0],
                q.zero_points[0]
            );
            self.warn(WarningKind::Quantization, message);
        }
    }
}

fn axis_of(q: &Quantization, axis: usize) -> Vec<AttributeProto> {
    match q.scales.len() {
        1 => Vec::new(),
        _ => vec![AttributeProto::int("axis", axis as i64)],
    }
}

fn wide(name: &str) -> crate::error::NodeError {
    unsupported(
        "a quantized tensor",
        format!("element type {name}"),
        "INT8 and UINT8; INT4 weights",
    )
}

/// The grid of an activation; `None` if it is none of integers that are quantized.
///
/// # Errors
/// If it has more bits than are run, or a scale for each channel.
pub(crate) fn grid(ty: Type, q: Option<&Quantization>) -> NodeResult<Option<&Quantization>> {
    let Some(q) = q else { return Ok(None) };
    match ty {
        Type::Int8 | Type::Uint8 if q.scales.len() == 1 => Ok(Some(q)),
        Type::Int8 | Type::Uint8 => Err(unsupported(
            "an activation",
            format!("{} scales", q.scales.len()),
            "one scale for a tensor of activations",
        )),
        Type::Int16 | Type::Int4 => Err(wide(&ty.name())),
        _ => Ok(None),
    }
}
