//! Prints a random program with XpulpV2 instructions, for comparisons with other machines: `random_program SEED`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::programs::{Kind, program};

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok());
    print!("{}", program(seed.expect("a number as seed"), Kind::Pulp));
}
