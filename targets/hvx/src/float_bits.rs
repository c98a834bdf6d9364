//! Sums of floats by their bits, in integers that vectors compute.

use trainc_ir::loops::Expr;
use trainc_ir::loops::builder::LoopBuilder;

/// Bits of a float's mantissa that are stored.
pub(crate) const MANTISSA: i32 = 23;
/// The one that is not.
pub(crate) const ONE: i32 = 1 << MANTISSA;
/// Bits below a sum's last one: two that round, and those of a shifted mantissa.
pub(crate) const GUARD: i32 = 6;

/// The mantissa of a normal number, by its bits without sign.
pub(crate) fn mantissa(number: &Expr) -> Expr {
    number.clone().and(Expr::i32(ONE - 1)).or(Expr::i32(ONE))
}

/// The biased exponent of a number, by its bits without sign.
pub(crate) fn exponent(number: &Expr) -> Expr {
    number.clone().shr_unsigned(Expr::i32(MANTISSA))
}

/// Two magnitudes beside the larger one's exponent.
pub(crate) struct Aligned {
    /// That exponent, biased.
    pub(crate) exponent: Expr,
    /// The mantissas, [`GUARD`] places up; the last bit of the smaller one says whether anything was shifted out, too.
    pub(crate) larger: Expr,
    pub(crate) smaller: Expr,
}

impl Aligned {
    /// Of two magnitudes' bits. One that is not normal must be so far below the other that it only decides between halves.
    pub(crate) fn of(b: &mut LoopBuilder, x: Expr, y: Expr) -> Aligned {
        let larger = b.let_("larger", x.clone().maximum(y.clone()));
        let smaller = b.let_("smaller", x.minimum(y));
        let above = b.let_("above", exponent(&larger));
        let apart = above.clone() - exponent(&smaller);
        let apart = b.let_("apart", apart.maximum(Expr::i32(0)).minimum(Expr::i32(31)));
        let places = Expr::i32(GUARD);
        let all = b.let_("all", mantissa(&smaller).shift_left(places.clone()));
        let part = b.let_("part", all.clone().shr_unsigned(apart.clone()));
        let exact = part.clone().shift_left(apart).equal(all);
        let part = exact.select(part.clone(), part.or(Expr::i32(1)));
        Aligned { exponent: above, larger: mantissa(&larger).shift_left(places), smaller: part }
    }
}
