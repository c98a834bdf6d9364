//! Hexagon's kernels under the emulator against the reference operations, byte for byte.

use std::path::{Path, PathBuf};

use trainc_hvx::kernels::{StaticShift, convolution, static_convolution};
use trainc_hvx::machine::{Function, Options, Version, compile};
use trainc_ir::numeric::Rounding;
use trainc_tests::hexagon_convolution::{ConvolutionCase, Fill};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("hvx_kernels").join(name)
}

/// Shapes that take each path: whole and partial groups, quads, blocks and vectors; each way to order the result.
fn shapes() -> Vec<(&'static str, ConvolutionCase)> {
    let same = ConvolutionCase::same;
    let plain = |images, channels, features, size, kernel| ConvolutionCase {
        images,
        channels,
        features,
        size,
        kernel,
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
    };
    vec![
        ("whole", same(4, 64, 128, 4)),
        ("two_groups", same(8, 16, 96, 2)),
        ("two_features", same(4, 64, 8, 4)),
        ("many_channels", same(4, 256, 8, 2)),
        ("few_positions", same(4, 128, 12, 2)),
        ("few_positions_of_one", same(1, 128, 8, 1)),
        ("few_in_a_row", ConvolutionCase { pads: [1; 4], ..plain(3, 256, 4, [1, 4], [3, 3]) }),
        (
            "few_of_seven_taps",
            ConvolutionCase { pads: [0, 3, 0, 3], ..plain(2, 128, 8, [1, 4], [1, 7]) },
        ),
        ("few_of_one_tap", plain(4, 128, 8, [2, 2], [1, 1])),
        ("few_of_three_taps", plain(3, 256, 4, [1, 4], [1, 3])),
        (
            "few_of_five_taps",
            ConvolutionCase { pads: [0, 2, 0, 2], ..plain(4, 128, 12, [1, 3], [1, 5]) },
        ),
        (
            "few_of_eleven_taps",
            ConvolutionCase { pads: [0, 5, 0, 5], ..plain(1, 128, 8, [1, 4], [1, 11]) },
        ),
        (
            "few_of_fifteen_taps",
            ConvolutionCase { pads: [1, 2, 1, 2], ..plain(1, 128, 8, [1, 4], [3, 5]) },
        ),
        ("odd_steps", plain(8, 64, 4, [3, 3], [3, 1])),
        ("wide_map", same(4, 8, 64, 16)),
        ("wider_map", same(1, 4, 32, 32)),
        ("middle_map", same(4, 20, 160, 8)),
        ("one_image", same(1, 3, 5, 7)),
        ("five_images", same(5, 13, 33, 3)),
        ("point", plain(4, 24, 40, [5, 9], [1, 1])),
        ("five_taps", ConvolutionCase { pads: [2; 4], ..plain(2, 6, 32, [9, 6], [5, 5]) }),
        (
            "strided",
            ConvolutionCase { strides: [2, 2], pads: [1; 4], ..plain(3, 12, 64, [11, 12], [3, 3]) },
        ),
        (
            "uneven",
            ConvolutionCase {
                strides: [2, 1],
                pads: [0, 2, 1, 0],
                dilations: [1, 2],
                ..plain(4, 9, 36, [6, 10], [2, 3])
            },
        ),
    ]
}

/// Shapes whose weights are packed by vectors, in one pass or both: one and several blocks, runs of quads and taps.
fn vector_weights() -> Vec<(&'static str, ConvolutionCase)> {
    let kernel = |channels, features, kernel: [usize; 2]| ConvolutionCase {
        images: 4,
        channels,
        features,
        size: [kernel[0] + 1, kernel[1] + 1],
        kernel,
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
    };
    vec![
        ("nine_narrow", kernel(64, 32, [3, 3])),
        ("nine_wide", kernel(32, 64, [3, 3])),
        ("nine_block", kernel(128, 128, [3, 3])),
        ("nine_blocks", kernel(24, 256, [3, 3])),
        ("one_tap", kernel(128, 128, [1, 1])),
        ("one_tap_runs", kernel(256, 96, [1, 1])),
        ("one_tap_half_runs", kernel(192, 64, [1, 1])),
        ("three_taps", kernel(80, 64, [3, 1])),
        ("five_taps", kernel(48, 32, [1, 5])),
        ("seven_taps", kernel(32, 32, [7, 1])),
        ("fifteen_taps", kernel(16, 32, [3, 5])),
    ]
}

#[test]
fn weights_by_vectors() {
    for (name, case) in vector_weights() {
        for error in [false, true] {
            let folder = folder(&format!("weights_{name}_{error}"));
            let checked = case.check(&folder, error, Fill::Random, -127);
            assert_eq!(checked.difference, None, "{name}, error {error}: {case:?}");
            // Byte by byte it takes about 5 packets a word.
            let vectors = case.channels.is_multiple_of(32) && case.features.is_multiple_of(32);
            if vectors && case.kernel == [3, 3] {
                let words = case.channels * case.features * 9 / 4;
                let packets = checked.packets[0].1 as usize;
                assert!(10 * packets < 6 * words, "{name}, error {error}: {packets} for {words}");
            }
        }
    }
}

fn check(error: bool) {
    for (name, case) in shapes() {
        for (fill, low) in [
            (Fill::Random, -127),
            (Fill::Small, 0),
            (Fill::Extreme, -127),
            (Fill::Lowest, -127),
            (Fill::Zero, 0),
        ] {
            // One shape takes all contents; the others the most telling one.
            if fill != Fill::Random && name != "uneven" {
                continue;
            }
            let folder = folder(&format!("{name}_{error}_{fill:?}"));
            let checked = case.check(&folder, error, fill, low);
            assert_eq!(checked.difference, None, "{name}, error {error}, {fill:?}: {case:?}");
        }
    }
}

#[test]
fn convolutions() {
    check(false);
}

#[test]
fn error_gradients() {
    check(true);
}

#[test]
fn weight_gradients() {
    for (name, case) in shapes() {
        let contents = [
            (Fill::Random, 5),
            (Fill::Random, 3),
            (Fill::Small, 7),
            (Fill::Small, 20),
            (Fill::Extreme, 4),
            (Fill::Lowest, -1),
            (Fill::Random, -9),
            (Fill::Random, -40),
            (Fill::Random, i32::MIN),
            (Fill::Random, i32::MAX),
            (Fill::Zero, 3),
        ];
        let few = if matches!(name, "uneven" | "two_features" | "few_positions") {
            contents.len()
        } else {
            1
        };
        for (fill, bits) in contents.into_iter().take(few) {
            let folder = folder(&format!("{name}_weight_{fill:?}_{bits}"));
            let checked = case.check_weight_gradient(&folder, fill, bits);

            assert_eq!(checked.difference, None, "{name}, {fill:?}, {bits} bits: {case:?}");
        }
    }
}

/// Shifts of the 16-bit form, each once, where sums stay in registers and where they do not.
#[test]
fn shifts_of_weight_gradients() {
    for (name, case) in shapes() {
        if !matches!(name, "few_positions" | "two_features" | "uneven") {
            continue;
        }
        for bits in 0..19 {
            let folder = folder(&format!("{name}_shift_{bits}"));
            let checked = case.check_weight_gradient(&folder, Fill::Random, bits);
            assert_eq!(checked.difference, None, "{name}, {bits} bits: {case:?}");
        }
    }
}

/// The error channels with the most energy give much smaller sums than the others, or none.
#[test]
fn wrong_guesses_of_the_magnitude() {
    let case = ConvolutionCase::same(4, 128, 12, 2);
    let operand = vec![100i8; 4 * 128 * 4];
    for (name, last) in [("small", -60), ("none", -64)] {
        // `[image][feature][position]`: the first features' images cancel, the others' do not.
        let signs = [64, -64, 64, last];
        let error: Vec<i8> = signs
            .into_iter()
            .flat_map(|loud| {
                (0..12 * 4).map(move |i| if i < 4 * 4 { loud } else { 40 - (i % 3) as i8 })
            })
            .collect();
        for bits in [3, 5, 11] {
            let folder = folder(&format!("wrong_guess_{name}_{bits}"));
            let checked =
                case.check_weight_gradient_of(&folder, operand.clone(), error.clone(), bits);
            assert_eq!(checked.difference, None, "{name}, {bits} bits");
        }
    }
}

/// Sums of few positions: what is done to each counts as much as the products.
#[test]
fn packets_of_a_weight_gradient_of_few_positions() {
    let case = ConvolutionCase::same(4, 256, 256, 2);
    let checked = case.check_weight_gradient(&folder("few_positions_packets"), Fill::Random, 5);
    assert_eq!(checked.difference, None);
    let rate = checked.multiplications[0] as f64 / f64::from(checked.kernel_packets());
    assert!(rate >= 150.0, "{rate} multiplications a packet");
}

/// All roundings with shifts that take each path, as far as kernels do them.
fn shifts() -> impl Iterator<Item = StaticShift> {
    let amounts = [0, 1, 2, 5, 8, 15, 16, 17, 23, 31];
    Rounding::ALL
        .iter()
        .flat_map(move |&rounding| amounts.map(|amount| StaticShift { amount, rounding }))
        .filter(|shift| shift.is_supported(1))
}

#[derive(Clone, Copy, Debug)]
enum Pass {
    Forward,
    Error,
    Weight,
}

/// A pass with a shift known ahead against the reference.
fn check_shift(name: &str, case: &ConvolutionCase, pass: Pass, fill: Fill, shift: StaticShift) {
    let StaticShift { amount, rounding } = shift;
    let what = format!("{name}_{pass:?}_{fill:?}_{rounding:?}_{amount}");
    let folder = folder(&format!("static_{what}"));
    let checked = match pass {
        Pass::Forward => case.check_shift(&folder, false, fill, shift),
        Pass::Error => case.check_shift(&folder, true, fill, shift),
        Pass::Weight => case.check_weight_gradient_shift(&folder, fill, shift),
    };
    assert_eq!(checked.difference, None, "{what}: {case:?}");
}

#[test]
fn shifts_known_ahead() {
    for (index, (name, case)) in shapes().into_iter().enumerate() {
        let rounding = Rounding::ALL[index % Rounding::ALL.len()];
        for pass in [Pass::Forward, Pass::Error, Pass::Weight] {
            for rounding in [rounding, Rounding::PseudoStochastic] {
                let amount = 7 + (index % 5) as u8;
                check_shift(name, &case, pass, Fill::Random, StaticShift { amount, rounding });
            }
        }
    }
}

#[test]
fn all_shifts_known_ahead() {
    let passes = [
        ("uneven", &[Pass::Forward, Pass::Weight][..]),
        ("few_positions", &[Pass::Weight]),
        ("two_features", &[Pass::Error]),
    ];
    for (name, case) in shapes() {
        for pass in passes.iter().filter(|(n, _)| *n == name).flat_map(|(_, passes)| *passes) {
            for shift in shifts() {
                check_shift(name, &case, *pass, Fill::Random, shift);
            }
        }
    }
}

/// The largest sums of either sign, of more than 24 bits, and numbers that saturate.
#[test]
fn shifts_of_extremes() {
    let cases = [
        ("deep", ConvolutionCase::same(3, 456, 40, 2), &[Pass::Forward][..]),
        ("wide", ConvolutionCase::same(4, 33, 64, 17), &[Pass::Weight]),
        ("few", ConvolutionCase::same(4, 128, 4, 2), &[Pass::Weight]),
    ];
    for (name, case, passes) in cases {
        for (&pass, fill) in passes
            .iter()
            .flat_map(|pass| [Fill::Lowest, Fill::Opposite, Fill::Extreme].map(|fill| (pass, fill)))
        {
            for &rounding in Rounding::ALL {
                for amount in [0, 1, 2, 15, 16, 20, 26] {
                    let shift = StaticShift { amount, rounding };
                    if shift.is_supported(1) && (amount < 16 || fill != Fill::Extreme) {
                        check_shift(name, &case, pass, fill, shift);
                    }
                }
            }
        }
    }
}

/// What a kernel cannot do is left to loops: more bits pseudo-stochastically, sums that could exceed 32 bits.
#[test]
fn shifts_left_to_loops() {
    let shift = |amount, rounding| StaticShift { amount, rounding };
    assert!(shift(16, Rounding::PseudoStochastic).is_supported(4608));
    assert!(!shift(17, Rounding::PseudoStochastic).is_supported(4608));
    assert!(shift(31, Rounding::Floor).is_supported((1 << 16) - 1));
    assert!(!shift(3, Rounding::HalfAway).is_supported(1 << 16));
}

/// Sums of few positions with a shift known ahead: no guess, no second pass.
#[test]
fn packets_of_shifts_known_ahead() {
    let pseudo = StaticShift { amount: 9, rounding: Rounding::PseudoStochastic };
    let away = StaticShift { amount: 9, rounding: Rounding::HalfAway };
    let case = ConvolutionCase::same(4, 256, 256, 2);
    for (what, least, checked) in [
        (
            "weight",
            150.0,
            case.check_weight_gradient_shift(&folder("static_w"), Fill::Random, pseudo),
        ),
        ("forward", 200.0, case.check_shift(&folder("static_f"), false, Fill::Random, away)),
    ] {
        assert_eq!(checked.difference, None, "{what}");
        let rate = checked.multiplications[0] as f64 / f64::from(checked.kernel_packets());
        println!("{what}: {rate:.1}");
        assert!(rate >= least, "{what}: {rate} multiplications a packet");
    }
}

/// Every version has a schedule without spills; of weight gradients, with sums in registers and in memory.
#[test]
fn versions() {
    let names = [
        "whole",
        "two_groups",
        "two_features",
        "few_positions",
        "few_of_three_taps",
        "few_of_eleven_taps",
        "few_of_fifteen_taps",
    ];
    let mut resident = 0;
    for (name, case) in shapes().into_iter().filter(|(name, _)| names.contains(name)) {
        let product = case.forward_product();
        let gradient = case.weight_gradient();
        let mut kernels = vec![
            convolution("conv", &product, 7, 0).expect("a convolution"),
            gradient.kernel("gradient").expect("a gradient"),
        ];
        let passes = |function: &&Function| &*function.name == "gradient_pass";
        resident += kernels[1].functions().filter(passes).count();
        for rounding in [Rounding::HalfAway, Rounding::PseudoStochastic] {
            let shift = StaticShift { amount: 9, rounding };
            kernels.push(static_convolution("conv", &product, shift).expect("a convolution"));
            kernels.push(gradient.static_kernel("gradient", shift).expect("a gradient"));
        }
        for function in kernels.iter().flat_map(|kernel| kernel.functions()) {
            for version in Version::ALL {
                let assembled = compile(function, version, &Options::default())
                    .unwrap_or_else(|e| panic!("{name}, {version}: {e}"));
                assert_eq!(assembled.spills, 0, "{name}, {version}: {}", function.name);
            }
        }
    }
    assert_eq!(resident, 3, "kernels with sums in registers");
}
