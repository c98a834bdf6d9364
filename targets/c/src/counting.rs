//! Counting of executed instructions by a plugin of qemu, which needs no header of qemu's: a compiler of C builds it.

use trainc_ir::harness::{Counting, Plugin, Tool};

/// The plugin's source.
pub const PLUGIN: &str = include_str!("counting/plugin.c");

/// Hooks that call `trainc_count_mark(label)`.
pub const COUNTING_HOOKS: &str = include_str!("counting/hooks.h");

/// Executed instructions, under the first of some emulators that is installed.
pub fn counting(emulators: Vec<Tool>) -> Counting {
    Counting {
        unit: "instructions",
        model: "executed instructions, by a plugin of the emulator; it models neither caches nor issue widths",
        hooks: COUNTING_HOOKS,
        support: &[("counting.c", include_str!("counting/marks.c"))],
        plugin: Some(Plugin { source: PLUGIN, emulators }),
    }
}
