//! Sums of codes by a factor and an offset of each channel, rounded by the kernel: its bytes, and its packets beside the estimate.

use trainc_hvx::kernels::{ChannelLineSums, ChannelLines, DitheredLines};
use trainc_ir::numeric::dither;
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{check, text};

/// Bits of the magnitudes of factors and of offsets.
const WIDTHS: [[u32; 2]; 7] = [[15, 16], [15, 30], [15, 24], [2, 1], [9, 5], [0, 0], [15, 28]];

#[test]
fn rounded_sums() {
    // Images, channels, positions.
    let shapes = [
        [4, 24, 1024],
        [3, 40, 256],
        [4, 64, 64],
        [1, 72, 16],
        [5, 48, 16],
        [2, 96, 4],
        [9, 3, 128],
        [40, 33, 128],
        [9, 2, 1152],
        [12, 34, 64],
    ];
    let mut random = Random(31);
    let mut failures = Vec::new();
    for (number, [images, channels, positions]) in shapes.into_iter().enumerate() {
        for (case, [factor, offset]) in WIDTHS.into_iter().enumerate() {
            let low = if (number + case) % 4 == 3 { 0 } else { -127 };
            let lines = ChannelLines { images, channels, positions, low };
            assert!(lines.is_supported(), "{lines:?}");
            let what = format!("lines {images} {channels} {positions} {factor} {offset}");
            let codes: Vec<i8> =
                (0..images * channels * positions).map(|_| (random.next() >> 40) as i8).collect();
            let mut word = |bits: u32| match (bits, random.next()) {
                (0, _) => 0,
                (bits, drawn) => {
                    // The limits, too.
                    let most = if bits == 30 { 1 << 30 } else { (1 << bits) - 1 };
                    [
                        most,
                        -most,
                        (drawn >> 33) as i32 % (most + 1),
                        -((drawn >> 33) as i32) % (most + 1),
                    ][(drawn >> 20) as usize % 4]
                }
            };
            let coefficients: Vec<[i32; 2]> =
                (0..channels).map(|_| [word(factor), word(offset)]).collect();
            let sums: Vec<i64> = (codes.iter().enumerate())
                .map(|(i, &code)| {
                    let [factor, offset] = coefficients[i / positions % channels].map(i64::from);
                    i64::from(code) * factor + offset
                })
                .collect();
            let largest = sums.iter().map(|sum| sum.unsigned_abs()).max().unwrap_or(0);
            let shift = (64 - largest.leading_zeros()).saturating_sub(7);
            let half = if shift > 0 { 1i64 << (shift - 1) } else { 0 };
            let rounded = |sum: i64| sum.signum() * ((sum.abs() + half) >> shift);
            let bytes: Vec<u8> = (sums.iter())
                .map(|&sum| (rounded(sum).clamp(low.into(), 127) as i8).cast_unsigned())
                .collect();
            let words = |at: usize| -> Vec<u8> {
                // And what may be read beyond.
                let own = coefficients.iter().map(|c| c[at]);
                own.chain([-1; 32]).flat_map(i32::to_le_bytes).collect()
            };
            let kernel = lines.rounded("rounded").expect("a kernel");
            let mut image = Image::default();
            let codes: Vec<u8> = codes.iter().map(|code| code.cast_unsigned()).collect();
            let mut arguments = vec![image.place("codes", Some(&codes), None, codes.len())];
            for (at, name) in ["factors", "offsets"].into_iter().enumerate() {
                arguments.push(image.place(name, Some(&words(at)), None, 0));
            }
            arguments.push(image.place("bytes", None, Some(&bytes), bytes.len()));
            arguments.push(image.reserve("working memory", kernel.scratch_bytes));
            let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
            image.call("rounded", &arguments);
            let entry = kernel.entry().expect("an entry");
            let program: String = kernel.functions().chain([&entry]).map(text).collect();
            let packets = check(&folder(&what), &image, &program) as usize;
            let estimate = lines.packets();
            println!("{what}: shift {shift}, {packets} packets, estimated {estimate}");
            if packets.abs_diff(estimate) * 4 > packets {
                failures.push(format!("{what}: {packets} packets, estimated {estimate}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn sums_of_words() {
    // Images, channels, positions; whether there are two operands.
    let cases = [
        ([4, 24, 1024], true),
        ([3, 40, 256], true),
        ([4, 64, 64], true),
        ([4, 70, 64], false),
        ([1, 72, 16], true),
        ([5, 48, 16], false),
        ([2, 96, 4], true),
        ([2, 36, 32], true),
        ([40, 33, 128], true),
        ([9, 2, 1152], false),
        ([12, 34, 64], true),
    ];
    let mut random = Random(37);
    let mut failures = Vec::new();
    for ([images, channels, positions], two) in cases {
        let lines = ChannelLineSums { images, channels, positions, two };
        assert!(lines.is_supported(), "{lines:?}");
        let what = format!("sums {images} {channels} {positions} {two}");
        let count = images * channels * positions;
        let mut codes = || -> Vec<i8> { (0..count).map(|_| (random.next() >> 40) as i8).collect() };
        let [x, y] = [codes(), codes()];
        let mut within = |most: i32| {
            [most, -most, (random.next() >> 33) as i32 % most][random.next() as usize % 3]
        };
        let coefficients: Vec<[i32; 3]> =
            (0..channels).map(|_| [32_767, 32_767, 1 << 30].map(&mut within)).collect();
        let sums = (0..count).flat_map(|i| {
            let [p, q, r] = coefficients[i / positions % channels];
            let other = if two { q * i32::from(y[i]) } else { 0 };
            (p * i32::from(x[i]) + other + r).to_le_bytes()
        });
        let sums: Vec<u8> = sums.collect();
        // And what may be read beyond.
        let words = |at: usize| -> Vec<u8> {
            coefficients.iter().map(|c| c[at]).chain([-1; 32]).flat_map(i32::to_le_bytes).collect()
        };
        let bytes =
            |codes: &[i8]| codes.iter().map(|code| code.cast_unsigned()).collect::<Vec<u8>>();
        let mut image = Image::default();
        let mut arguments = vec![
            image.place("codes", Some(&bytes(&x)), None, count),
            image.place("others", Some(&bytes(&y)), None, count),
        ];
        let factors = [0, 1].map(|at| image.place("factors", Some(&words(at)), None, 0));
        arguments.push(factors[0]);
        arguments.push(image.place("offsets", Some(&words(2)), None, 0));
        arguments.push(image.place("sums", None, Some(&sums), sums.len()));
        let kernel = lines.kernel("sums", factors[1] - factors[0]).expect("a kernel");
        arguments.push(image.reserve("working memory", kernel.scratch_bytes));
        let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
        image.call("sums", &arguments);
        let entry = kernel.entry().expect("an entry");
        let program: String = kernel.functions().chain([&entry]).map(text).collect();
        let packets = check(&folder(&what), &image, &program) as usize;
        let estimate = lines.packets();
        println!("{what}: {packets} packets, estimated {estimate}");
        if packets.abs_diff(estimate) * 4 > packets {
            failures.push(format!("{what}: {packets} packets, estimated {estimate}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn dithered_sums() {
    // Images, channels, positions.
    let shapes = [
        [4, 24, 1024],
        [3, 40, 256],
        [4, 64, 64],
        [1, 72, 16],
        [5, 48, 16],
        [2, 96, 4],
        [40, 33, 128],
        [9, 2, 1152],
        [12, 34, 64],
        [1, 8, 16],
    ];
    // Bits of the magnitudes of factors and of offsets: shifts of 0 to 24, those of 1, 16 and 17 among them.
    let widths = [[15, 16], [15, 30], [15, 24], [2, 1], [0, 7], [0, 0], [0, 8], [14, 23], [8, 24]];
    let mut random = Random(41);
    let mut failures = Vec::new();
    let mut shifts = [false; 25];
    for (number, [images, channels, positions]) in shapes.into_iter().enumerate() {
        for (case, widths) in widths.into_iter().enumerate() {
            if (number + case).is_multiple_of(3) && number > 0 {
                continue;
            }
            let lines = DitheredLines { images, channels, positions };
            assert!(lines.is_supported(), "{lines:?}");
            let what = format!("dithered {images} {channels} {positions} {widths:?}");
            let count = images * channels * positions;
            let mut codes =
                || -> Vec<i8> { (0..count).map(|_| (random.next() >> 40) as i8).collect() };
            let [x, y] = [codes(), codes()];
            let [factor, offset] = widths.map(|bits: u32| match bits {
                30 => 1 << 30,
                bits => (1 << bits) - 1,
            });
            let mut within = |most: i32| {
                let inside = (random.next() >> 33) as i32 % (most + 1);
                [most, -most, inside, -inside][random.next() as usize % 4]
            };
            let coefficients: Vec<[i32; 3]> =
                (0..channels).map(|_| [factor, factor, offset].map(&mut within)).collect();
            let sums: Vec<i32> = (0..count)
                .map(|i| {
                    let [p, q, r] = coefficients[i / positions % channels];
                    p * i32::from(x[i]) + q * i32::from(y[i]) + r
                })
                .collect();
            let largest = sums.iter().map(|sum| sum.unsigned_abs()).max().unwrap_or(0);
            let shift = (32 - largest.leading_zeros()).saturating_sub(7);
            shifts[shift as usize] = true;
            let key = random.next() as u32;
            let results: Vec<u8> = sums
                .iter()
                .zip(0..)
                .map(|(&sum, i)| {
                    let bits = dither::mix(key.wrapping_add(i));
                    let q = dither::shift_right(sum, shift, bits).clamp(-127, 127);
                    (q as i8).cast_unsigned()
                })
                .collect();
            // And what may be read beyond.
            let words = |at: usize| -> Vec<u8> {
                let own = coefficients.iter().map(|c| c[at]);
                own.chain([-1; 32]).flat_map(i32::to_le_bytes).collect()
            };
            let bytes =
                |codes: &[i8]| codes.iter().map(|code| code.cast_unsigned()).collect::<Vec<u8>>();
            let mut image = Image::default();
            let mut arguments = vec![
                image.place("codes", Some(&bytes(&x)), None, count),
                image.place("others", Some(&bytes(&y)), None, count),
            ];
            let factors = [0, 1].map(|at| image.place("factors", Some(&words(at)), None, 0));
            arguments.push(factors[0]);
            arguments.push(image.place("offsets", Some(&words(2)), None, 0));
            arguments.push(image.place("key", Some(&key.to_le_bytes()), None, 4));
            arguments.push(image.place("bytes", None, Some(&results), count));
            let kernel = lines.kernel("dithered", factors[1] - factors[0]).expect("a kernel");
            arguments.push(image.reserve("working memory", kernel.scratch_bytes));
            let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
            image.call("dithered", &arguments);
            let entry = kernel.entry().expect("an entry");
            let program: String = kernel.functions().chain([&entry]).map(text).collect();
            let packets = check(&folder(&what), &image, &program) as usize;
            let estimate = lines.packets();
            println!("{what}: shift {shift}, {packets} packets, estimated {estimate}");
            let usual = (1..=16).contains(&shift);
            if usual && packets.abs_diff(estimate) * 4 > packets {
                failures.push(format!("{what}: {packets} packets, estimated {estimate}"));
            }
        }
    }
    for shift in [0, 1, 16, 17, 24] {
        assert!(shifts[shift], "no sums are shifted by {shift}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
