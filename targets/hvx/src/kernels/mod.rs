//! Kernels written on the machine layer, each specialised to its shape.

pub mod average_pool;
pub mod average_pool_global;
pub mod convolution;
pub mod depthwise;
mod depthwise_gradient;
mod depthwise_order;
mod depthwise_pack;
mod depthwise_sums;
pub mod interleave;
pub mod kernel;
mod lanes;
pub mod pack;
pub mod planes;
pub mod pool;
pub mod product;
pub mod requantize;
mod resident_gradient;
pub mod static_shift;
mod support;
pub mod weight_gradient;
mod weight_products;
pub mod weight_vectors;
pub mod weights;
pub mod window;

pub use average_pool_global::GlobalAverage;
pub use convolution::{convolution, static_convolution};
pub use depthwise::Depthwise;
pub use interleave::quantize_gradient;
pub use kernel::{Argument, DataObject, Kernel, Phase};
pub use pool::Pool;
pub use product::WindowProduct;
pub use requantize::requantize;
pub use static_shift::StaticShift;
pub use weight_gradient::WeightGradient;
pub use weights::WeightStrides;
pub use window::{Axis, Span};
