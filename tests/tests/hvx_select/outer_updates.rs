//! Weights of fully connected layers, updated by a single image: awkward shapes, extreme factors and any number of bits against the
//! meaning, bit for bit, and packets beside their estimates.

use trainc_hvx::kernels::OuterUpdate;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Chain, MatMul, ProductRole, QuantizeGradient, SaturatingSubtractFrom};
use trainc_ir::{Op, RunContext, Tensor};
use trainc_tests::hexagon_convolution::entry_in_pieces;
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{check, text};

/// What factors are drawn from.
#[derive(Clone, Copy, Debug)]
enum Draw {
    /// All bytes.
    Any,
    /// -128 and 127.
    Extreme,
    /// Up to so many, of both signs.
    Small(i8),
    /// -128, and 0 for most.
    Sparse,
    /// 0.
    Nothing,
}

fn bytes(random: &mut Random, count: usize, draw: Draw) -> Vec<i8> {
    let mut byte = || (random.next() >> 56) as i8;
    let value = |_| match draw {
        Draw::Any => byte(),
        Draw::Extreme => [-128, 127][usize::from(byte() > 0)],
        Draw::Small(most) => byte() % (most + 1),
        Draw::Sparse => [0, -128][usize::from(byte() > 90)],
        Draw::Nothing => 0,
    };
    (0..count).map(value).collect()
}

/// A launch: what it multiplies, to how many bits it rounds, and whether weights are updated where they are.
struct Launch {
    errors: Draw,
    lanes: Draw,
    weights: Draw,
    bits: i32,
    in_place: bool,
}

impl Launch {
    /// Its buffers, what they must hold after, and its call.
    fn put(&self, image: &mut Image, random: &mut Random, update: OuterUpdate, memory: usize) {
        let (transpose_a, transpose_b, role) = (true, false, ProductRole::Gradient);
        let product = MatMul { transpose_a, transpose_b, role };
        let narrow = QuantizeGradient { rounding: Rounding::PseudoStochastic };
        let ops = vec![product.into(), narrow.into(), SaturatingSubtractFrom {}.into()];
        let op: Op = Chain { ops }.into();
        let OuterUpdate { rows, columns } = update;
        let mut tensor = |shape: [usize; 2], draw| {
            Tensor::i8_shared(shape, bytes(random, shape[0] * shape[1], draw), -3)
        };
        let dy = tensor([1, rows], self.errors);
        let x = tensor([1, columns], self.lanes);
        let w = tensor([rows, columns], self.weights);
        let operands = [&dy, &x, &Tensor::i32([], vec![self.bits]), &w];
        let meaning = op.evaluate(&operands, &RunContext::default()).remove(0);
        let stored =
            |t: &Tensor| -> Vec<u8> { t.as_i8().iter().map(|x| x.cast_unsigned()).collect() };
        let Launch { errors, lanes, bits, .. } = self;
        let name = |what: &str| format!("{what}, {bits} bits of {lanes:?} and {errors:?}");
        let mut arguments: Vec<usize> = [("lanes", &x), ("errors", &dy)]
            .map(|(what, t)| image.place(&name(what), Some(&stored(t)), None, 0))
            .to_vec();
        arguments.push(image.place("bits", Some(&bits.to_le_bytes()), None, 4));
        let (before, after, what) = (stored(&w), stored(&meaning), name("weights"));
        if self.in_place {
            let both = image.place(&what, Some(&before), Some(&after), 0);
            arguments.extend([both, both]);
        } else {
            arguments.push(image.place(&what, Some(&before), None, 0));
            arguments.push(image.place(&what, None, Some(&after), after.len()));
        }
        arguments.push(image.reserve("working memory", memory));
        let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
        image.call("kernel", &arguments);
    }
}

#[test]
fn outer_products() {
    let mut random = Random(41);
    // Rows and columns: of whole vectors and others, more and less than a vector's columns, one row or column.
    let shapes = [
        [120, 400],
        [84, 120],
        [10, 84],
        [3, 128],
        [7, 129],
        [129, 255],
        [1, 1],
        [1, 1000],
        [300, 1],
        [5, 25],
        [16, 8],
        [40, 127],
        [2, 64],
        [128, 384],
    ];
    let factors = [
        [Draw::Any, Draw::Any],
        [Draw::Extreme, Draw::Extreme],
        [Draw::Small(3), Draw::Small(9)],
        [Draw::Any, Draw::Sparse],
        [Draw::Small(1), Draw::Any],
        [Draw::Nothing, Draw::Extreme],
    ];
    let widths = [5, 7, 1, 3, 15, 16, 0, -1, -7, -13, -14, -15, -16, -40, i32::MIN, i32::MAX];
    let mut failures = Vec::new();
    for (number, [rows, columns]) in shapes.into_iter().enumerate() {
        let update = OuterUpdate { rows, columns };
        assert!(update.is_supported(), "{update:?}");
        let kernel = update.kernel("kernel").expect("a kernel");
        let what = format!("outer updates {rows} {columns}");
        let mut image = Image::default();
        for (case, bits) in widths.into_iter().enumerate() {
            let [errors, lanes] = factors[(number + case) % factors.len()];
            let weights = [Draw::Any, Draw::Extreme][case % 2];
            let launch = Launch { errors, lanes, weights, bits, in_place: case % 3 == 0 };
            launch.put(&mut image, &mut random, update, kernel.scratch_bytes);
        }
        image.reserve_behind(256);
        let pieces = entry_in_pieces(&kernel);
        let program: String = kernel.functions().chain(&pieces).map(text).collect();
        check(&folder(&what), &image, &program);

        let mut image = Image::default();
        let [errors, lanes, weights] = [Draw::Any; 3];
        let launch = Launch { errors, lanes, weights, bits: 5, in_place: true };
        launch.put(&mut image, &mut random, update, kernel.scratch_bytes);
        image.reserve_behind(256);
        let entry = kernel.entry().expect("an entry");
        let program: String = kernel.functions().chain([&entry]).map(text).collect();
        let packets = check(&folder(&format!("{what} once")), &image, &program) as usize;
        let estimate = update.packets();
        println!("{what}: {packets} packets, {estimate} estimated");
        if packets.abs_diff(estimate) * 4 > packets {
            failures.push(format!("{what}: {packets} packets, {estimate} estimated"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
