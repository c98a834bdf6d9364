//! What may be chosen on the device: groups of work items, and variants of kernels.

use trainc_ir::tuning::{Candidate, Tunable, Tuning};

use crate::printed::PrintedPhase;

/// Work items of the groups that are tried.
const SIZES: [i64; 3] = [16, 64, 256];

/// What is added to a program that tries choices.
const TRIALS: &str = include_str!("../support/trials.c");

/// The artifact's file that holds the choice.
pub(crate) fn file(prefix: &str) -> String {
    format!("{prefix}_tuning.h")
}

/// The choices for an artifact's kernels.
pub(crate) fn tuning<'p>(prefix: &str, kernels: impl Iterator<Item = &'p PrintedPhase>) -> Tuning {
    let mut tunables: Vec<Tunable> = Vec::new();
    let (mut own, mut first) = (0, None);
    for phase in kernels {
        let candidates = match phase.variant {
            None => {
                (own, first) = (tunables.len(), phase.first);
                groups(phase.items())
            }
            Some(variant) => {
                let candidate = Candidate {
                    variant: tunables.len() - own,
                    name: variant.name.to_string(),
                    group: variant.group,
                };
                let candidates = &mut tunables[own].candidates;
                // Of several kernels the first stands for all.
                let further = variant.group.is_none()
                    && candidates.iter().any(|other| other.name == candidate.name);
                if !further {
                    let at = if first == Some(candidate.variant) { 0 } else { candidates.len() };
                    candidates.insert(at, candidate);
                }
                Vec::new()
            }
        };
        tunables.push(Tunable { kernel: phase.name.clone(), candidates });
    }
    Tuning {
        tunables,
        file: file(prefix),
        flag: "-DTRAINC_OPENCL_TRIALS",
        support: vec![("trials.c".into(), TRIALS.into())],
    }
}

/// Groups that divide a range, first the driver's choice: of each size the longest along one dimension, then along the next.
fn groups(items: [i64; 3]) -> Vec<Candidate> {
    let own = |group| Candidate { variant: 0, name: String::new(), group };
    let mut all = vec![own(None)];
    if items.iter().product::<i64>() <= 1 {
        return all;
    }
    for size in SIZES {
        for order in [[0, 1, 2], [1, 0, 2]] {
            let (mut group, mut left) = ([1u32; 3], size);
            for at in order {
                let most = (1..=left.min(items[at])).rev().find(|n| items[at] % n == 0);
                let most = most.unwrap_or(1);
                group[at] = most as u32;
                left /= most;
            }
            let candidate = own(Some(group));
            if !all.contains(&candidate) {
                all.push(candidate);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_divide_the_range() {
        let shown =
            |items| groups(items).iter().map(Candidate::to_string).collect::<Vec<_>>().join(", ");
        assert_eq!(shown([32, 13, 13]), "driver, 16x1x1, 1x13x1, 32x1x1, 4x13x1, 16x13x1");
        assert_eq!(shown([1, 1, 1]), "driver");
        assert_eq!(shown([7, 1, 1]), "driver, 7x1x1");
    }
}
