//! Algorithms that are others with some parts of their own: `base = "sbm:range=0"`.

use toml::{Table, Value};
use trainc_ir::text::nearest::did_you_mean;

use super::BUILT_IN;
use super::parameters::Parameters;

/// The key.
const BASE: &str = "base";
/// Tables of which a file may have some entries, and its base the others.
const JOINED: &str = "parameters";

/// A file's text with the parts of its base that it has none of; `None` if it names no base. Errors say what is wrong.
pub(super) fn merged(text: &str) -> Option<Result<Table, String>> {
    let mut own: Table = text.parse().ok()?;
    let base = own.remove(BASE)?;
    Some(with_base(own, &base))
}

fn with_base(own: Table, base: &Value) -> Result<Table, String> {
    let Some(spelled) = base.as_str() else {
        return Err(format!(
            "`{BASE}` is the name of a built-in algorithm, with values of its parameters: \"sbm:range=0\""
        ));
    };
    let (name, values) = match spelled.split_once(':') {
        Some((name, values)) => (name, Some(values)),
        None => (spelled, None),
    };
    let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
        let near = did_you_mean(name, BUILT_IN.iter().map(|(known, _)| *known));
        return Err(format!("`{BASE}`: there is no built-in algorithm `{name}`{near}"));
    };
    let mut all: Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    if all.contains_key(BASE) {
        return Err(format!("`{BASE}`: `{name}` has a base itself"));
    }
    if let Some(values) = values {
        set(&mut all, values).map_err(|message| format!("`{BASE}`: `{name}`: {message}"))?;
    }
    for (key, value) in own {
        match (all.get_mut(&key), value) {
            (Some(Value::Table(known)), Value::Table(value)) if key == JOINED => {
                known.extend(value)
            }
            (_, value) => {
                all.insert(key, value);
            }
        }
    }
    Ok(all)
}

/// Has parameters of a base begin with other values.
fn set(base: &mut Table, values: &str) -> Result<(), String> {
    let Some(declared) = base.get_mut(JOINED) else { return Err("it has no parameters".into()) };
    let read = declared.clone().try_into().map_err(|e: toml::de::Error| e.to_string())?;
    let mut parameters = Parameters::new(read).map_err(|(_, message)| message)?;
    parameters.set(values)?;
    for (name, value) in parameters.values() {
        if let Some(own) = declared.get_mut(name).and_then(Value::as_table_mut) {
            own.insert("default".into(), Value::Float(value));
        }
    }
    Ok(())
}
