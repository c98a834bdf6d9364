//! Compiles the model's training step for the machine that cargo builds for.

fn main() -> Result<(), trainc_build::Error> {
    trainc_build::Builder::new().zoo("digits").algorithm("niti").batch(32).compile()?;
    Ok(())
}
