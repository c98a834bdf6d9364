//! Finds objects on a picture by a model of `trainc zoo yolov2-tiny-binary` and draws their boxes:
//! `cargo run --release -p trainc-driver --example draw_boxes -- MODEL.onnx PICTURE.ppm OUT.ppm [LEAST SCORE]`.
//!
//! Pictures are binary PPM (P6); `convert photo.jpg photo.ppm` makes one.

use std::path::Path;
use std::process::ExitCode;

use trainc_data::{NpyArray, NpyData, write_npz};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::run::evaluate;
use trainc_driver::zoo::{ANCHORS, Found, INPUT, boxes};
use trainc_ir::Element;

/// Red, green, blue.
type Rgb = [u8; 3];

struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
}

impl Picture {
    fn read(path: &str) -> Result<Picture, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
        let wrong = || format!("{path}: not a binary PPM of 8 bits (P6)");
        let (mut numbers, mut at) = (Vec::new(), 2);
        if !bytes.starts_with(b"P6") {
            return Err(wrong());
        }
        while numbers.len() < 3 {
            match bytes.get(at).ok_or_else(wrong)? {
                b'#' => {
                    while *bytes.get(at).ok_or_else(wrong)? != b'\n' {
                        at += 1;
                    }
                }
                byte if byte.is_ascii_whitespace() => at += 1,
                _ => {
                    let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                    let text = std::str::from_utf8(&bytes[at..at + digits]).map_err(|_| wrong())?;
                    numbers.push(text.parse::<usize>().map_err(|_| wrong())?);
                    at += digits;
                }
            }
        }
        let [width, height, 255] = numbers[..] else { return Err(wrong()) };
        let pixels = bytes.get(at + 1..).unwrap_or_default().chunks_exact(3);
        let pixels: Vec<Rgb> = pixels.map(|p| [p[0], p[1], p[2]]).collect();
        if width * height == 0 || pixels.len() != width * height {
            return Err(wrong());
        }
        Ok(Picture { width, height, pixels })
    }

    /// The nearest pixels as `[1, 3, side, side]`: bytes, or from 0 to 1.
    fn input(&self, side: usize, bytes: bool) -> NpyArray {
        let mut data = Vec::with_capacity(3 * side * side);
        for channel in 0..3 {
            for row in 0..side {
                let line = (2 * row + 1) * self.height / (2 * side) * self.width;
                data.extend((0..side).map(|column| {
                    let pixel = self.pixels[line + (2 * column + 1) * self.width / (2 * side)];
                    pixel[channel]
                }));
            }
        }
        let shape = vec![1, 3, side, side];
        let unit = data.iter().map(|&byte| f32::from(byte) / 255.0).collect();
        NpyArray { shape, data: if bytes { NpyData::U8(data) } else { NpyData::F32(unit) } }
    }

    /// Draws a frame of two pixels.
    fn frame(&mut self, found: &Found, colour: Rgb) {
        let sides = [self.width, self.height];
        let corners = found.corners();
        let place = |i: usize| {
            let last = sides[i % 2] - 1;
            (corners[i].clamp(0.0, 1.0) * sides[i % 2] as f32).min(last as f32) as usize
        };
        let [left, top, right, bottom] = [0, 1, 2, 3].map(place);
        for row in top..=bottom {
            for column in left..=right {
                let inner = |at: usize, low: usize, high: usize| at > low + 1 && at + 1 < high;
                if !(inner(row, top, bottom) && inner(column, left, right)) {
                    self.pixels[row * self.width + column] = colour;
                }
            }
        }
    }

    fn write(&self, path: &str) -> Result<(), String> {
        let mut bytes = format!("P6\n{} {}\n255\n", self.width, self.height).into_bytes();
        bytes.extend(self.pixels.iter().flatten());
        std::fs::write(path, bytes).map_err(|e| format!("{path}: {e}"))
    }
}

fn run(model: &str, picture: &str, out: &str, least: f32) -> Result<(), String> {
    let source = ModelSource::File(model.into());
    let mut picture = Picture::read(picture)?;
    let config = Config {
        algorithm: "bnn-ste".into(),
        freeze: vec!["*".into()],
        batch: Some(1),
        ..Config::default()
    };
    let imported = source.import(&config.training_import()).map_err(|e| e.to_string())?;
    let graph = imported.graph;
    let Some(ty) = graph.inputs().first().map(|i| graph.ty(i.value)) else {
        return Err(format!("{model}: no input"));
    };
    let [_, 3, side, other] = ty.shape[..] else {
        return Err(format!("{model}: not a model of colour pictures"));
    };
    if side != other {
        return Err(format!("{model}: pictures of {side} by {other}, not square"));
    }
    let input = std::env::temp_dir().join(format!("draw_boxes-{}.npz", std::process::id()));
    write_npz(&input, &[(INPUT.to_string(), picture.input(side, ty.element == Element::U8))])
        .map_err(|e| e.to_string())?;
    let evaluated = evaluate(&source, Path::new(&input), &config);
    std::fs::remove_file(&input).map_err(|e| e.to_string())?;
    let outputs = evaluated.map_err(|e| e.to_string())?.outputs;
    let map = outputs.first().map(|(_, map)| map).ok_or("the model has no result")?;
    let [1, channels, height, width] = map.shape[..] else {
        return Err(format!("{model}: the result is no map of boxes, but {:?}", map.shape));
    };
    let classes = (channels / ANCHORS.len()).saturating_sub(5);
    let found = boxes(&map.data.to_f32(), [classes, height, width], least, 0.45)
        .ok_or_else(|| format!("{model}: {channels} channels are no boxes"))?;
    for one in &found {
        let [left, top, right, bottom] = one.corners();
        println!(
            "class {:>2}, score {:.3}: left {left:.3}, top {top:.3}, right {right:.3}, bottom {bottom:.3}",
            one.class, one.score
        );
        // A hue of its own for each class.
        let hue = |shift: usize| ((one.class * 97 + shift * 85) % 256) as u8 | 0x40;
        picture.frame(one, [hue(0), hue(1), hue(2)]);
    }
    println!("{} boxes", found.len());
    picture.write(out)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [model, picture, out] => run(model, picture, out, 0.3),
        [model, picture, out, least] => match least.parse() {
            Ok(least) => run(model, picture, out, least),
            Err(_) => Err(format!("`{least}` is no score")),
        },
        _ => Err("usage: draw_boxes MODEL.onnx PICTURE.ppm OUT.ppm [LEAST SCORE]".to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
