//! The algorithm's step sizes as Rust.

use std::fmt::Write as _;

use trainc_driver::config::Config;
use trainc_driver::session::Session;
use trainc_ir::Element;

use crate::Error;

/// The most bits of an update that an 8-bit weight can take.
const LARGEST_BITS: f64 = 7.0;

/// Text that defines `SCHEDULE` and `learning_rate`.
///
/// # Errors
/// If a fixed step size is none of the algorithm's.
pub(crate) fn text(session: &Session, config: &Config) -> Result<String, Error> {
    let algorithm = &session.algorithm;
    let integer = algorithm.learning_rate == Element::I32;
    let ty = if integer { "i32" } else { "f32" };
    let value = |size: f64| match integer {
        true => format!("{}", size as i32),
        false => format!("{:?}", size as f32),
    };
    let points: Vec<(f64, f64)> = match config.learning_rate {
        Some(rate) => vec![(0.0, rate)],
        None => algorithm.schedule.iter().map(|p| (p.from, p.value)).collect(),
    };
    let sizes = 0.0..=LARGEST_BITS;
    if let Some((_, size)) =
        points.iter().find(|(_, size)| integer && (size.fract() != 0.0 || !sizes.contains(size)))
    {
        return Err(Error::new(format!(
            "learning rate: step sizes of algorithm `{}` are whole numbers of bits from 0 to {LARGEST_BITS}, not {size}",
            algorithm.name
        )));
    }
    let mut out = format!(
        "\n/// Step sizes: from which fraction of the training, and the size.\n\
         #[allow(dead_code, reason = \"generated: for programs that want it\")]\n\
         pub const SCHEDULE: [(f64, {ty}); {}] = [",
        points.len()
    );
    for (i, &(from, size)) in points.iter().enumerate() {
        let _ = write!(out, "{}({from:?}, {})", if i == 0 { "" } else { ", " }, value(size));
    }
    let _ = write!(
        out,
        "];\n\n\
         /// The step size for an epoch (from 0) of `epochs`, as [`SCHEDULE`] has it.\n\
         #[allow(dead_code, reason = \"generated: for programs that want it\")]\n\
         pub fn learning_rate(epoch: u32, epochs: u32) -> {ty} {{\n    \
         let fraction = f64::from(epoch) / f64::from(epochs.max(1));\n    \
         let reached = SCHEDULE.iter().rev().find(|(from, _)| *from <= fraction);\n    \
         reached.map_or({}, |(_, size)| *size)\n}}\n",
        value(0.0)
    );
    Ok(out)
}
