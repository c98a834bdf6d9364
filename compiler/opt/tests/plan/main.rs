//! The planner: programs do what their graphs mean, bit for bit, and keep close to the least memory.

mod corners;
mod many;
mod memory;
mod networks;
mod random;
mod support;
