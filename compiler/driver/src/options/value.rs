//! Values of options: how each kind is read from words, and what it may be.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trainc_ir::schedule::Point;

use super::LossFunction;

/// A value that an option can have.
pub trait Value {
    /// Reads it from what follows a flag; a list grows.
    ///
    /// # Errors
    /// What was expected.
    fn read(&mut self, text: &OsStr) -> Result<(), String>;

    /// As words, if there is one.
    fn words(&self) -> Option<String>;

    /// The words that it may be, each with what it means; empty if there are others.
    fn choices(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether it is on or off.
    fn is_switch(&self) -> bool {
        false
    }

    /// Whether it may be given several times.
    fn is_list(&self) -> bool {
        false
    }
}

fn utf8(text: &OsStr) -> Result<&str, String> {
    text.to_str().ok_or_else(|| "expected UTF-8".to_string())
}

/// Declares a choice: its words, as files and flags spell them, and what they mean.
macro_rules! choice {
    ($(#[$documentation:meta])* $name:ident: $($(#[doc = $help:literal])+ $variant:ident = $word:literal,)+) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum $name {
            $($(#[doc = $help])+ #[serde(rename = $word)] $variant,)+
        }

        impl Value for $name {
            fn read(&mut self, text: &OsStr) -> Result<(), String> {
                *self = match text.to_str() {
                    $(Some($word) => $name::$variant,)+
                    _ => return Err(format!("expected one of {}", [$($word),+].join(", "))),
                };
                Ok(())
            }

            fn words(&self) -> Option<String> {
                Some(match self { $($name::$variant => $word.to_string(),)+ })
            }

            fn choices(&self) -> &'static [(&'static str, &'static str)] {
                const WORDS: &[(&str, &str)] = &[$(($word, concat!($($help),+).trim_ascii_start()),)+];
                WORDS
            }
        }
    };
}

pub(crate) use choice;

impl Value for bool {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        *self = utf8(text)?.parse().map_err(|_| "expected true or false".to_string())?;
        Ok(())
    }

    fn words(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn is_switch(&self) -> bool {
        true
    }
}

impl Value for String {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        *self = utf8(text)?.to_string();
        Ok(())
    }

    fn words(&self) -> Option<String> {
        Some(self.clone())
    }
}

/// Numbers.
macro_rules! number {
    ($($ty:ty: $expected:literal,)+) => {$(
        impl Value for $ty {
            fn read(&mut self, text: &OsStr) -> Result<(), String> {
                *self = utf8(text)?.parse().map_err(|_| format!("expected {}", $expected))?;
                Ok(())
            }

            fn words(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}

number! {
    usize: "a whole number from 0",
    u64: "a whole number from 0",
    f64: "a number",
}

impl Value for PathBuf {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        *self = PathBuf::from(text);
        Ok(())
    }

    fn words(&self) -> Option<String> {
        Some(self.display().to_string())
    }
}

/// A size in bytes: a whole number, alone or with `K` (1024) or `M` (1024 * 1024) behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "ByteText", into = "ByteText")]
pub struct Bytes(pub usize);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ByteText {
    Number(usize),
    Words(String),
}

impl TryFrom<ByteText> for Bytes {
    type Error = String;

    fn try_from(text: ByteText) -> Result<Bytes, String> {
        match text {
            ByteText::Number(bytes) => Ok(Bytes(bytes)),
            ByteText::Words(words) => {
                let mut bytes = Bytes(0);
                bytes.read(OsStr::new(&words)).map(|()| bytes)
            }
        }
    }
}

impl From<Bytes> for ByteText {
    fn from(bytes: Bytes) -> ByteText {
        ByteText::Number(bytes.0)
    }
}

impl Value for Bytes {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        let expected = || "expected bytes, as in 200000, 256K or 1M".to_string();
        let text = utf8(text)?.trim();
        let (digits, unit) = match text.strip_suffix(['K', 'k']) {
            Some(digits) => (digits, 1 << 10),
            None => text.strip_suffix(['M', 'm']).map_or((text, 1), |digits| (digits, 1 << 20)),
        };
        let number: usize = digits.trim().parse().map_err(|_| expected())?;
        self.0 = number.checked_mul(unit).ok_or_else(expected)?;
        Ok(())
    }

    fn words(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl<T: Value + Default> Value for Option<T> {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        self.insert(T::default()).read(text)
    }

    fn words(&self) -> Option<String> {
        self.as_ref().and_then(Value::words)
    }
}

/// Patterns, one a flag.
impl Value for Vec<String> {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        self.push(utf8(text)?.to_string());
        Ok(())
    }

    fn words(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.join(","))
    }

    fn is_list(&self) -> bool {
        true
    }
}

/// Numbers with commas between.
impl Value for Vec<f64> {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        let numbers = utf8(text)?.split(',').map(|number| number.trim().parse());
        *self = numbers
            .collect::<Result<_, _>>()
            .map_err(|_| "expected numbers with commas between".to_string())?;
        Ok(())
    }

    fn words(&self) -> Option<String> {
        let numbers: Vec<String> = self.iter().map(ToString::to_string).collect();
        (!self.is_empty()).then(|| numbers.join(","))
    }
}

/// Step sizes by how far the training is. In files a point is `[FROM, SIZE]`, or what the command line has.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<PointText>", into = "Vec<PointText>")]
pub struct Schedule(pub Vec<Point>);

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum PointText {
    Plain(f64, f64),
    #[serde(deserialize_with = "point", serialize_with = "written")]
    Words(Point),
}

fn point<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Point, D::Error> {
    Point::parse(&String::deserialize(text)?).map_err(serde::de::Error::custom)
}

fn written<S: serde::Serializer>(point: &Point, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&point.to_string())
}

impl From<Vec<PointText>> for Schedule {
    fn from(points: Vec<PointText>) -> Schedule {
        let point = |point| match point {
            PointText::Plain(from, value) => Point::constant(from, value),
            PointText::Words(point) => point,
        };
        Schedule(points.into_iter().map(point).collect())
    }
}

impl From<Schedule> for Vec<PointText> {
    fn from(schedule: Schedule) -> Vec<PointText> {
        let text = |point: Point| match point.plain() {
            Some((from, value)) => PointText::Plain(from, value),
            None => PointText::Words(point),
        };
        schedule.0.into_iter().map(text).collect()
    }
}

/// `FROM:SIZE` or `FROM:SIZE~SHAPE` with commas between.
impl Value for Schedule {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        self.0 = utf8(text)?.split(',').map(Point::parse).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn words(&self) -> Option<String> {
        let points: Vec<String> = self.0.iter().map(Point::to_string).collect();
        (!points.is_empty()).then(|| points.join(","))
    }
}

/// What is done to training images; in files as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Augment {
    /// Zero pixels at each side of an image, of which a window is cut out.
    pub crop: usize,
    /// Whether every second image is mirrored.
    pub flip: bool,
    /// Side of a square that is blanked.
    pub cutout: usize,
}

impl TryFrom<String> for Augment {
    type Error = String;

    fn try_from(text: String) -> Result<Augment, String> {
        let mut augment = Augment::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n <= 4096);
            let read = match part.split_once('=') {
                None if part == "flip" => {
                    augment.flip = true;
                    Some(())
                }
                Some(("crop", n)) => number(n).map(|n| augment.crop = n),
                Some(("cutout", n)) => number(n).map(|n| augment.cutout = n),
                _ => None,
            };
            read.ok_or_else(|| {
                format!("`{part}`: expected crop=N, flip or cutout=N (up to 4096)")
            })?;
        }
        Ok(augment)
    }
}

impl From<Augment> for String {
    fn from(augment: Augment) -> String {
        augment.words().unwrap_or_default()
    }
}

impl Value for Augment {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        *self = Augment::try_from(utf8(text)?.to_string())?;
        Ok(())
    }

    fn words(&self) -> Option<String> {
        let size = |name: &str, n: usize| (n > 0).then(|| format!("{name}={n}"));
        let flip = self.flip.then(|| "flip".to_string());
        let parts = [size("crop", self.crop), flip, size("cutout", self.cutout)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }
}

/// Sizes by symbol.
impl Value for BTreeMap<String, usize> {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        let expected = || "expected NAME=SIZE, a whole number from 1".to_string();
        let (name, size) = utf8(text)?.split_once('=').ok_or_else(expected)?;
        let size = size.parse().ok().filter(|&size| size > 0).ok_or_else(expected)?;
        self.insert(name.to_string(), size);
        Ok(())
    }

    fn words(&self) -> Option<String> {
        let sizes: Vec<String> = self.iter().map(|(name, size)| format!("{name}={size}")).collect();
        (!self.is_empty()).then(|| sizes.join(","))
    }

    fn is_list(&self) -> bool {
        true
    }
}

/// Schedules of inputs, one a flag.
impl Value for BTreeMap<String, Schedule> {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        let expected = || "expected NAME=VALUE or NAME=FROM:VALUE,...".to_string();
        let (name, points) = utf8(text)?.split_once('=').ok_or_else(expected)?;
        let mut schedule = Schedule::default();
        match points.trim().parse() {
            Ok(value) => schedule.0.push(Point::constant(0.0, value)),
            Err(_) => schedule.read(OsStr::new(points))?,
        }
        self.insert(name.trim().to_string(), schedule);
        Ok(())
    }

    fn words(&self) -> Option<String> {
        let one = |(name, schedule): (&String, &Schedule)| {
            format!("{name}={}", schedule.words().unwrap_or_default())
        };
        let all: Vec<String> = self.iter().map(one).collect();
        (!self.is_empty()).then(|| all.join(" "))
    }

    fn is_list(&self) -> bool {
        true
    }
}

/// What a result is trained for; in files as on the command line, `mse:0.5`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OutputLoss {
    /// Its loss.
    pub loss: LossFunction,
    /// The factor of that in the sum.
    pub factor: f64,
}

impl TryFrom<String> for OutputLoss {
    type Error = String;

    fn try_from(text: String) -> Result<OutputLoss, String> {
        let (word, factor) = match text.split_once(':') {
            Some((word, factor)) => (word, factor.trim().parse().ok()),
            None => (text.as_str(), Some(1.0)),
        };
        let mut loss = LossFunction::Model;
        loss.read(OsStr::new(word.trim()))?;
        let fits = |factor: &f64| factor.is_finite() && *factor > 0.0;
        match (loss, factor.filter(fits)) {
            (LossFunction::Model, _) => {
                Err("a result's loss is cross-entropy, bce or mse".to_string())
            }
            (_, None) => Err(format!("`{text}`: the factor is a number above 0")),
            (loss, Some(factor)) => Ok(OutputLoss { loss, factor }),
        }
    }
}

impl From<OutputLoss> for String {
    fn from(own: OutputLoss) -> String {
        format!("{}:{}", own.loss.words().unwrap_or_default(), own.factor)
    }
}

/// Losses of results, one a flag.
impl Value for BTreeMap<String, OutputLoss> {
    fn read(&mut self, text: &OsStr) -> Result<(), String> {
        let expected = || "expected RESULT=LOSS or RESULT=LOSS:FACTOR".to_string();
        let (name, own) = utf8(text)?.split_once('=').ok_or_else(expected)?;
        self.insert(name.to_string(), OutputLoss::try_from(own.to_string())?);
        Ok(())
    }

    fn words(&self) -> Option<String> {
        let all: Vec<String> =
            self.iter().map(|(name, own)| format!("{name}={}", String::from(*own))).collect();
        (!self.is_empty()).then(|| all.join(" "))
    }

    fn is_list(&self) -> bool {
        true
    }
}
