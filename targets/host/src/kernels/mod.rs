//! Matrix products and the passes around them, for INT8 and FP32 training on the processor.
//!
//! Operands of the INT8 products take the whole range of `i8`; sums are exact in `i32` and wrap.
//! An FP32 output is, on every path and bit for bit, the sum from `+0.0` of its products in
//! ascending order of the reduction, each product and each addition rounded on its own (no fused
//! multiply-add, no reassociation), for finite operands: a tap that falls into the padding may
//! count as an addition of zero. The orders are: forward (input channel of the group, kernel row,
//! kernel column); gradient of the input (output channel of the group, kernel row, kernel column);
//! gradient of the weights (image, output row, output column); matrix product `k`. A [`Launch`] takes any
//! operands: those that are not finite have products of their own.
//!
//! Every product has a form that takes the [`KernelPath`] to use; the plain one uses
//! [`active_path`]. Each is given a scratch of at least its `*_scratch_bytes`, which depends on the
//! shape only and not on the machine; what the scratch holds does not matter.
#![allow(
    unsafe_code,
    reason = "vector instructions and packing passes whose bounds are checked once, outside"
)]

mod aligned;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod amx_emulator;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod amx_tests;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bit_groups;
#[cfg(not(trainc_archive))]
mod bit_peak;
mod bit_thresholds;
mod bits;
#[cfg(test)]
mod bits_tests;
mod channels_beside;
mod channels_last;
mod chunks;
mod clips;
mod convolution;
mod depthwise;
mod depthwise_products;
mod depthwise_units;
mod direct;
mod engine;
mod engines;
#[cfg(target_arch = "x86_64")]
mod features;
mod finish;
mod geometry;
mod grouped;
#[cfg(test)]
mod grouped_tests;
mod images_beside;
mod launch;
mod matmul;
mod memo;
pub(crate) mod numbers;
mod own;
mod pack;
mod parts;
mod path;
#[cfg(not(trainc_archive))]
mod peaks;
mod planes;
mod pools;
mod portable;
mod products;
mod rectangles;
mod requantize;
mod scratch;
mod sweep;
mod target;
#[cfg(test)]
mod tests;
#[cfg(not(trainc_archive))]
mod threads;
#[cfg(trainc_archive)]
#[path = "alone.rs"]
mod threads;
mod weight_gradient;
mod words;

pub use aligned::{aligned_add, aligned_add_on};
pub use bit_groups::BitProduct;
#[cfg(not(trainc_archive))]
pub use bit_peak::bit_peak;
pub use bit_thresholds::BitThresholds;
pub use bits::{
    BitGeometry, conv2d_bits, conv2d_bits_on, conv2d_bits_scratch_bytes, conv2d_bits_thresholds,
    conv2d_bits_thresholds_on,
};
pub use finish::{Finish, Rounding, Width};
#[cfg(all(test, not(trainc_archive)))]
pub(crate) use finish::{kept_shift, shift_beyond};
pub use geometry::{ChannelsLast, ConvGeometry, MatMulGeometry};
pub use grouped::{
    GroupScales, GroupedPass, GroupedProduct, GroupedShape, GroupedSums, grouped_convolution,
    grouped_convolution_on, grouped_convolution_scratch_bytes, grouped_matmul, grouped_matmul_on,
    grouped_matmul_scratch_bytes,
};
pub use launch::{Launch, MOST_INPUTS, Operand, Product, Source};
#[cfg(not(trainc_archive))]
pub use memo::Memo;
#[cfg(not(trainc_archive))]
pub(crate) use parts::{MOST_PARTS, Parts};
pub use path::{KernelPath, active_path};
#[cfg(not(trainc_archive))]
pub use peaks::{bandwidth, byte_peak, single_peak};
pub use planes::{ChannelSums, Line, Lines, Planes};
pub use pools::{PoolGeometry, Pooled};
pub use products::*;
pub use requantize::{
    max_abs_i32, max_abs_i32_on, requantize_half_away, requantize_half_away_on,
    requantize_pseudo_stochastic, requantize_pseudo_stochastic_on,
};
#[cfg(not(trainc_archive))]
pub(crate) use threads::{piece, run};
#[cfg(not(trainc_archive))]
pub use threads::{set_threads, threads};
pub use words::LAUNCH_WORDS;
