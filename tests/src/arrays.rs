//! Arrays that a reference wrote, as tensors.

use std::collections::BTreeMap;

use trainc_data::{NpyArray, NpyData};
use trainc_ir::Tensor;

/// Row `row` of an array: FP32, or integers as i32.
///
/// # Panics
/// If there is no such array or row.
pub fn row(arrays: &BTreeMap<String, NpyArray>, key: &str, row: usize) -> Tensor {
    let array = arrays.get(key).unwrap_or_else(|| panic!("no array `{key}`"));
    let shape = array.shape[1..].to_vec();
    let size: usize = shape.iter().product();
    let range = row * size..(row + 1) * size;
    match &array.data {
        NpyData::F32(all) => Tensor::f32(shape, all[range].to_vec()),
        data => {
            let all: Vec<i64> = data.to_integers().expect("integers");
            Tensor::i32(shape, all[range].iter().map(|&v| v as i32).collect())
        }
    }
}
