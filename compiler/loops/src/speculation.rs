//! Selections without branches: whether both sides may be computed whatever the condition.

use trainc_ir::loops::{Buffer, Expr, Node};

/// Whether both sides of a selection may be computed: each load is in bounds, or happens in any case, as part of a
/// `certain` expression or of the other side.
pub fn may_compute_both(
    certain: &[&Expr],
    sides: [&Expr; 2],
    in_bounds: &dyn Fn(Buffer, &Expr) -> bool,
) -> bool {
    fn loads<'e>(expressions: &[&'e Expr]) -> Vec<&'e Expr> {
        let mut found = Vec::new();
        for e in expressions {
            e.each(&mut |e| {
                if matches!(*e.node, Node::Load(..)) {
                    found.push(e);
                }
            });
        }
        found
    }
    let (always, a, b) = (loads(certain), loads(&sides[..1]), loads(&sides[1..]));
    let fits = |load: &Expr| match &*load.node {
        Node::Load(buffer, index) => in_bounds(*buffer, index),
        _ => false,
    };
    let covered = |side: &[&Expr], other: &[&Expr]| {
        side.iter().all(|load| fits(load) || always.contains(load) || other.contains(load))
    };
    covered(&a, &b) && covered(&b, &a)
}
