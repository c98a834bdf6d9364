//! How products take their batch, as an option.

use std::ffi::OsStr;

use serde::{Deserialize, Serialize};
use trainc_ir::batch_split::MicroBatch;

use super::value::Value;

/// A [`MicroBatch`], in files as its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Words", into = "String")]
pub struct MicroBatches(pub MicroBatch);

#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Number(usize),
    Text(String),
}

impl TryFrom<Words> for MicroBatches {
    type Error = String;

    fn try_from(words: Words) -> Result<MicroBatches, String> {
        let text = match words {
            Words::Number(images) => images.to_string(),
            Words::Text(text) => text,
        };
        text.parse().map(MicroBatches)
    }
}

impl From<MicroBatches> for String {
    fn from(value: MicroBatches) -> String {
        value.0.to_string()
    }
}

impl Value for MicroBatches {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        let text = text.to_str().ok_or("expected UTF-8")?;
        self.0 = text.parse()?;
        Ok(())
    }

    fn words(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}
