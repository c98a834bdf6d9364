//! Initial weights, from the counter-based generator: a weight depends on the seed, its tensor's name and its
//! position, so it does not change when a model gains or loses other tensors.

use trainc_ir::random::philox4x32;

/// Keeps these draws apart from those of the stochastic operations, whose last counter word is 0.
const DOMAIN: u32 = 1;

/// FNV-1a in 64 bits: tells tensors apart by name.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// `count` weights, uniform between plus and minus sqrt(6 / `fan_in`) (He, Zhang, Ren, Sun, "Delving deep into
/// rectifiers", ICCV 2015, equation 10): keeps the size of activations through layers with ReLU, so that nets without
/// batch norm train in FP32 too. NITI does not see the scale of a layer but for its share of the logits' exponent.
pub(super) fn he_uniform(seed: u64, name: &str, count: usize, fan_in: usize) -> Vec<f32> {
    let bound = (6.0 / fan_in as f32).sqrt();
    let key = [seed as u32, (seed >> 32) as u32];
    let stream = hash(name);
    (0..count.div_ceil(4) as u32)
        .flat_map(|block| philox4x32([block, stream as u32, (stream >> 32) as u32, DOMAIN], key))
        .take(count)
        // The middle of one of 2^24 equal parts of (-1, 1): exact in f32, symmetric, never an end.
        .map(|bits| ((bits >> 8) as i32 * 2 + 1 - (1 << 24)) as f32 / (1 << 24) as f32 * bound)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_the_bound_and_of_its_variance() {
        let weights = he_uniform(7, "fc.weight", 100_000, 50);
        let bound = (6.0f32 / 50.0).sqrt();
        assert!(weights.iter().all(|w| w.abs() < bound));
        let mean = weights.iter().map(|&w| f64::from(w)).sum::<f64>() / 1e5;
        let square = weights.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>() / 1e5;
        // The variance is 2 / fan_in; five standard errors of 100,000 draws.
        assert!(mean.abs() < 5.0 * (0.04f64 / 1e5).sqrt(), "{mean}");
        assert!((square / 0.04 - 1.0).abs() < 5.0 * (0.8f64 / 1e5).sqrt(), "{square}");
    }

    #[test]
    fn depends_on_seed_and_name_and_not_on_count() {
        let weights = he_uniform(7, "a", 10, 3);
        assert_eq!(weights[..6], he_uniform(7, "a", 6, 3));
        assert_ne!(weights, he_uniform(8, "a", 10, 3));
        assert_ne!(weights, he_uniform(7 << 32, "a", 10, 3));
        assert_ne!(weights, he_uniform(7, "b", 10, 3));
    }

    /// Known values of the hash, from its authors' test suite.
    #[test]
    fn hash_known_answers() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
