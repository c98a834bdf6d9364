//! The harness as a process, or in a simulator: requests go to its standard input, its answers are read as they come.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use trainc_ir::Tensor;
use trainc_ir::harness::{Mark, Simulator, Streams};
use trainc_ir::tensor_bytes::tensor_bytes;

use super::source::{CALL, INIT, LOAD, SAVE};

use crate::error::{Context, Result};

/// Requests for the harness.
#[derive(Default)]
pub(super) struct Requests(Vec<u8>);

impl Requests {
    fn command(&mut self, command: u32, step: u32, seed: u64) {
        self.0.extend(command.to_le_bytes());
        self.0.extend(step.to_le_bytes());
        self.0.extend(seed.to_le_bytes());
    }

    /// Sets the initial state.
    pub(super) fn init(&mut self) {
        self.command(INIT, 0, 0);
    }

    /// Sets another state.
    pub(super) fn load(&mut self, state: &[u8]) {
        self.command(LOAD, 0, 0);
        self.0.extend(state);
    }

    /// Saves the state after a number of steps and loads it again.
    pub(super) fn checkpoint(&mut self, steps: u64) {
        self.command(SAVE, 0, steps);
    }

    /// Calls an entry, and if `watched` asks for the results of its launches.
    pub(super) fn call(
        &mut self,
        (entry, watched): (usize, bool),
        (seed, step): (u64, u32),
        operands: &[Tensor],
    ) {
        self.command(CALL + 2 * entry as u32 + u32::from(watched), step, seed);
        operands.iter().for_each(|t| self.0.extend(tensor_bytes(t)));
    }
}

/// Bytes of a message between reader and comparison; some messages may wait.
const CHUNK: usize = 1 << 18;
const WAITING: usize = 64;

/// What runs the harness.
pub(super) enum Runs {
    /// A command.
    Command(Command),
    /// The simulator, an executable.
    Simulator(&'static dyn Simulator, PathBuf),
}

enum Machine {
    Child(Child),
    /// Ended when its result was taken.
    Simulation(Option<JoinHandle<Result<Vec<Mark>, String>>>),
}

/// A harness that runs.
pub(super) struct Process {
    machine: Machine,
    chunks: Receiver<Vec<u8>>,
    chunk: Vec<u8>,
    used: usize,
    errors: PathBuf,
}

/// The harness gave up before it had answered all requests: how it ended and what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ended(pub(super) String);

impl Process {
    /// Starts a harness whose requests and errors are files of a folder.
    ///
    /// # Errors
    /// If the files cannot be written, or it does not start.
    pub(super) fn start(runs: Runs, folder: &Path, requests: &Requests) -> Result<Process> {
        let place = || format!("{}: cannot be written", folder.display());
        let input = folder.join("requests");
        File::create(&input).and_then(|mut f| f.write_all(&requests.0)).with_context(place)?;
        let input = File::open(&input).with_context(place)?;
        let errors = folder.join("stderr");
        let said = File::create(&errors).with_context(place)?;
        let (sender, chunks) = sync_channel(WAITING);
        let machine = match runs {
            Runs::Simulator(simulator, path) => {
                let executable =
                    std::fs::read(&path).with_context(|| path.display().to_string())?;
                // Ends when nobody receives what it writes any more.
                Machine::Simulation(Some(std::thread::spawn(move || {
                    let (input, errors) = (Box::new(input), Box::new(said));
                    let output = Box::new(Chunks(sender));
                    simulator.run(&executable, Streams { input, output, errors })
                })))
            }
            Runs::Command(mut command) => {
                let child = command.stdin(input).stdout(Stdio::piped()).stderr(said).spawn();
                let mut child = child.with_context(|| format!("{command:?} cannot be started"))?;
                let mut stdout = child.stdout.take().context("a pipe")?;
                // Ends with the pipe, or when nobody receives any more.
                std::thread::spawn(move || {
                    loop {
                        let mut chunk = vec![0; CHUNK];
                        match stdout.read(&mut chunk) {
                            Ok(0) | Err(_) => return,
                            Ok(n) => chunk.truncate(n),
                        }
                        if sender.send(chunk).is_err() {
                            return;
                        }
                    }
                });
                Machine::Child(child)
            }
        };
        Ok(Process { machine, chunks, chunk: Vec::new(), used: 0, errors })
    }

    /// The next bytes.
    pub(super) fn read(&mut self, count: usize) -> Result<Vec<u8>, Ended> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            if self.used == self.chunk.len() {
                match self.chunks.recv() {
                    Ok(chunk) => (self.chunk, self.used) = (chunk, 0),
                    Err(_) => return Err(self.ended()),
                }
            }
            let take = (count - bytes.len()).min(self.chunk.len() - self.used);
            bytes.extend(&self.chunk[self.used..self.used + take]);
            self.used += take;
        }
        Ok(bytes)
    }

    /// The next u32.
    pub(super) fn read_u32(&mut self) -> Result<u32, Ended> {
        let bytes = self.read(4)?;
        Ok(bytes.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b)))
    }

    /// The marks of the program, which must end now: the simulator's, or those that it wrote.
    pub(super) fn marks(&mut self) -> Result<Vec<Mark>, Ended> {
        Ok(self.all_marks()?.into_iter().filter(|m| !m.0).map(|(_, mark)| mark).collect())
    }

    /// [`Process::marks`] in order with those of the artifact's other side, and whether each is one of them.
    pub(super) fn all_marks(&mut self) -> Result<Vec<(bool, Mark)>, Ended> {
        if let Machine::Simulation(thread) = &mut self.machine {
            if self.chunks.recv().is_ok() || self.used != self.chunk.len() {
                return Err(more());
            }
            let marks = simulated(thread).map_err(Ended)?;
            return Ok(marks.into_iter().map(|mark| (false, mark)).collect());
        }
        Ok(written(&self.said()?))
    }

    /// What the program wrote to its standard error; it must end now.
    pub(super) fn said(&mut self) -> Result<String, Ended> {
        if self.chunks.recv().is_ok() || self.used != self.chunk.len() {
            return Err(more());
        }
        match &mut self.machine {
            Machine::Child(child) => match child.wait() {
                Ok(status) if status.success() => {
                    Ok(std::fs::read_to_string(&self.errors).unwrap_or_default())
                }
                _ => Err(self.ended()),
            },
            Machine::Simulation(thread) => simulated(thread).map(|_| String::new()).map_err(Ended),
        }
    }

    fn ended(&mut self) -> Ended {
        let status = match &mut self.machine {
            Machine::Child(child) => match child.wait() {
                Ok(status) => status.to_string(),
                Err(e) => e.to_string(),
            },
            Machine::Simulation(thread) => match simulated(thread) {
                Ok(_) => "exit code 0".to_string(),
                Err(reason) => reason,
            },
        };
        let said = std::fs::read(&self.errors).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let said: Vec<&str> = said.lines().take(10).collect();
        let separator = if said.is_empty() { "" } else { ": " };
        Ended(format!("{status}{separator}{}", said.join("; ")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Machine::Child(child) = &mut self.machine {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn more() -> Ended {
    Ended("it wrote more than it was asked for".to_string())
}

/// Marks that a program or its emulator wrote, and whether each is of the artifact's other side. Counters of 32 bits wrap.
fn written(text: &str) -> Vec<(bool, Mark)> {
    let mark = |line: &str| {
        let (there, rest) = match line.strip_prefix("trainc-mark-there ") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("trainc-mark ")?),
        };
        let (label, count) = rest.split_once(' ')?;
        Some((there, label.parse::<u32>().ok()?, count.parse::<u64>().ok()?))
    };
    let mut counters = [(0, 0); 2];
    let marks = text.lines().filter_map(mark).map(|(there, label, count)| {
        let (wrapped, last) = &mut counters[usize::from(there)];
        if count < *last {
            *wrapped += 1 << 32;
        }
        *last = count;
        let count = *wrapped + count;
        (there, Mark { label, instructions: count, cycles: count })
    });
    marks.collect()
}

/// The result of a simulation.
fn simulated(
    thread: &mut Option<JoinHandle<Result<Vec<Mark>, String>>>,
) -> Result<Vec<Mark>, String> {
    let thread = thread.take().ok_or("it ended before")?;
    thread.join().map_err(|_| "the simulator failed".to_string())?
}

/// What a simulated program writes.
struct Chunks(SyncSender<Vec<u8>>);

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.send(bytes.to_vec()) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
