//! Training on a device ends where training on this machine ends: the digits net, two epochs by an emitted NEON
//! binary under an emulator and by `trainc train`'s trainer, the same weights to the bit.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainc_data::{Dataset, Normalization, Normalizer, TrainingBatches};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::train::Trainer;
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::program::Program;
use trainc_ir::tensor_bytes::tensor_bytes;

const EPOCHS: usize = 2;

/// Trains on what comes in: a step size, the images and the labels of each step. Writes the state at the end.
const DEVICE: &str = r#"
#include "digits.h"
#include <stdio.h>

_Alignas(DIGITS_ALIGNMENT) static unsigned char arena[DIGITS_ARENA_BYTES];
_Alignas(DIGITS_ALIGNMENT) static unsigned char state[DIGITS_STATE_BYTES];

int main(void)
{
    static float images[BATCH * 64], loss[1];
    static int32_t labels[BATCH], size;
    uint32_t step = 0;
    digits_init(state);
    while (fread(&size, sizeof size, 1, stdin) == 1) {
        if (fread(images, sizeof images, 1, stdin) != 1 || fread(labels, sizeof labels, 1, stdin) != 1) {
            return 1;
        }
        digits_train_step(arena, state, SEED, step++, images, labels, size, loss);
    }
    return fwrite(state, sizeof state, 1, stdout) == 1 ? 0 : 1;
}
"#;

fn digits() -> ModelSource {
    let bytes = build(&ZooSpec::new("digits").expect("in the zoo")).expect("builds");
    ModelSource::Bytes { name: "digits".to_string(), bytes }
}

fn session(config: &Config) -> Session {
    Session::new(&digits(), config, Entries::TrainAndInfer).expect("compiles")
}

/// Step sizes, images and labels of every step, in the order of [`Trainer::epoch`].
fn feed(session: &Session, data: &Dataset) -> Vec<u8> {
    let config = &session.config;
    let batch = NonZeroUsize::new(config.batch_size()).expect("a batch");
    let normalizer = Normalizer::fit(Normalization::UnitInterval, &data.train);
    let mut images = vec![0f32; batch.get() * data.train.image_len()];
    let mut labels = vec![0i32; batch.get()];
    let mut bytes = Vec::new();
    let steps = EPOCHS * (data.train.len() / batch);
    let mut step = 0;
    for epoch in 0..EPOCHS {
        let batches = TrainingBatches::new(data.train.len(), batch, config.seed, epoch as u64);
        for indices in batches.iter() {
            data.train.fill_batch(indices, &normalizer, &mut images, &mut labels);
            let size = session.algorithm.step_size(step, steps as u64) as i32;
            step += 1;
            bytes.extend(size.to_le_bytes());
            bytes.extend(images.iter().flat_map(|v| v.to_le_bytes()));
            bytes.extend(labels.iter().flat_map(|v| v.to_le_bytes()));
        }
    }
    bytes
}

/// Builds the artifact of a session with a cross compiler and runs it on the feed; the state that it ends with.
fn on_device(session: &Session, compiler: &[&str], emulator: &[&str], feed: &[u8]) -> Vec<u8> {
    let folder: PathBuf =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("device_training").join(&session.config.target);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = session.target.emit(session.program()).expect("emits");
    let write =
        |name: &str, contents: &[u8]| std::fs::write(folder.join(name), contents).expect("written");
    files.iter().for_each(|file| write(&file.name, &file.contents));
    write("main.c", DEVICE.as_bytes());
    let sources = files.iter().map(|f| f.name.as_str()).filter(|name| name.ends_with(".c"));
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-std=c11", "-O2", "-ffp-contract=off", "-static", "-o", "device", "main.c"])
        .arg(format!("-DBATCH={}", session.config.batch_size()))
        .arg(format!("-DSEED={}", session.config.seed))
        .args(sources)
        .current_dir(&folder)
        .output()
        .unwrap_or_else(|e| panic!("{} (tests/run installs it): {e}", compiler[0]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut child = Command::new(emulator[0])
        .args(&emulator[1..])
        .arg(folder.join("device"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{} (tests/run installs it): {e}", emulator[0]));
    let mut stdin = child.stdin.take().expect("piped");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(feed));
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", output.status);
        output.stdout
    })
}

/// The state tensors of a program within the image of its state.
fn tensors(program: &Program, image: &[u8]) -> Vec<(String, Vec<u8>)> {
    let slice = |b: &trainc_ir::program::Buffer| image[b.offset..][..b.bytes()].to_vec();
    program.state().into_iter().map(|b| (b.name.clone(), slice(b))).collect()
}

#[test]
fn two_epochs_of_digits_end_with_the_same_weights() {
    let data = Dataset::digits();
    let config = Config { epochs: EPOCHS, seed: 7, ..Config::default() };
    let mut trainer = Trainer::new(session(&config), &data).expect("trains");
    while trainer.epoch(&data, &mut |_| {}).expect("an epoch").is_some() {}
    let expected: Vec<Vec<u8>> =
        trainer.state().expect("the state").iter().map(|(_, t)| tensor_bytes(t)).collect();
    let gcc = "aarch64-linux-gnu-gcc";
    let armv7: &[&str] =
        &["arm-linux-gnueabihf-gcc", "-march=armv7-a", "-mfpu=neon", "-mfloat-abi=hard"];
    for (target, compiler, cpu) in [
        ("neon", &[gcc][..], &["qemu-aarch64", "-cpu", "cortex-a53"]),
        (
            "neon+dotprod",
            &[gcc, "-march=armv8.2-a+dotprod"],
            &["qemu-aarch64", "-cpu", "cortex-a76"],
        ),
        ("neon+i8mm", &[gcc, "-march=armv8.2-a+dotprod+i8mm"], &["qemu-aarch64", "-cpu", "max"]),
        ("armv7-neon", armv7, &["qemu-arm", "-cpu", "cortex-a9"]),
    ] {
        let session = session(&Config { target: target.to_string(), ..config.clone() });
        let image = on_device(&session, compiler, cpu, &feed(&session, &data));
        let found = tensors(session.program(), &image);
        assert_eq!(found.len(), expected.len());
        let initial = trainer.session.program().state();
        for ((name, found), (expected, initial)) in found.iter().zip(expected.iter().zip(initial)) {
            assert!(found == expected, "{target}: `{name}` differs");
            let trainc_ir::program::Region::State { initial, .. } = &initial.region else {
                panic!("`{name}` is no state");
            };
            assert!(*found != tensor_bytes(initial), "{target}: `{name}` was not trained");
        }
    }
}
