//! Packed buffers in loop kernels: which loops collect whole bytes, and that bits behind the last element are 0.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::packed::packed;
use trainc_ir::loops::{self, Buffer, Expr, LoopKernel, Node, Role, Stmt};
use trainc_ir::{Data, Element, RunContext, ScaleData, Tensor, TensorType};

const NARROW: [Element; 5] = [Element::I4, Element::U4, Element::I2, Element::U2, Element::B1];

/// `y[i] = x[i]` over rows.
fn copy(element: Element, rows: usize, columns: usize) -> LoopKernel {
    let ty = TensorType::new([rows, columns], element);
    let mut b = LoopBuilder::new(&[&ty], &[&ty], false);
    let (x, y) = (b.input(0), b.output(0));
    b.for_("row", rows, |b, row| {
        let first = b.let_("first", row * Expr::index(columns));
        b.for_("column", columns, |b, column| {
            let value = b.load(x, first.clone() + column.clone());
            b.store(y, first + column, value);
        });
    });
    b.finish()
}

/// Whether a store keeps other bits of the byte that it writes.
fn replaces_bits(block: &[Stmt], within: Buffer) -> bool {
    fn loads(e: &Expr, from: Buffer) -> bool {
        match &*e.node {
            Node::Load(buffer, _) => *buffer == from,
            Node::Unary(_, x) => loads(x, from),
            Node::Binary(_, a, b) => loads(a, from) || loads(b, from),
            _ => false,
        }
    }
    block.iter().any(|statement| match statement {
        Stmt::Store(buffer, _, value) => *buffer == within && loads(value, within),
        Stmt::For { body, .. } => replaces_bits(body, within),
        _ => false,
    })
}

fn elements(element: Element, count: usize) -> Tensor {
    let (low, high) = element.integer_range().expect("an integer");
    let values: Vec<i64> =
        (0..count as i64).map(|i| low + (i * i + i / 3) % (high - low + 1)).collect();
    Tensor::from_i64(&TensorType::new([count], element), &values, ScaleData::None)
}

#[test]
fn rows_of_whole_bytes_are_collected() {
    for element in NARROW {
        let per_byte = 8 / element.bits() as usize;
        for (rows, columns) in [(1, per_byte), (3, 2 * per_byte), (2, per_byte + 1), (3, 1)] {
            let kernel = packed(copy(element, rows, columns));
            assert!(kernel.buffers.iter().all(|b| b.element == Element::U8));
            let whole = columns % per_byte == 0;
            let y = Buffer(1);
            assert_eq!(kernel.buffers[1].role, Role::Output(0));
            assert_eq!(replaces_bits(&kernel.body, y), !whole, "{element} {rows} {columns}");
        }
    }
}

/// Every count of elements; the evaluation itself refuses bits that are left behind the last.
#[test]
fn copies_are_exact() {
    for element in NARROW {
        for (rows, columns) in (1..4).flat_map(|rows| (1..18).map(move |columns| (rows, columns))) {
            let kernel = packed(copy(element, rows, columns));
            let x = elements(element, rows * columns);
            let outputs = [x.ty().clone()];
            let found = loops::evaluate::run(&kernel, &[&x], &outputs, &RunContext::default());
            assert!(found[0].bits_equal(&x), "{element} {rows} {columns}: {found:?}");
        }
    }
}

/// An index that a running sum is part of is not divided: the sum has changed where the byte is stored.
#[test]
fn running_indices_are_not_collected() {
    let ty = TensorType::new([8], Element::U4);
    let mut b = LoopBuilder::new(&[&ty], &[&ty], false);
    let (x, y) = (b.input(0), b.output(0));
    let block = b.local("block", Expr::i64(0));
    b.for_("row", 2, |b, _| {
        b.for_("column", 4, |b, column| {
            let at = b.get(block) * Expr::i64(4) + column;
            let value = b.load(x, at.clone());
            b.store(y, at, value);
        });
        b.set(block, b.get(block) + Expr::i64(1));
    });
    let kernel = packed(b.finish());
    assert!(replaces_bits(&kernel.body, Buffer(1)));
    let x = elements(Element::U4, 8);
    let found = loops::evaluate::run(&kernel, &[&x], &[x.ty().clone()], &RunContext::default());
    assert!(found[0].bits_equal(&x));
}

/// Working memory keeps an element a byte.
#[test]
fn working_memory_is_not_packed() {
    let ty = TensorType::new([3], Element::I2);
    let mut b = LoopBuilder::new(&[&ty], &[&ty], false);
    let (x, y) = (b.input(0), b.output(0));
    let t = b.scratch("t", Element::I2, 3);
    b.for_("i", 3, |b, i| b.store(t, i.clone(), b.load(x, i)));
    b.for_("i", 3, |b, i| b.store(y, i.clone(), b.load(t, i)));
    let kernel = packed(b.finish());
    assert_eq!((kernel.buffers[2].element, kernel.buffers[2].count), (Element::I8, 3));
    let x = Tensor::new(ty.clone(), Data::I8(vec![-2, 1, -1]), ScaleData::None);
    let found = loops::evaluate::run(&kernel, &[&x], &[ty], &RunContext::default());
    assert!(found[0].bits_equal(&x));
}
