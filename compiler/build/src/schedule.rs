//! The step sizes that a module's schedule may have.

use trainc_driver::session::Session;
use trainc_ir::Element;

use crate::Error;

/// The most bits of an update that an 8-bit weight can take.
const LARGEST_BITS: f64 = 7.0;

/// Checks a session's step sizes.
///
/// # Errors
/// If one is none of the algorithm's.
pub(crate) fn check(session: &Session) -> Result<(), Error> {
    let algorithm = &session.algorithm;
    let integer = algorithm.learning_rate == Element::I32;
    let sizes = 0.0..=LARGEST_BITS;
    let schedule = session.schedule();
    let wrong = |size: f64| integer && (size.fract() != 0.0 || !sizes.contains(&size));
    match schedule.iter().find(|(_, size)| wrong(*size)) {
        None => Ok(()),
        Some((_, size)) => Err(Error::new(format!(
            "learning rate: step sizes of algorithm `{}` are whole numbers of bits from 0 to {LARGEST_BITS}, not {size}",
            algorithm.name
        ))),
    }
}
