//! Trains on the digits (`train EPOCHS SEED`) and prints the weights: for each tensor of the state its name, exponent
//! and elements.

#[path = "../tests/common/mod.rs"]
mod common;

use trainc_data::Dataset;
use trainc_firmware::digits::STATE_TENSORS;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let epochs = arguments.next().ok_or("usage: train EPOCHS SEED")?.parse()?;
    let seed = arguments.next().ok_or("usage: train EPOCHS SEED")?.parse()?;
    let mut learner = common::learner(seed);
    common::train(&mut learner, &Dataset::digits(), seed, epochs);
    let bytes = learner.state().as_bytes();
    for tensor in STATE_TENSORS {
        let exponent = tensor.exponent.ok_or("a tensor without exponent")?;
        let exponent = bytes[exponent..].first_chunk().copied().map(i32::from_le_bytes);
        let count: usize = tensor.shape.iter().product();
        print!("{} {}", tensor.name, exponent.ok_or("the state is too short")?);
        for &element in &bytes[tensor.offset..tensor.offset + count] {
            print!(" {}", element as i8);
        }
        println!();
    }
    Ok(())
}
