//! The commands of docs/personalise.md, as they stand there: on the pretrained network and the digits that the repository
//! ships, or, where PyTorch and MNIST are at hand, from the page's own script on.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Folder;
use trainc_data::{Dataset, Images, NpyArray, NpyData, Split};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The indented blocks of the page: its script, and its commands.
fn page() -> (String, Vec<String>) {
    let text = fs::read_to_string(root().join("docs/personalise.md")).expect("the page");
    let indented = |line: &&str| line.starts_with("    ") || line.is_empty();
    let start = text.find("    import gzip").expect("a script");
    let script: Vec<&str> = text[start..].lines().take_while(indented).collect();
    let end = start + script.iter().map(|line| line.len() + 1).sum::<usize>();
    let script = script.iter().map(|line| line.strip_prefix("    ").unwrap_or_default());
    let commands = text[end..].lines().filter_map(|line| line.strip_prefix("    "));
    (script.collect::<Vec<_>>().join("\n"), commands.map(String::from).collect())
}

/// A digit of 8 by 8 as one of 28 by 28, lying on its side.
fn turned(pixels: &[u8]) -> Vec<u8> {
    let largest = u32::from(*pixels.iter().max().unwrap_or(&1)).max(1);
    let mut image = vec![0; 28 * 28];
    for y in 0..24 {
        for x in 0..24 {
            let pixel = u32::from(pixels[x / 3 * 8 + (23 - y) / 3]);
            image[(y + 2) * 28 + x + 2] = (255 * pixel / largest) as u8;
        }
    }
    image
}

fn split(split: &Split, count: usize) -> (Vec<Vec<u8>>, Vec<i32>) {
    let Images::U8(pixels) = &split.images else { panic!("digits are bytes") };
    let images = pixels.chunks(64).take(count).map(turned).collect();
    (images, split.labels[..count].iter().map(|&l| l as i32).collect())
}

/// The network and the files that the page's script writes.
fn shipped(folder: &Folder) {
    let model = root().join("tests/data/personalise/lenet_torchscript.onnx");
    fs::copy(model, folder.path("net.onnx")).expect("the network");
    let data = Dataset::digits();
    let mut arrays = Vec::new();
    for (file, part, all, count) in
        [("learn.bin", "train", &data.train, 256), ("test.bin", "test", &data.test, 100)]
    {
        let (images, labels) = split(all, count);
        let mut bytes = Vec::new();
        for (image, label) in images.iter().zip(&labels) {
            image.iter().for_each(|&p| bytes.extend((f32::from(p) / 255.0).to_le_bytes()));
            bytes.extend(label.to_le_bytes());
        }
        fs::write(folder.path(file), bytes).expect("written");
        let pixels = NpyArray { shape: vec![count, 1, 28, 28], data: NpyData::U8(images.concat()) };
        arrays.push((format!("x_{part}"), pixels));
        arrays.push((format!("y_{part}"), NpyArray::i32(&[count], labels)));
    }
    let arrays: Vec<(&str, NpyArray)> =
        arrays.iter().map(|(n, a)| (n.as_str(), a.clone())).collect();
    trainc_data::write_npz(&folder.path("rotated.npz"), &arrays).expect("written");
}

/// Runs a command of the page in the folder; what it printed.
fn run(folder: &Folder, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    if words[0] == "trainc" {
        return folder.succeed(&words[1..]);
    }
    let output = Command::new("sh").args(["-c", command]).current_dir(&folder.0).output();
    let output = output.expect("a shell");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}\n{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs all of them; the device's images right before and after, and how many there are.
fn follow(folder: &Folder) -> [u32; 3] {
    let (_, commands) = page();
    assert_eq!(commands.len(), 9, "{commands:?}");
    let printed: Vec<String> = commands.iter().map(|command| run(folder, command)).collect();
    let printed = |start: &str| {
        let i = commands.iter().position(|c| c.starts_with(start)).expect(start);
        printed[i].as_str()
    };
    assert!(printed("trainc verify").contains("bit-exact"));
    let device = printed("qemu-aarch64");
    let counts = |when: &str| -> Vec<u32> {
        let line = device.lines().find_map(|l| l.strip_prefix(when)).expect(when);
        line.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let (before, after) = (counts("before training: "), counts("after training: "));
    // The desk counts the same with the device's weights.
    let accuracy = format!("{:.2} %", 100.0 * f64::from(after[0]) / f64::from(after[1]));
    let desk = printed("trainc train net.onnx --data rotated.npz --weights device.bin");
    assert!(desk.contains(&accuracy), "{accuracy} on the device: {desk}");
    assert!(folder.path("personal.onnx").exists());
    [before[0], after[0], after[1]]
}

#[test]
fn from_a_network_to_a_device_and_back() {
    let folder = Folder::new("personalise");
    shipped(&folder);
    let [before, after, all] = follow(&folder);
    println!("{before} of {all} before, {after} after");
    assert!(after > before + 20, "{before} of {all} before, {after} after");
}

/// From the page's script on: `TRAINC_MNIST=DATA cargo test -p trainc --test personalise -- --ignored`, where DATA is a
/// folder with MNIST's four files, compressed.
#[test]
#[ignore = "needs PyTorch and MNIST"]
fn from_pytorch_to_a_device_and_back() {
    let folder = Folder::new("personalise-pytorch");
    let data = std::env::var("TRAINC_MNIST").expect("TRAINC_MNIST names the folder of MNIST");
    fs::create_dir(folder.path("mnist")).expect("a folder");
    for entry in fs::read_dir(data).expect("the folder of MNIST") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, folder.path("mnist").join(path.file_name().expect("a name")))
            .expect("a copy");
    }
    fs::write(folder.path("pretrain.py"), page().0).expect("written");
    run(&folder, "python3 pretrain.py");
    let [before, after, all] = follow(&folder);
    println!("{before} of {all} before, {after} after");
    assert!(after > before + all / 20, "{before} of {all} before, {after} after");
}
