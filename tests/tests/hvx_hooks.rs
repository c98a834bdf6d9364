//! What a device may do while a program for Hexagon runs: vector context, prefetch, other working memory, packed constants
//! that stay. Results do not depend on it, and each hook is called.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::options::micro_batch::MicroBatches;
use trainc_driver::residency::residencies;
use trainc_driver::session::{Entries, Session};
use trainc_driver::verify::{VerifyOptions, verify};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::batch_split::MicroBatch;
use trainc_opt::plan::residency::{Eviction, Residency};
use trainc_tests::random::Random;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hvx_hooks").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// LeNet-5; with frozen convolutions, whose weights are constants, where batches are whole.
fn session(batch: usize, micro_batch: MicroBatch) -> Session {
    let bytes = build(&ZooSpec::new("lenet5").expect("in the zoo")).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "lenet5".to_string(), bytes };
    let config = Config {
        target: "hvx".into(),
        batch: Some(batch),
        micro_batch: MicroBatches(micro_batch),
        freeze: if micro_batch == MicroBatch::Off { vec!["conv*".into()] } else { Vec::new() },
        ..Config::default()
    };
    Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles")
}

#[test]
fn hooks_change_no_bit_and_are_called() {
    let folder = folder("verify");
    let session = session(2, MicroBatch::Off);
    let residencies = residencies(session.program());
    let regions: Vec<u64> =
        residencies.iter().flat_map(|r| &r.regions).map(|region| region.bytes).collect();
    let largest = regions.iter().copied().max().expect("packed constants");
    let artifact = folder.join("artifact");
    emit::write_folder(&artifact, &emit::artifact(&session, &[]).expect("emits")).expect("written");
    let hooks = folder.join("hooks.h");
    std::fs::write(&hooks, include_str!("../src/hvx_hooks/hooks.h")).expect("written");
    let run = |flags: &str| {
        let compiler = Some(format!("clang-19 {flags}"));
        let options = VerifyOptions { steps: 2, extremes: false, compiler, ..Default::default() };
        verify(&artifact, &options, &mut |_| {}).expect("builds").finding
    };
    let all = format!("-include {}", hooks.display());
    // A budget for the largest alone, so that the others make it give way, and one for all.
    for budget in [largest, regions.iter().sum()] {
        let found = run(&format!("{all} -DTRAINC_HVX_RESIDENT_BYTES={budget}"));
        assert!(found.is_none(), "{budget}: {found:?}");
    }
    let dies = |macros: &str| run(&format!("-D{macros}")).expect("it dies").crash;
    for hook in [
        "TRAINC_HVX_ACQUIRE()=__builtin_trap()",
        "TRAINC_HVX_RELEASE()=__builtin_trap()",
        "TRAINC_L2FETCH(a,w,h,s)=__builtin_trap()",
        "TRAINC_HVX_WORKING(m,b)=(__builtin_trap(),m)",
    ] {
        assert!(dies(hook).is_some(), "{hook} is not called");
    }
    // What is kept is read: wrong bytes there are wrong results.
    let source = artifact.join("trainc_hvx_resident.c");
    let text = std::fs::read_to_string(&source).expect("written");
    let wrong = text.replace(
        "            return 1;",
        "            (*place)[5] ^= 0x40;\n            return 1;",
    );
    assert_ne!(text, wrong);
    std::fs::write(&source, wrong).expect("written");
    assert!(run(&format!("-DTRAINC_HVX_RESIDENT_BYTES={}", regions.iter().sum::<u64>())).is_some());
}

/// What the artifact's code keeps is what the compiler says of it.
#[test]
fn what_is_kept_is_what_the_rule_says() {
    const BUDGET: u64 = 30 * 128;
    let folder = folder("resident");
    let support = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/hvx/src/support");
    std::fs::write(folder.join("main.c"), include_str!("../src/hvx_hooks/resident.c"))
        .expect("written");
    let built = Command::new("cc")
        .current_dir(&folder)
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=address,undefined",
            "-o",
            "resident",
        ])
        .arg(format!("-DTRAINC_HVX_RESIDENT_BYTES={BUDGET}"))
        .arg("-I")
        .arg(&support)
        .arg("main.c")
        .arg(support.join("trainc_hvx_resident.c"))
        .output()
        .expect("cc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut random = Random(3);
    let mut below = |limit: u64| random.next() % limit;
    // A cyclic order, then any order, of parts that have one size each.
    let sizes: Vec<u64> = (0..14).map(|_| 1 + below(9 * 128)).chain([BUDGET + 1]).collect();
    let cyclic = (0..20).flat_map(|_| 0..10_usize);
    let any: Vec<usize> = (0..600).map(|_| below(sizes.len() as u64) as usize).collect();
    let uses: Vec<usize> = cyclic.chain(any).collect();
    let mut residency = Residency::new(BUDGET, Eviction::MostRecent);
    let expected: String = uses
        .iter()
        .map(|&part| {
            let size = sizes[part].next_multiple_of(128);
            if residency.run(part, size, None).prepared { '0' } else { '1' }
        })
        .collect();
    let mut child = Command::new(folder.join("resident"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let input: String = uses.iter().map(|&part| format!("{part} {}\n", sizes[part])).collect();
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(expected.contains("11") && expected.contains('0'));
}

/// Parts of a batch have their own working memory placed, and their sums stay where the program has them.
#[test]
fn hooks_place_the_working_memory_of_parts() {
    let folder = folder("parts");
    let session = session(32, MicroBatch::Images(16));
    let split = session.program().kernels.iter().flat_map(|kernel| &kernel.selection.splits);
    assert!(split.filter(|outcome| outcome.part.is_some()).count() > 3);
    let artifact = folder.join("artifact");
    emit::write_folder(&artifact, &emit::artifact(&session, &[]).expect("emits")).expect("written");
    let hooks = folder.join("hooks.h");
    std::fs::write(&hooks, include_str!("../src/hvx_hooks/hooks.h")).expect("written");
    let compiler = Some(format!("clang-19 -include {}", hooks.display()));
    let options = VerifyOptions { steps: 1, extremes: false, compiler, ..Default::default() };
    let found = verify(&artifact, &options, &mut |_| {}).expect("builds").finding;
    assert!(found.is_none(), "{found:?}");
}

/// Phases of large kernels run in ranges of any length and order; what none of them does is missed.
#[test]
fn hardware_threads_change_no_bit() {
    let folder = folder("threads");
    let bytes = build(&ZooSpec::new("resnet8").expect("in the zoo")).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "resnet8".to_string(), bytes };
    let config = Config { target: "hvx".into(), batch: Some(1), ..Config::default() };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
    let artifact = folder.join("artifact");
    emit::write_folder(&artifact, &emit::artifact(&session, &[]).expect("emits")).expect("written");
    let hooks = folder.join("hooks.h");
    let text = include_str!("../src/hvx_hooks/hooks.h");
    let run = |text: &str| {
        std::fs::write(&hooks, text).expect("written");
        let compiler = Some(format!("clang-19 -include {}", hooks.display()));
        let options = VerifyOptions { steps: 1, compiler, ..Default::default() };
        verify(&artifact, &options, &mut |_| {}).expect("builds").finding
    };
    let found = run(text);
    assert!(found.is_none(), "{found:?}");
    let last = "for (int32_t end = count, length = 1; end > 0; length += 2) {";
    let missed =
        text.replace(last, "for (int32_t end = count - 1, length = 1; end > 0; length += 2) {");
    assert_ne!(text, missed);
    assert!(run(&missed).is_some());
}
