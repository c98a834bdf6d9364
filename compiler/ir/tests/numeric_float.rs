//! Accuracy of the fixed float functions against f64, and their loop expressions bit for bit.

use trainc_ir::loops::Expr;
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::numeric::float;
use trainc_ir::{RunContext, Tensor, TensorType, loops};

/// Distance in units in the last place of the exact value rounded to f32 (subnormal spacing below 2^-126).
fn ulps(found: f32, exact: f64) -> f64 {
    if exact.abs() > f64::from(f32::MAX) * (1.0 + 2f64.powi(-25)) {
        let infinite = if exact > 0.0 { f32::INFINITY } else { f32::NEG_INFINITY };
        return if found == infinite { 0.0 } else { f64::INFINITY };
    }
    let exponent = exact.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (f64::from(found) - exact).abs() / 2f64.powf(exponent - 23.0)
}

/// Every `step`-th bit pattern that is a number of either sign.
fn numbers(step: usize) -> impl Iterator<Item = f32> {
    (0..=0x7f80_0000u32)
        .step_by(step)
        .flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
}

/// Largest error over bit patterns and an even grid of `range`, with its place.
fn worst(range: [f32; 2], f: fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> (f64, f32) {
    let grid = (0..=1_000_000).map(|i| range[0] + (range[1] - range[0]) * (i as f32 / 1.0e6));
    let patterns = numbers(4099).filter(|x| (range[0]..=range[1]).contains(x));
    grid.chain(patterns).map(|x| (ulps(f(x), exact(f64::from(x))), x)).fold(
        (0.0, 0.0),
        |worst, new| {
            assert!(!new.0.is_nan(), "at {}", new.1);
            if new.0 > worst.0 { new } else { worst }
        },
    )
}

#[test]
fn exp_is_within_one_ulp() {
    let (error, x) = worst([-110.0, 95.0], float::exp, f64::exp);
    assert!(error < 1.0, "{error} ulp at {x}");
    assert_eq!(float::exp(0.0), 1.0);
    assert_eq!(float::exp(f32::INFINITY), f32::INFINITY);
    assert_eq!(float::exp(f32::MAX), f32::INFINITY);
    assert_eq!(float::exp(f32::NEG_INFINITY).to_bits(), 0);
    assert_eq!(float::exp(f32::MIN).to_bits(), 0);
    // Gradual underflow: e^-100 = 3.72e-44 is subnormal, 26.55 or 27 steps of 2^-149.
    assert_eq!(float::exp(-100.0).to_bits(), 27);
    assert_eq!(float::exp(-f32::NAN).to_bits(), 0x7fc0_0000);
}

#[test]
fn log_is_within_one_ulp() {
    let mut largest = (0.0, 0.0);
    let near_one = (0..1_000_000).map(|i| 0.5 + i as f32 * 2e-6);
    for x in numbers(977).filter(|&x| x > 0.0 && x < f32::INFINITY).chain(near_one) {
        let error = ulps(float::log(x), f64::from(x).ln());
        if error > largest.0 {
            largest = (error, x);
        }
    }
    assert!(largest.0 < 1.0, "{} ulp at {}", largest.0, largest.1);
    assert_eq!(float::log(1.0).to_bits(), 0);
    assert_eq!(float::log(0.0), f32::NEG_INFINITY);
    assert_eq!(float::log(-0.0), f32::NEG_INFINITY);
    assert_eq!(float::log(f32::INFINITY), f32::INFINITY);
    for x in [-1.0, -1.0e-45, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
        assert_eq!(float::log(x).to_bits(), 0x7fc0_0000, "{x}");
    }
    // The smallest subnormal: ln 2^-149.
    assert_eq!(float::log(f32::from_bits(1)), -103.278_93);
}

/// Error function by Kummer's series, all terms positive: `2x/sqrt(pi) e^(-x^2) sum (2x^2)^n / (2n+1)!!`.
fn exact_erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (1.0f64, 1.0f64);
    for n in 1..400 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 * x / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

#[test]
fn erf_is_within_1e7() {
    assert!((exact_erf(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
    assert!((exact_erf(2.0) - 0.995_322_265_018_952_7).abs() < 1e-15);
    let mut largest = (0.0f64, 0.0f32);
    for x in (-60_000..=60_000).map(|i| i as f32 * 1e-4).chain(numbers(40_009)) {
        let error = (f64::from(float::erf(x)) - exact_erf(f64::from(x))).abs();
        if error > largest.0 {
            largest = (error, x);
        }
    }
    assert!(largest.0 < 1e-7, "{} at {}", largest.0, largest.1);
    assert_eq!(float::erf(-0.0).to_bits(), (-0.0f32).to_bits());
    assert_eq!(float::erf(f32::INFINITY), 1.0);
    assert_eq!(float::erf(f32::NEG_INFINITY), -1.0);
    assert_eq!(float::erf(-f32::NAN).to_bits(), 0x7fc0_0000);
}

#[test]
fn tanh_is_within_two_ulp() {
    let (error, x) = worst([-12.0, 12.0], float::tanh, f64::tanh);
    assert!(error < 2.0, "{error} ulp at {x}");
    assert_eq!(float::tanh(f32::MAX), 1.0);
    assert_eq!(float::tanh(f32::NEG_INFINITY), -1.0);
    assert_eq!(float::tanh(-0.0).to_bits(), (-0.0f32).to_bits());
}

#[test]
fn sigmoid_is_within_three_ulp() {
    let (error, x) = worst([-104.0, 30.0], float::sigmoid, |x| {
        if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
    });
    assert!(error < 3.0, "{error} ulp at {x}");
    assert_eq!(float::sigmoid(0.0), 0.5);
    assert_eq!(float::sigmoid(f32::MIN), 0.0);
    assert_eq!(float::sigmoid(f32::MAX), 1.0);
}

#[test]
fn pow_is_exact_where_products_are_and_close_elsewhere() {
    assert_eq!(float::pow(3.0, 5.0), 243.0);
    assert_eq!(float::pow(-2.0, 3.0), -8.0);
    assert_eq!(float::pow(-2.0, -2.0), 0.25);
    assert_eq!(float::pow(2.0, 15.0), 32768.0);
    assert_eq!(float::pow(f32::NAN, 0.0), 1.0);
    assert_eq!(float::pow(1.0, f32::INFINITY), 1.0);
    assert_eq!(float::pow(-1.0, f32::INFINITY), 1.0);
    assert_eq!(float::pow(0.5, f32::INFINITY), 0.0);
    assert_eq!(float::pow(0.0, 0.5), 0.0);
    assert_eq!(float::pow(0.0, -0.5), f32::INFINITY);
    assert_eq!(float::pow(-0.0, 17.0).to_bits(), (-0.0f32).to_bits());
    assert_eq!(float::pow(-1.0, 17.0), -1.0);
    assert_eq!(float::pow(-1.0, 18.0), 1.0);
    assert_eq!(float::pow(f32::NEG_INFINITY, 0.5), f32::INFINITY);
    assert_eq!(float::pow(-2.0, 0.5).to_bits(), 0x7fc0_0000);
    for i in 1..4000 {
        let (x, y) = (i as f32 * 0.01, (i % 61) as f32 * 0.11 - 3.3);
        let exact = f64::from(x).powf(f64::from(y));
        let bound = 2f64.powi(-22) + f64::from(y).abs() * f64::from(x).ln().abs() * 2f64.powi(-23);
        let error = (f64::from(float::pow(x, y)) - exact).abs() / exact;
        assert!(error < bound, "{x}^{y}: {error} exceeds {bound}");
    }
}

type Function = fn(f32) -> f32;
type Expression = fn(&mut LoopBuilder, Expr) -> Expr;

#[test]
fn expressions_have_the_bits_of_the_functions() {
    let pairs: [(&str, Function, Expression); 5] = [
        ("exp", float::exp, float::exp_expression),
        ("log", float::log, float::log_expression),
        ("erf", float::erf, float::erf_expression),
        ("tanh", float::tanh, float::tanh_expression),
        ("sigmoid", float::sigmoid, float::sigmoid_expression),
    ];
    let near = (-20_000..20_000).map(|i| i as f32 * 0.01);
    let values: Vec<f32> = numbers(200_003).chain(near).collect();
    for (name, function, expression) in pairs {
        let count = values.len();
        let ty = TensorType::f32([count]);
        let mut builder = LoopBuilder::new(&[&ty], &[&ty], false);
        let (x, y) = (builder.input(0), builder.output(0));
        builder.for_("i", count, |builder, i| {
            let value = builder.load(x, i.clone());
            let value = expression(builder, value);
            builder.store(y, i, value);
        });
        let input = Tensor::f32([count], values.clone());
        let found =
            loops::evaluate::run(&builder.finish(), &[&input], &[ty], &RunContext::default());
        let meant = Tensor::f32([count], values.iter().map(|&x| function(x)).collect());
        let difference = meant.first_difference(&found[0]);
        assert_eq!(difference.map(|i| values[i]), None, "{name}");
    }
}
