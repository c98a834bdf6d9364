//! The harness as a process: requests go to its standard input, its answers are read as they come.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

use trainc_ir::Tensor;
use trainc_ir::tensor_bytes::tensor_bytes;

use super::source::{CALL, INIT, LOAD};

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

/// A harness that runs.
pub(super) struct Process {
    child: Child,
    chunks: Receiver<Vec<u8>>,
    chunk: Vec<u8>,
    used: usize,
    errors: PathBuf,
}

/// The harness gave up before it had answered all requests: how it ended and what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ended(pub(super) String);

impl Process {
    /// Starts a command whose requests and errors are files of a folder.
    ///
    /// # Errors
    /// If the files cannot be written, or the command does not start.
    pub(super) fn start(
        mut command: Command,
        folder: &Path,
        requests: &Requests,
    ) -> Result<Process> {
        let place = || format!("{}: cannot be written", folder.display());
        let input = folder.join("requests");
        File::create(&input).and_then(|mut f| f.write_all(&requests.0)).with_context(place)?;
        let errors = folder.join("stderr");
        let mut child = command
            .stdin(File::open(&input).with_context(place)?)
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).with_context(place)?)
            .spawn()
            .with_context(|| format!("{command:?} cannot be started"))?;
        let mut stdout = child.stdout.take().context("a pipe")?;
        let (sender, chunks) = sync_channel(WAITING);
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
        Ok(Process { child, chunks, chunk: Vec::new(), used: 0, errors })
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

    fn ended(&mut self) -> Ended {
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(e) => e.to_string(),
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
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
