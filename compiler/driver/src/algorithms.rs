//! Algorithms by name or file.

use std::path::Path;

pub use trainc_opt::algorithm::Algorithm;
pub use trainc_opt::algorithm::optimizer::{OPTIMIZERS, Optimizer, Parameter};
use trainc_opt::algorithm::{BUILT_IN, Recipe};
pub use trainc_opt::coverage::state_of_weights;

use crate::error::{Context, InFile, Result};
use crate::hash::Fingerprint;

/// Whether an algorithm's name is the path of a TOML file: it ends in `.toml`, or has `/` or `\`.
pub fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains(['/', '\\'])
}

/// A name or path, and the values of parameters behind it: `dorefa:w=4,a=4` is `dorefa` and `w=4,a=4`.
pub fn split(name: &str) -> (&str, Option<&str>) {
    let built_in = |name: &str| BUILT_IN.iter().any(|(known, _)| *known == name);
    match name.rsplit_once(':') {
        Some((own, values))
            if !values.contains(['/', '\\'])
                && (values.contains('=') || built_in(own) || own.ends_with(".toml")) =>
        {
            (own, Some(values))
        }
        _ => (name, None),
    }
}

/// The algorithm of that built-in name, or in the TOML file at that path ([`is_path`]), with the values of its parameters that
/// stand behind it ([`split`]).
///
/// # Errors
/// If there is none of that name, the file cannot be read or is not an algorithm, or a value is none of a parameter's.
pub fn load(name: &str) -> Result<Algorithm> {
    let (name, values) = split(name);
    let algorithm = if is_path(name) { read(name)? } else { Algorithm::built_in(name)? };
    Ok(match values {
        Some(values) => algorithm.with_parameters(values)?,
        None => algorithm,
    })
}

fn read(name: &str) -> Result<Algorithm> {
    let path = Path::new(name);
    let text = std::fs::read_to_string(path)
        .map_err(|e| InFile::new(path, format!("cannot read: {e}")))?;
    Algorithm::parse(name, &text)
        .map_err(|e| InFile { file: name.to_string(), message: e.to_string(), node: None })
        .context("the algorithm file")
}

/// Fingerprint of an algorithm's text, of its parameters' values, and of the optimizer and the recipe that were chosen for it.
pub fn hash(algorithm: &Algorithm) -> String {
    let chosen = algorithm.chosen.as_deref().unwrap_or_default();
    let recipe = match algorithm.recipe == Recipe::default() {
        true => String::new(),
        false => format!("{:?}", algorithm.recipe),
    };
    let hash = Fingerprint::new().add(algorithm.text.as_bytes());
    let values = algorithm.parameters.spelled();
    hash.add(values.as_bytes()).add(chosen.as_bytes()).add(recipe.as_bytes()).text()
}

/// Every built-in algorithm, in the order of listings.
///
/// # Errors
/// If a built-in file does not parse: a bug.
pub fn built_in() -> Result<Vec<Algorithm>> {
    BUILT_IN.iter().map(|(name, _)| Ok(Algorithm::built_in(name)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files() {
        assert_eq!(load("niti").unwrap().name, "niti");
        let unknown = load("nitti").unwrap_err().to_string();
        assert!(unknown.contains("nitti") && unknown.contains("niti"), "{unknown}");
        let missing = load("no/such.toml").unwrap_err().to_string();
        assert!(missing.contains("no/such.toml"), "{missing}");
        assert_eq!(built_in().unwrap().len(), BUILT_IN.len());
        let none = load("niti-2020:w=4").unwrap_err().to_string();
        assert!(none.contains("`w`") && none.contains("the algorithm has none"), "{none}");
        assert!(load("niti:").unwrap_err().to_string().contains("NAME=NUMBER"));
        for (name, expected) in [
            ("niti", ("niti", None)),
            ("a.toml:w=1,b=2", ("a.toml", Some("w=1,b=2"))),
            ("c:\\a=b\\n.toml", ("c:\\a=b\\n.toml", None)),
            ("nitti:x", ("nitti:x", None)),
        ] {
            assert_eq!(split(name), expected);
        }
    }
}
