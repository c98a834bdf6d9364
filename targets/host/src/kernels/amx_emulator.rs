//! Tiles on machines that have none, for tests: a handler of the signal that an unknown instruction raises carries out AMX's, as Intel's
//! manual describes them (Software Developer's Manual, volume 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBSSD, TILERELEASE, and the
//! exceptions of classes AMX-E1 to AMX-E6). Whatever would raise an exception, or is another instruction, ends the process with a message.
//!
//! Each thread has its registers, as on a machine. A trap takes a microsecond or two.

use std::cell::RefCell;
use std::sync::Once;

use libc::{c_int, c_void, siginfo_t, ucontext_t};

/// Rows of a register.
const ROWS: usize = 16;
/// Bytes of a row.
const BYTES: usize = 64;
/// Registers.
const TILES: usize = 8;

/// A register.
type Tile = [[u8; BYTES]; ROWS];

/// What the registers of a thread hold.
struct State {
    /// Rows and bytes of a row of each register, once they are configured.
    shapes: Option<[(usize, usize); TILES]>,
    tiles: [Tile; TILES],
}

thread_local! {
    static STATE: RefCell<State> =
        const { RefCell::new(State { shapes: None, tiles: [[[0; BYTES]; ROWS]; TILES] }) };
}

/// Whether this thread's registers have shapes.
pub(super) fn is_configured() -> bool {
    STATE.with_borrow(|state| state.shapes.is_some())
}

/// Installs the handler, once. The machine has AVX-512, with which products are computed.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler has the form that the flag asks for; all zeros are an action without masked signals.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = trapped;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()), 0);
        }
    });
}

/// Ends the process; what tests print would be kept back.
fn refuse(reason: &str, at: *const u8) -> ! {
    let message = format!("emulated tiles: {reason}, at {at:p}\n");
    // SAFETY: the message has its length.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::abort()
    }
}

/// What a machine would raise as an exception.
type Checked<T> = Result<T, String>;

fn check(holds: bool, reason: &str) -> Checked<()> {
    if holds { Ok(()) } else { Err(reason.to_owned()) }
}

extern "C" fn trapped(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes the context of the instruction, which nothing else refers to.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the instruction was fetched from there. One ahead of a page that cannot be read is no problem: the longest of AMX's has
    // 11 bytes, and none is read beyond those that its first ones announce.
    let done = unsafe { Instruction::decode(at, registers) }.and_then(|instruction| {
        // SAFETY: the addresses are those that the instruction was given.
        STATE.with_borrow_mut(|state| unsafe { state.run(&instruction) })?;
        Ok(instruction.length)
    });
    match done {
        Ok(length) => registers[libc::REG_RIP as usize] += length as i64,
        Err(reason) => refuse(&reason, at),
    }
}

/// An instruction's operand in memory, or a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Register(usize),
    /// Base and displacement, and the scaled index where the form has one.
    Memory {
        address: u64,
        stride: i64,
        has_index_byte: bool,
    },
}

/// An instruction with a VEX prefix of three bytes in the map 0F38.
struct Instruction {
    opcode: u8,
    /// 0 none, 1 for 66, 2 for F3, 3 for F2.
    prefix: u8,
    register: usize,
    operand: Operand,
    third: usize,
    length: usize,
}

impl Instruction {
    /// # Safety
    /// An instruction can be read.
    unsafe fn decode(at: *const u8, registers: &[i64]) -> Checked<Self> {
        // SAFETY: the caller's promise.
        let byte = |i: usize| unsafe { at.add(i).read() };
        check(byte(0) == 0xc4, "not an instruction of AMX")?;
        let (first, second, opcode, modrm) = (byte(1), byte(2), byte(3), byte(4));
        check(first & 0x1f == 2, "not of the map 0F38")?;
        check(second & 0x80 == 0 && second & 4 == 0, "W or L of VEX is set")?;
        // Inverted bits that extend register numbers.
        let extended = |bit: u8| usize::from(!first >> bit & 1) << 3;
        let [r, x, b] = [extended(7), extended(6), extended(5)];
        let third = usize::from(!second >> 3 & 15);
        let register = r | usize::from(modrm >> 3 & 7);
        let (mode, rm) = (modrm >> 6, usize::from(modrm & 7));
        let mut length = 5;
        let operand = if mode == 3 {
            Operand::Register(b | rm)
        } else {
            let has_index_byte = rm == 4;
            let mut stride = 0;
            let mut base = Some(b | rm);
            if has_index_byte {
                let sib = byte(length);
                length += 1;
                let index = x | usize::from(sib >> 3 & 7);
                if index != 4 {
                    stride = general(registers, index)? << (sib >> 6);
                }
                base = Some(b | usize::from(sib & 7));
            }
            if mode == 0 && base.is_some_and(|base| base & 7 == 5) {
                check(has_index_byte, "an operand relative to the instruction is not supported")?;
                base = None;
            }
            let size = match mode {
                1 => 1,
                2 => 4,
                _ if base.is_none() => 4,
                _ => 0,
            };
            let displacement = match size {
                0 => 0,
                1 => i64::from(byte(length) as i8),
                _ => i64::from(i32::from_le_bytes([0, 1, 2, 3].map(|i| byte(length + i)))),
            };
            length += size;
            let base = base.map_or(Ok(0), |base| general(registers, base))?;
            let address = base.wrapping_add(displacement) as u64;
            Operand::Memory { address, stride, has_index_byte }
        };
        Ok(Self { opcode, prefix: second & 3, register, operand, third, length })
    }
}

/// What a general register holds, by its number in instructions.
fn general(registers: &[i64], number: usize) -> Checked<i64> {
    use libc::{
        REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP,
        REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RSI, REG_RSP,
    };
    let places = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    places.get(number).map(|&place| registers[place as usize]).ok_or("no such register".to_owned())
}

impl State {
    /// # Safety
    /// Memory operands are what the instruction may read or write.
    unsafe fn run(&mut self, of: &Instruction) -> Checked<()> {
        let unused = |value: usize| check(value == 0, "a field that must be 1111b is not");
        match (of.opcode, of.prefix, of.operand) {
            (0x49, 0, Operand::Memory { address, stride, .. }) => {
                unused(of.third)?;
                check(of.register == 0, "not LDTILECFG")?;
                // SAFETY: the caller's promise; this form's operand is 64 bytes, its index part of the address.
                let bytes = unsafe {
                    (address.wrapping_add(stride as u64) as *const [u8; 64]).read_unaligned()
                };
                self.configure(&bytes)
            }
            (0x49, 0, Operand::Register(0)) if of.register == 0 => {
                unused(of.third)?;
                *self = State { shapes: None, tiles: [[[0; BYTES]; ROWS]; TILES] };
                Ok(())
            }
            (0x49, 3, Operand::Register(0)) => {
                unused(of.third)?;
                self.shape(of.register)?;
                self.tiles[of.register] = [[0; BYTES]; ROWS];
                Ok(())
            }
            (0x4b, 2 | 3, Operand::Memory { address, stride, has_index_byte }) => {
                unused(of.third)?;
                check(has_index_byte, "a tile's operand has no SIB byte")?;
                let (rows, bytes) = self.shape(of.register)?;
                let tile = &mut self.tiles[of.register];
                if of.prefix == 3 {
                    *tile = [[0; BYTES]; ROWS];
                }
                for (row, held) in tile.iter_mut().enumerate().take(rows) {
                    let place = address.wrapping_add((stride.wrapping_mul(row as i64)) as u64);
                    // SAFETY: the caller's promise.
                    unsafe {
                        if of.prefix == 3 {
                            let from = place as *const u8;
                            std::ptr::copy_nonoverlapping(from, held.as_mut_ptr(), bytes);
                        } else {
                            std::ptr::copy_nonoverlapping(held.as_ptr(), place as *mut u8, bytes);
                        }
                    }
                }
                Ok(())
            }
            (0x5e, 3, Operand::Register(second)) => self.multiply(of.register, second, of.third),
            (0x5e, ..) => Err("a product that is not TDPBSSD".to_owned()),
            (opcode, prefix, operand) => {
                Err(format!("opcode {opcode:#x} with prefix {prefix} and {operand:?}"))
            }
        }
    }

    /// LDTILECFG.
    fn configure(&mut self, bytes: &[u8; 64]) -> Checked<()> {
        if bytes[0] == 0 {
            *self = State { shapes: None, tiles: [[[0; BYTES]; ROWS]; TILES] };
            return Ok(());
        }
        check(bytes[0] == 1, "a palette other than 1")?;
        check(bytes[1] == 0, "tiles that begin behind their first row are not supported")?;
        let zero = |range: std::ops::Range<usize>| bytes[range].iter().all(|&byte| byte == 0);
        check(zero(2..16) && zero(32..48) && zero(56..64), "reserved bytes are not zero")?;
        let mut shapes = [(0, 0); TILES];
        for (n, shape) in shapes.iter_mut().enumerate() {
            let row_bytes = u16::from_le_bytes([bytes[16 + 2 * n], bytes[17 + 2 * n]]);
            let (rows, row_bytes) = (usize::from(bytes[48 + n]), usize::from(row_bytes));
            check(row_bytes <= BYTES, "a row of more than 64 bytes")?;
            check(rows <= ROWS, "a tile of more than 16 rows")?;
            check((rows == 0) == (row_bytes == 0), "rows without bytes, or bytes without rows")?;
            *shape = (rows, row_bytes);
        }
        *self = State { shapes: Some(shapes), tiles: [[[0; BYTES]; ROWS]; TILES] };
        Ok(())
    }

    /// The shape of a register that has one.
    fn shape(&self, register: usize) -> Checked<(usize, usize)> {
        let shapes = self.shapes.as_ref().ok_or("tiles are not configured")?;
        let shape = *shapes.get(register).ok_or("a register beyond the eighth")?;
        check(shape.0 > 0, "a register without a shape")?;
        Ok(shape)
    }

    /// TDPBSSD: `sums += rows * lanes`.
    fn multiply(&mut self, sums: usize, rows: usize, lanes: usize) -> Checked<()> {
        let different = sums != rows && rows != lanes && sums != lanes;
        check(different, "registers of a product are not different ones")?;
        let [of_sums, of_rows, of_lanes] =
            [self.shape(sums)?, self.shape(rows)?, self.shape(lanes)?];
        let whole = [of_sums, of_rows, of_lanes].iter().all(|(_, bytes)| bytes % 4 == 0);
        check(whole, "a row of a product is not of whole units")?;
        check(of_sums.1 == of_lanes.1, "sums and lanes are not equally wide")?;
        check(of_sums.0 == of_rows.0, "sums have another number of rows")?;
        check(of_rows.1 / 4 == of_lanes.0, "rows and lanes have different numbers of steps")?;
        let (a, b) = (self.tiles[rows], self.tiles[lanes]);
        let c = &mut self.tiles[sums];
        // SAFETY: the handler is installed only where the machine has AVX-512.
        unsafe { dots(&a, &b, of_sums.0, of_lanes.0, c) };
        Ok(())
    }
}

/// The sums of so many rows of so many steps; beside the lanes of a shape, all are zero.
#[target_feature(enable = "avx512f,avx512bw")]
fn dots(a: &Tile, b: &Tile, rows: usize, steps: usize, c: &mut Tile) {
    use core::arch::x86_64::*;
    for (a, c) in a.iter().zip(c).take(rows) {
        // SAFETY: a row of a tile is one vector.
        unsafe {
            let mut sums = _mm512_loadu_si512(c.as_ptr().cast());
            for (quad, lanes) in a.as_chunks::<4>().0.iter().zip(b).take(steps) {
                let factor = _mm512_set1_epi32(i32::from_le_bytes(*quad));
                let lanes = _mm512_loadu_si512(lanes.as_ptr().cast());
                let odd = |quads| _mm512_srai_epi16::<8>(quads);
                let even = |quads| odd(_mm512_slli_epi16::<8>(quads));
                let evens = _mm512_madd_epi16(even(factor), even(lanes));
                let odds = _mm512_madd_epi16(odd(factor), odd(lanes));
                sums = _mm512_add_epi32(sums, _mm512_add_epi32(evens, odds));
            }
            _mm512_storeu_si512(c.as_mut_ptr().cast(), sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction's bytes, padded, decoded with general registers that hold 1000 times their number.
    fn decoded(bytes: &[u8]) -> Checked<Instruction> {
        let mut registers = [0i64; 23];
        for number in 0..16 {
            let place = (0..23).find(|&place| {
                let mut probe = [0i64; 23];
                probe[place] = 1;
                general(&probe, number) == Ok(1)
            });
            registers[place.expect("a place")] = 1000 * number as i64;
        }
        let mut padded = [0u8; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: there are 16 bytes, more than any of these instructions has.
        unsafe { Instruction::decode(padded.as_ptr(), &registers) }
    }

    /// Bytes as LLVM's assembler writes them.
    #[test]
    fn instructions() {
        let memory = |address, stride| Operand::Memory { address, stride, has_index_byte: true };
        // tileloadd tmm4, [rax + rbx*1]
        let of = decoded(&[0xc4, 0xe2, 0x7b, 0x4b, 0x24, 0x18]).unwrap();
        assert_eq!((of.opcode, of.prefix, of.register, of.length), (0x4b, 3, 4, 6));
        assert_eq!(of.operand, memory(0, 3000));
        // tileloadd tmm2, [r13 + r9*1]: a base that needs a displacement.
        let of = decoded(&[0xc4, 0x82, 0x7b, 0x4b, 0x54, 0x0d, 0x00]).unwrap();
        assert_eq!((of.register, of.operand, of.length), (2, memory(13000, 9000), 7));
        // tilestored [rsp + rsi*4 + 0x12345678], tmm1
        let of = decoded(&[0xc4, 0xe2, 0x7a, 0x4b, 0x8c, 0xb4, 0x78, 0x56, 0x34, 0x12]).unwrap();
        assert_eq!((of.opcode, of.prefix, of.register, of.length), (0x4b, 2, 1, 10));
        assert_eq!(of.operand, memory(4000 + 0x1234_5678, 24000));
        // tileloadd tmm0, [r12 - 8], without an index.
        let of = decoded(&[0xc4, 0xc2, 0x7b, 0x4b, 0x44, 0x24, 0xf8]).unwrap();
        assert_eq!((of.operand, of.length), (memory(11992, 0), 7));
        // tdpbssd tmm1, tmm6, tmm7
        let of = decoded(&[0xc4, 0xe2, 0x43, 0x5e, 0xce]).unwrap();
        assert_eq!((of.opcode, of.prefix, of.register, of.third), (0x5e, 3, 1, 7));
        assert_eq!((of.operand, of.length), (Operand::Register(6), 5));
        assert!(decoded(&[0x0f, 0x0b]).is_err(), "ud2");
    }

    /// What other products, and tiles without shapes, come to.
    #[test]
    fn refusals() {
        let mut state = State { shapes: None, tiles: [[[0; BYTES]; ROWS]; TILES] };
        let mut run = |bytes: &[u8]| {
            let instruction = decoded(bytes)?;
            // SAFETY: none of these gets as far as its memory.
            unsafe { state.run(&instruction) }
        };
        let refused = |outcome: Checked<()>, word: &str| {
            let reason = outcome.expect_err("it is refused");
            assert!(reason.contains(word), "{reason}");
        };
        refused(run(&[0xc4, 0xe2, 0x43, 0x5e, 0xce]), "not configured");
        refused(run(&[0xc4, 0xe2, 0x7b, 0x4b, 0x24, 0x18]), "not configured");
        // tdpbsud, tdpbusd, tdpbuud
        for second in [0x42, 0x41, 0x40] {
            refused(run(&[0xc4, 0xe2, second, 0x5e, 0xce]), "not TDPBSSD");
        }
        // tdpbf16ps
        refused(run(&[0xc4, 0xe2, 0x42, 0x5c, 0xce]), "opcode 0x5c");
    }

    /// A configuration whose registers have these rows and bytes.
    fn configuration(shapes: &[(u8, u16)]) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0] = 1;
        for (n, &(rows, row_bytes)) in shapes.iter().enumerate() {
            bytes[16 + 2 * n..][..2].copy_from_slice(&row_bytes.to_le_bytes());
            bytes[48 + n] = rows;
        }
        bytes
    }

    #[test]
    fn configurations() {
        let mut state = State { shapes: None, tiles: [[[1; BYTES]; ROWS]; TILES] };
        let good = configuration(&[(16, 64), (3, 64), (3, 20), (5, 64)]);
        assert_eq!(state.configure(&good), Ok(()));
        assert!(state.tiles.as_flattened().as_flattened().iter().all(|&byte| byte == 0));
        assert_eq!(state.shape(2), Ok((3, 20)));
        assert!(state.shape(4).is_err() && state.shape(8).is_err());
        assert_eq!(state.multiply(1, 2, 3), Ok(()));
        // Different rows, steps, and equal registers.
        assert!(state.multiply(0, 2, 3).is_err());
        assert!(state.multiply(1, 2, 0).is_err());
        assert!(state.multiply(1, 1, 3).is_err());
        for shapes in [[(17, 64)], [(16, 65)], [(0, 64)], [(16, 0)]] {
            assert!(state.configure(&configuration(&shapes)).is_err(), "{shapes:?}");
        }
        for at in [0, 1, 2, 15, 32, 47, 56, 63] {
            let mut bytes = good;
            bytes[at] = 2;
            assert!(state.configure(&bytes).is_err(), "byte {at}");
        }
        assert_eq!(state.configure(&[0; 64]), Ok(()));
        assert!(state.shape(0).is_err());
    }

    /// Carried out by traps where the machine has no tiles, else by the machine: full tiles of the extremes, and fewer rows and steps, whose
    /// neighbours in memory are not touched.
    #[test]
    fn products_by_instructions() {
        use std::arch::asm;
        if !super::super::KernelPath::Amx.is_available() {
            return;
        }
        for (rows, steps, kind) in
            [(16usize, 16usize, 0), (16, 16, 1), (16, 16, 2), (16, 5, 2), (3, 16, 2), (7, 1, 2)]
        {
            let value = |i: usize| match kind {
                0 => -128,
                1 => [127, -128][i % 2],
                _ => (i * 89 + i / 7 * 31) as i8,
            };
            let a: Vec<i8> = (0..rows * 4 * steps).map(value).collect();
            let b: Vec<i8> = (0..steps * 80).map(|i| value(i + 1)).collect();
            let mut c: Vec<i32> = (0..rows * 20).map(|i| i as i32 * 1001 - 77).collect();
            let mut expected = c.clone();
            for row in 0..rows {
                for lane in 0..16 {
                    for k in 0..4 * steps {
                        let lanes = b[k / 4 * 80 + lane * 4 + k % 4];
                        expected[row * 20 + lane] +=
                            i32::from(a[row * 4 * steps + k]) * i32::from(lanes);
                    }
                }
            }
            let (r, s) = (rows as u8, steps as u8);
            let shapes = configuration(&[(r, 64), (r, 4 * u16::from(s)), (s, 64)]);
            // SAFETY: the operands have the shapes' sizes at their strides.
            unsafe {
                asm!(
                    "ldtilecfg [{shapes}]",
                    "tilezero tmm0",
                    "tileloadd tmm0, [{c} + {c_stride}*1]",
                    "tileloadd tmm1, [{a} + {a_stride}*4]",
                    "tileloadd tmm2, [{b} + {b_stride}*1 - 128]",
                    "tdpbssd tmm0, tmm1, tmm2",
                    "tilestored [{c} + {c_stride}*1], tmm0",
                    "tilerelease",
                    shapes = in(reg) shapes.as_ptr(),
                    c = in(reg) c.as_mut_ptr(),
                    c_stride = in(reg) 80usize,
                    a = in(reg) a.as_ptr(),
                    a_stride = in(reg) steps,
                    b = in(reg) b.as_ptr().wrapping_add(128),
                    b_stride = in(reg) 80usize,
                    options(nostack),
                );
            }
            assert_eq!(c, expected, "{rows} rows, {steps} steps, operands {kind}");
        }
    }

    /// A negative stride goes through memory backwards.
    #[test]
    fn backwards() {
        use std::arch::asm;
        if !super::super::KernelPath::Amx.is_available() {
            return;
        }
        let from: Vec<u8> = (0..16 * 64).map(|i| (i / 64 * 7 + i % 64) as u8).collect();
        let mut to = vec![0u8; 16 * 64];
        let shapes = configuration(&[(16, 64)]);
        // SAFETY: 16 rows of 64 bytes, the first of which is the last in memory.
        unsafe {
            asm!(
                "ldtilecfg [{shapes}]",
                "tileloadd tmm0, [{from} + {back}*1]",
                "tilestored [{to} + {forth}*1], tmm0",
                "tilerelease",
                shapes = in(reg) shapes.as_ptr(),
                from = in(reg) from.as_ptr().wrapping_add(15 * 64),
                back = in(reg) -64isize,
                to = in(reg) to.as_mut_ptr(),
                forth = in(reg) 64usize,
                options(nostack),
            );
        }
        for (row, to) in to.chunks(64).enumerate() {
            assert_eq!(to, &from[(15 - row) * 64..][..64], "row {row}");
        }
    }
}
