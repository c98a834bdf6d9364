//! A small generator of test data.

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    #[allow(clippy::should_implement_trait, reason = "an iterator without end is not meant")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// A number in a range, its ends often.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        match self.next() % 8 {
            0 => low,
            1 => high,
            _ => low + (self.next() % (high - low + 1) as u64) as i64,
        }
    }

    /// A value of any size, extremes among them.
    pub fn integer(&mut self) -> i64 {
        let any = self.next();
        let extremes = [0, 1, -1, 127, -127, -128, i64::from(i32::MIN), i64::from(i32::MAX)];
        match any % 4 {
            0 => extremes[(any >> 32) as usize % extremes.len()],
            _ => i64::from((any >> 32) as i32) >> (any >> 8 & 31),
        }
    }

    /// A float of any size, special ones among them.
    pub fn float(&mut self) -> f32 {
        let any = self.next();
        let extremes = [
            0.0,
            -0.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MIN_POSITIVE / 4.0,
            -f32::MIN_POSITIVE / 64.0,
            f32::MAX,
            0.5,
            -2.5,
        ];
        match any % 4 {
            0 => extremes[(any >> 32) as usize % extremes.len()],
            1 => f32::from_bits((any >> 32) as u32),
            _ => self.integer() as f32 / 16.0,
        }
    }
}
