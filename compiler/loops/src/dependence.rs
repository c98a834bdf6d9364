//! Whether rounds of a loop meet in memory.

use trainc_ir::loops::{Buffer, Local};

use crate::linear::Linear;
use crate::reasons::Reason;

/// Elements that a loop touches, one in each round or in each round of a loop inside.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    /// The buffer.
    pub buffer: Buffer,
    /// Which element.
    pub index: Linear,
    /// Whether it is stored.
    pub stored: bool,
    /// Variables of inner loops are among the index's terms.
    pub moves: bool,
}

impl Access {
    /// Whether another access is to the element before or after, in all rounds.
    pub fn is_beside(&self, other: &Access) -> bool {
        self.buffer == other.buffer
            && self.index.is_parallel(&other.index)
            && self.index.constant.abs_diff(other.index.constant) == 1
    }
}

/// Checks that no round touches an element that another one stores, so that the accesses, which are in the order of the
/// text, may be done one after the other, each for several rounds. `rounds` is how many there are, if known;
/// `in_place` says of two different buffers whether element n of one may be element n of the other.
///
/// # Errors
/// [`Reason::RoundsMeet`], [`Reason::Strided`].
pub fn rounds_are_apart(
    accesses: &[Access],
    variable: Local,
    rounds: Option<i64>,
    in_place: &dyn Fn(Buffer, Buffer) -> bool,
) -> Result<(), Reason> {
    for (at, store) in accesses.iter().enumerate().filter(|(_, a)| a.stored) {
        let stride = store.index.factor(variable);
        if store.moves || stride == 0 {
            return Err(Reason::Strided(store.buffer, 0));
        }
        for (other_at, other) in accesses.iter().enumerate() {
            let distance = other.index.constant.wrapping_sub(store.index.constant);
            let same = other.index.is_parallel(&store.index);
            let meets = if other.buffer == store.buffer {
                let reaches = rounds.is_none_or(|rounds| (distance / stride).abs() < rounds);
                !same || distance != 0 && distance % stride == 0 && reaches
            } else {
                in_place(store.buffer, other.buffer) && other_at > at && !(same && distance == 0)
            };
            if meets {
                return Err(Reason::RoundsMeet(store.buffer));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::loops::{Expr, Node, Scalar};

    #[test]
    fn rounds_meet_where_a_distance_is_within_reach() {
        let variable = Local(0);
        let i = Expr { ty: Scalar::I64, node: Box::new(Node::Local(variable)) };
        let access = |buffer: u32, factor: i64, constant: i64, stored: bool| Access {
            buffer: Buffer(buffer),
            index: Linear::of(&(i.clone() * Expr::i64(factor) + Expr::i64(constant))),
            stored,
            moves: false,
        };
        let apart = |accesses: &[Access], rounds, in_place: bool| {
            rounds_are_apart(accesses, variable, rounds, &|_, _| in_place).is_ok()
        };
        let store = access(0, 1, 0, true);
        assert!(apart(&[access(0, 1, 0, false), store.clone()], None, false));
        assert!(!apart(&[access(0, 1, 1, false), store.clone()], None, false));
        // Beyond the last round.
        assert!(apart(&[access(0, 1, 8, false), store.clone()], Some(8), false));
        assert!(!apart(&[access(0, 1, 8, false), store.clone()], Some(9), false));
        // Even and odd elements.
        assert!(apart(&[access(0, 2, 1, false), access(0, 2, 0, true)], None, false));
        assert!(!apart(&[access(0, 2, 2, false), access(0, 2, 0, true)], None, false));
        // Another buffer, which may lie in the same place.
        assert!(apart(&[store.clone(), access(1, 1, 1, false)], None, false));
        assert!(!apart(&[store.clone(), access(1, 1, 1, false)], None, true));
        assert!(apart(&[access(1, 1, 1, false), store.clone()], None, true));
        assert!(!apart(&[access(0, 0, 3, true)], None, false));
    }
}
