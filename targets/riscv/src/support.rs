//! What programs are linked with: texts of the files in `support/`.

/// `start.S`: start-up code, and the trap handler that a core without a simulator around it needs.
pub const START: &str = include_str!("../support/start.S");
/// `host.h`: the calls of the host.
pub const HOST_HEADER: &str = include_str!("../support/host.h");
/// `memory.c`: memory functions that compilers expect.
pub const MEMORY: &str = include_str!("../support/memory.c");
