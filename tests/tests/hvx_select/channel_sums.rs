//! Sums of channels and of products, by the kernel: its numbers, and its packets beside the estimate.

use trainc_hvx::kernels::ChannelSums;
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{check, text};

/// Bytes of a word for each channel.
fn words(sums: impl Iterator<Item = i32>) -> Vec<u8> {
    sums.flat_map(i32::to_le_bytes).collect()
}

#[test]
fn sums_of_channels() {
    // Images, channels, positions; whether codes are multiplied by themselves, and whether all are the least.
    let cases = [
        ([4, 24, 1024], true, false),
        ([3, 40, 256], false, false),
        ([4, 64, 64], true, true),
        ([1, 960, 16], false, false),
        ([5, 48, 16], true, false),
        ([2, 96, 4], false, false),
        ([40, 3, 128], false, true),
        ([9, 2, 640], true, false),
    ];
    let mut random = Random(29);
    let mut failures = Vec::new();
    for ([images, channels, positions], squares, least) in cases {
        let sums = ChannelSums { images, channels, positions, squares };
        assert!(sums.is_supported(), "{sums:?}");
        let what = format!("channels {images} {channels} {positions} {squares}");
        let mut codes = || -> Vec<i8> {
            let code = |_| if least { -128 } else { (random.next() >> 40) as i8 };
            (0..images * channels * positions).map(code).collect()
        };
        let x = codes();
        let y = if squares { x.clone() } else { codes() };
        let of_channel = |channel: usize, term: &dyn Fn(usize) -> i32| -> i32 {
            let image = |n: usize| (n * channels + channel) * positions;
            (0..images).flat_map(|n| image(n)..image(n) + positions).map(term).sum()
        };
        let expected = [
            words((0..channels).map(|c| of_channel(c, &|i| i32::from(x[i])))),
            words((0..channels).map(|c| of_channel(c, &|i| i32::from(x[i]) * i32::from(y[i])))),
        ];
        let bytes =
            |codes: &[i8]| codes.iter().map(|code| code.cast_unsigned()).collect::<Vec<u8>>();
        let mut image = Image::default();
        let mut arguments = vec![image.place("codes", Some(&bytes(&x)), None, x.len())];
        arguments.push(match squares {
            true => arguments[0],
            false => image.place("others", Some(&bytes(&y)), None, y.len()),
        });
        let memory = image.reserve("working memory", sums.memory_bytes());
        arguments.push(memory);
        for (at, expected) in sums.results().into_iter().zip(&expected) {
            image.expect(memory + at, expected);
        }
        let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
        image.call("sums", &arguments);
        let function = sums.function("sums").expect("a kernel");
        let packets = check(&folder(&what), &image, &text(&function)) as usize;
        let estimate = sums.packets();
        println!("{what}: {packets} packets, estimated {estimate}");
        if packets.abs_diff(estimate) * 4 > packets {
            failures.push(format!("{what}: {packets} packets, estimated {estimate}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
