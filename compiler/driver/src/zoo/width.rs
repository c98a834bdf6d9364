//! The factor of a net's channels.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Channels are multiples of this.
const UNIT: usize = 8;

/// A width multiplier (Howard et al., "MobileNets", 2017, section 3.3), in hundredths: 100 is the net as published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Width(u16);

impl Width {
    /// The net as published.
    pub const ONE: Width = Width(100);
    /// Largest, in hundredths.
    pub const MAX: u16 = 400;

    /// So many channels at this width: the nearest multiple of 8, at least 8, and one more where that would be less than
    /// nine tenths (as the authors' own code and torchvision round).
    pub fn of(self, channels: usize) -> usize {
        let exact = channels * usize::from(self.0);
        let unit = 100 * UNIT;
        let nearest = ((exact + unit / 2) / unit * UNIT).max(UNIT);
        if 1000 * nearest < 9 * exact { nearest + UNIT } else { nearest }
    }

    /// So many channels at this width or, if it is below 1, as published.
    pub fn of_last(self, channels: usize) -> usize {
        Width(self.0.max(Width::ONE.0)).of(channels)
    }
}

impl Display for Width {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (f64::from(self.0) / 100.0).fmt(f)
    }
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Width, String> {
        let most = f64::from(Width::MAX);
        let hundredths = text.parse::<f64>().map_or(f64::NAN, |width| 100.0 * width);
        let whole = hundredths.round();
        if (1.0..=most).contains(&whole) && (hundredths - whole).abs() < 1e-6 {
            Ok(Width(whole as u16))
        } else {
            let most = Width(Width::MAX);
            Err(format!("a factor of channels from 0.01 to {most} in hundredths, such as 0.25"))
        }
    }
}
