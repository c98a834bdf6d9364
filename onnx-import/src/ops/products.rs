//! Matrix products.

use trainc_ir::ops::matmul::ProductRole;
use trainc_ir::ops::{Add, MatMul, Mul};

use crate::call::{Bound, Call, is_zero};
use crate::error::{NodeResult, invalid};
use crate::ops::movement::one;

pub(crate) fn gemm(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    let (transpose_a, transpose_b) = (call.flag("transA", false)?, call.flag("transB", false)?);
    let (a, b) = (call.f32(0)?, call.f32(1)?);
    if call.shape(a).len() != 2 || call.shape(b).len() != 2 {
        return Err(invalid!("operands of shapes {:?} and {:?}", call.shape(a), call.shape(b)));
    }
    let with_c = call.given(2) && beta != 0.0 && !call.known(2)?.is_some_and(|c| is_zero(&c));
    let product = MatMul { transpose_a, transpose_b, role: ProductRole::Forward };
    let last = |is_last: bool, name: &'static str| if is_last { "" } else { name };
    let mut y = call.add(product, &[a, b], last(alpha == 1.0 && !with_c, "product"))?;
    if alpha != 1.0 {
        let alpha = call.scalar(alpha);
        y = call.add(Mul {}, &[y, alpha], last(!with_c, "alpha"))?;
    }
    if with_c {
        let mut c = call.f32(2)?;
        if beta != 1.0 {
            let beta = call.scalar(beta);
            c = call.add(Mul {}, &[c, beta], "beta")?;
        }
        let dims = call.shape(y);
        let sum = call.add(Add {}, &[y, c], "")?;
        if call.shape(sum) != dims {
            return Err(invalid!("C does not broadcast to {dims:?}"));
        }
        y = sum;
    }
    one(y)
}

pub(crate) fn matmul(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (a, b) = (call.f32(0)?, call.f32(1)?);
    let (dims_a, dims_b) = (call.shape(a), call.shape(b));
    if dims_a.is_empty() || dims_b.is_empty() {
        return Err(invalid!("an operand is a scalar"));
    }
    let product = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
    if dims_a.len() > 1 && dims_b.len() > 1 {
        return one(call.add(product, &[a, b], "")?);
    }
    // A vector is a matrix of one row (left) or one column (right), and that dimension goes again.
    let (a, b) = (Bound::from(a), Bound::from(b));
    let a = if dims_a.len() == 1 { call.reshaped(&a, vec![1, dims_a[0]])? } else { a };
    let b = if dims_b.len() == 1 { call.reshaped(&b, vec![dims_b[0], 1])? } else { b };
    let (a, b) = (call.lower(&a, "A")?, call.lower(&b, "B")?);
    let y = call.add(product, &[a, b], "product")?;
    let mut dims = call.shape(y);
    let rows = dims.len() - 2;
    if dims_b.len() == 1 {
        dims.remove(rows + 1);
    }
    if dims_a.len() == 1 {
        dims.remove(rows);
    }
    one(call.reshaped(&y.into(), dims)?)
}
