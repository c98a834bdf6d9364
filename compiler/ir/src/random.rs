//! The counter-based generator behind every stochastic operation.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11).
//! A draw is a function of (seed, step, stream, element), so it does not depend on order, threads or target.

/// First round multiplier.
pub const PHILOX_M0: u32 = 0xD251_1F53;
/// Second round multiplier.
pub const PHILOX_M1: u32 = 0xCD9E_8D57;
/// First key increment.
pub const PHILOX_W0: u32 = 0x9E37_79B9;
/// Second key increment.
pub const PHILOX_W1: u32 = 0xBB67_AE85;
/// Number of rounds.
pub const PHILOX_ROUNDS: u32 = 10;

/// The Philox4x32-10 bijection.
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..PHILOX_ROUNDS {
        let p0 = u64::from(PHILOX_M0) * u64::from(c0);
        let p1 = u64::from(PHILOX_M1) * u64::from(c2);
        (c0, c1, c2, c3) =
            ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(PHILOX_W0);
        k1 = k1.wrapping_add(PHILOX_W1);
    }
    [c0, c1, c2, c3]
}

/// What a stochastic operation may depend on besides its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunContext {
    /// The user's seed.
    pub seed: u64,
    /// Training steps done before this one.
    pub step: u32,
}

impl RunContext {
    /// 32 uniform bits for one element of one stream.
    pub fn draw(&self, stream: u32, element: u32) -> u32 {
        let key = [self.seed as u32, (self.seed >> 32) as u32];
        philox4x32([element >> 2, self.step, stream, 0], key)[(element & 3) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the Random123 distribution.
    #[test]
    fn philox_known_answers() {
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
