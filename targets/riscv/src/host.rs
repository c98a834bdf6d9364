//! What a program asks of its host, by `ecall` with a number in a7 and operands from a0 on; a result comes back in a0.
//!
//! | a7 | call | operands | result |
//! |---|---|---|---|
//! | 63 | read | descriptor 0, address, bytes | bytes read; 0 at the end |
//! | 64 | write | descriptor 1 or 2, address, bytes | bytes written |
//! | 93 | exit | code | |
//! | 500 | share begin | number of the core, from 0 | |
//! | 501 | share end | | |
//! | 502 | region end | | |
//! | 503 | mark | label | |
//!
//! A parallel region is executed share by share on one machine: the first "share begin" opens it, "region end" closes it.
//! It counts as long as its slowest core's shares together, and [`Cluster::barrier`]. `mhartid` is the core's number
//! within a share.

use std::io::{Read, Write};

/// Marks an unknown file descriptor.
pub(crate) const BAD_DESCRIPTOR: u32 = -9i32 as u32;

/// Numbers of calls.
pub mod call {
    /// Reads standard input.
    pub const READ: u32 = 63;
    /// Writes to standard output or error.
    pub const WRITE: u32 = 64;
    /// Ends the program.
    pub const EXIT: u32 = 93;
    /// Begins a core's share of a parallel region.
    pub const SHARE_BEGIN: u32 = 500;
    /// Ends it.
    pub const SHARE_END: u32 = 501;
    /// Ends a parallel region.
    pub const REGION_END: u32 = 502;
    /// Records the counters.
    pub const MARK: u32 = 503;
}

/// Cores that share a program's parallel regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Their number.
    pub cores: u32,
    /// Cycles that a region costs beside its work: handing the work out and waiting for the last core.
    pub barrier: u64,
}

impl Default for Cluster {
    /// Eight cores, as GAP8's cluster has. The barrier is an assumption, not a measurement: on PULP the event unit wakes
    /// and joins eight cores in some ten cycles, and the code around it takes the rest.
    fn default() -> Cluster {
        Cluster { cores: 8, barrier: 100 }
    }
}

/// The counters when a program asked for them to be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// What the program said.
    pub label: u32,
    /// Instructions until and with the call.
    pub instructions: u64,
    /// Cycles until and with the call.
    pub cycles: u64,
    /// The same, parallel regions counted as the cluster executes them.
    pub parallel_cycles: u64,
}

/// A parallel region under way, and what the ones before it saved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    /// Cycles at its beginning.
    opened: Option<u64>,
    /// Core and cycles at the beginning of the share under way.
    share: Option<(u32, u64)>,
    /// Cycles of each core.
    work: Vec<u64>,
    /// Cycles of ended regions on one core.
    sequential: u64,
    /// Cycles of ended regions on the cluster.
    parallel: u64,
}

impl Regions {
    /// Whether the calls are in their order.
    pub(crate) fn begin(&mut self, core: u32, cycles: u64, cluster: Cluster) -> bool {
        if self.share.is_some() || core >= cluster.cores {
            return false;
        }
        if self.opened.is_none() {
            self.opened = Some(cycles);
            self.work = vec![0; cluster.cores as usize];
        }
        self.share = Some((core, cycles));
        true
    }

    pub(crate) fn end(&mut self, cycles: u64) -> bool {
        let Some((core, begun)) = self.share.take() else {
            return false;
        };
        self.work[core as usize] += cycles - begun;
        true
    }

    pub(crate) fn close(&mut self, cycles: u64, cluster: Cluster) -> bool {
        let (None, Some(opened)) = (self.share, self.opened.take()) else {
            return false;
        };
        self.sequential += cycles - opened;
        self.parallel += self.work.iter().max().copied().unwrap_or(0) + cluster.barrier;
        true
    }

    /// Cycles of the whole program on the cluster.
    pub(crate) fn cycles(&self, cycles: u64) -> u64 {
        cycles - self.sequential + self.parallel
    }
}

/// Where a program's output goes.
pub(crate) enum Output {
    Captured(Vec<u8>),
    Stream(Box<dyn Write>),
}

/// A program's streams.
pub(crate) struct Streams {
    pub(crate) input: Box<dyn Read>,
    pub(crate) output: Output,
    pub(crate) errors: Output,
}

impl Output {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Output::Captured(all) => all.extend_from_slice(bytes),
            Output::Stream(stream) => {
                stream.write_all(bytes)?;
                stream.flush()?;
            }
        }
        Ok(())
    }

    pub(crate) fn captured(&self) -> &[u8] {
        match self {
            Output::Captured(all) => all,
            Output::Stream(_) => &[],
        }
    }
}
