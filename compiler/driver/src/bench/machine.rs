//! What the machine makes at most, measured beside what launches take.

use serde::Serialize;
use trainc_host::kernels::{bandwidth, bit_peak, byte_peak, single_peak};
use trainc_ir::program::Kernel;

use super::{BenchLaunch, BenchReport, multiplications, of_bits};

/// What a product multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Factors {
    /// Bits, by exclusive or and counts of ones.
    Bits,
    /// Integers of at most a byte.
    Bytes,
    /// FP32.
    Singles,
}

impl Factors {
    /// Those of a kernel; `None` if it has no product, or one of wider integers.
    pub(super) fn of(kernel: &Kernel) -> Option<Self> {
        if of_bits(kernel).is_some() {
            return Some(Self::Bits);
        }
        let element = kernel.inputs.first()?.element;
        match multiplications(kernel) {
            0 => None,
            _ if element.is_float() => Some(Self::Singles),
            _ => (element.bits() <= 8).then_some(Self::Bytes),
        }
    }
}

/// What this machine makes at most on the threads that kernels use.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Machine {
    /// Products of bits a nanosecond, by exclusive or, counts and sums in registers; where launches have some.
    pub bits: Option<f64>,
    /// Products of bytes a nanosecond in registers, with their sums; where launches have some.
    pub bytes: Option<f64>,
    /// Products of FP32 a nanosecond in registers, fused with their sums; where launches have some.
    pub singles: Option<f64>,
    /// Bytes a nanosecond that are read and written when what no cache holds is copied.
    pub bandwidth: f64,
}

impl Machine {
    /// Measures what these launches are compared with.
    pub(super) fn measured(launches: &[BenchLaunch]) -> Self {
        let has = |of| launches.iter().any(|launch| launch.factors == Some(of));
        Self {
            bits: has(Factors::Bits).then(bit_peak),
            bytes: has(Factors::Bytes).then(byte_peak),
            singles: has(Factors::Singles).then(single_peak),
            bandwidth: bandwidth(),
        }
    }

    /// Nanoseconds that a launch's products take at the peak; `None` without products.
    fn least(&self, launch: &BenchLaunch) -> Option<f64> {
        let peak = match launch.factors? {
            Factors::Bits => self.bits,
            Factors::Bytes => self.bytes,
            Factors::Singles => self.singles,
        };
        Some(launch.macs as f64 / peak?)
    }

    /// The part of its peak that a launch's products reach.
    pub fn share_of_launch(&self, launch: &BenchLaunch) -> Option<f64> {
        Some(self.least(launch)? / launch.units.max(1) as f64)
    }

    /// The part of the whole call that its products would take at their peaks; `None` without products.
    pub fn share(&self, report: &BenchReport) -> Option<f64> {
        let least: Vec<f64> = report.launches.iter().filter_map(|l| self.least(l)).collect();
        (!least.is_empty()).then(|| least.iter().sum::<f64>() / report.units.max(1) as f64)
    }
}
