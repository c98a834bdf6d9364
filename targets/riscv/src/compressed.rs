//! RV32C: each compressed instruction stands for one of 32 bits.

/// The word that a compressed instruction stands for; none if it is not one of RV32C's (without floats).
pub fn expand(half: u16) -> Option<u32> {
    let half = u32::from(half);
    let bits = |high: u32, low: u32| half >> low & ((2 << (high - low)) - 1);
    let quadrant = half & 3;
    let funct3 = bits(15, 13);
    // Registers x8 to x15 of the short fields, and the full fields.
    let (short_high, short_low) = (bits(9, 7) + 8, bits(4, 2) + 8);
    let (rd, rs2) = (bits(11, 7), bits(6, 2));
    let signed6 = ((bits(12, 12) << 5 | bits(6, 2)) << 26) as i32 >> 26;
    match (quadrant, funct3) {
        (0, 0b000) => {
            let offset = bits(10, 7) << 6 | bits(12, 11) << 4 | bits(5, 5) << 3 | bits(6, 6) << 2;
            (offset != 0).then(|| immediate_form(0x13, 0, short_low, 2, offset as i32))
        }
        (0, 0b010) => {
            let offset = bits(5, 5) << 6 | bits(12, 10) << 3 | bits(6, 6) << 2;
            Some(immediate_form(0x03, 2, short_low, short_high, offset as i32))
        }
        (0, 0b110) => {
            let offset = bits(5, 5) << 6 | bits(12, 10) << 3 | bits(6, 6) << 2;
            Some(store_form(short_high, short_low, offset))
        }
        (1, 0b000) => Some(immediate_form(0x13, 0, rd, rd, signed6)),
        (1, 0b001) => Some(jump_form(1, jump_offset(half))),
        (1, 0b010) => Some(immediate_form(0x13, 0, rd, 0, signed6)),
        (1, 0b011) if rd == 2 => {
            let offset = bits(12, 12) << 9
                | bits(4, 3) << 7
                | bits(5, 5) << 6
                | bits(2, 2) << 5
                | bits(6, 6) << 4;
            let offset = (offset << 22) as i32 >> 22;
            (offset != 0).then(|| immediate_form(0x13, 0, 2, 2, offset))
        }
        (1, 0b011) => (signed6 != 0).then_some((signed6 as u32) << 12 | rd << 7 | 0x37),
        (1, 0b100) => arithmetic(half, short_high, short_low, signed6),
        (1, 0b101) => Some(jump_form(0, jump_offset(half))),
        (1, 0b110) => Some(branch_form(0, short_high, branch_offset(half))),
        (1, 0b111) => Some(branch_form(1, short_high, branch_offset(half))),
        // Shifts of 32 and more are RV64's.
        (2, 0b000) => (bits(12, 12) == 0).then(|| immediate_form(0x13, 1, rd, rd, rs2 as i32)),
        (2, 0b010) => {
            let offset = bits(3, 2) << 6 | bits(12, 12) << 5 | bits(6, 4) << 2;
            (rd != 0).then(|| immediate_form(0x03, 2, rd, 2, offset as i32))
        }
        (2, 0b100) => match (bits(12, 12), rd, rs2) {
            (0, 0, 0) => None,
            (0, _, 0) => Some(rd << 15 | 0x67),
            (0, _, _) => Some(rs2 << 20 | rd << 7 | 0x33),
            (1, 0, 0) => Some(1 << 20 | 0x73),
            (1, _, 0) => Some(rd << 15 | 1 << 7 | 0x67),
            _ => Some(rs2 << 20 | rd << 15 | rd << 7 | 0x33),
        },
        (2, 0b110) => {
            let offset = bits(8, 7) << 6 | bits(12, 9) << 2;
            Some(store_form(2, rs2, offset))
        }
        _ => None,
    }
}

/// Shifts, and operations on the short registers.
fn arithmetic(half: u32, rd: u32, rs2: u32, signed6: i32) -> Option<u32> {
    let wide_shift = half >> 12 & 1 == 1;
    let amount = signed6 & 31;
    match half >> 10 & 3 {
        0 => (!wide_shift).then(|| immediate_form(0x13, 5, rd, rd, amount)),
        1 => (!wide_shift).then(|| immediate_form(0x13, 5, rd, rd, 0x400 | amount)),
        2 => Some(immediate_form(0x13, 7, rd, rd, signed6)),
        _ if wide_shift => None,
        _ => {
            let (funct3, funct7) = [(0, 0x20), (4, 0), (6, 0), (7, 0)][(half >> 5 & 3) as usize];
            Some(funct7 << 25 | rs2 << 20 | rd << 15 | funct3 << 12 | rd << 7 | 0x33)
        }
    }
}

fn immediate_form(opcode: u32, funct3: u32, rd: u32, rs1: u32, immediate: i32) -> u32 {
    (immediate as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

/// `sw`.
fn store_form(rs1: u32, rs2: u32, offset: u32) -> u32 {
    offset >> 5 << 25 | rs2 << 20 | rs1 << 15 | 2 << 12 | (offset & 31) << 7 | 0x23
}

fn jump_form(rd: u32, offset: i32) -> u32 {
    let bits = |high: u32, low: u32| offset as u32 >> low & ((2 << (high - low)) - 1);
    bits(20, 20) << 31
        | bits(10, 1) << 21
        | bits(11, 11) << 20
        | bits(19, 12) << 12
        | rd << 7
        | 0x6f
}

/// `beq` or `bne` with x0.
fn branch_form(funct3: u32, rs1: u32, offset: i32) -> u32 {
    let bits = |high: u32, low: u32| offset as u32 >> low & ((2 << (high - low)) - 1);
    bits(12, 12) << 31
        | bits(10, 5) << 25
        | rs1 << 15
        | funct3 << 12
        | bits(4, 1) << 8
        | bits(11, 11) << 7
        | 0x63
}

fn jump_offset(half: u32) -> i32 {
    let bits = |high: u32, low: u32| half >> low & ((2 << (high - low)) - 1);
    let offset = bits(12, 12) << 11
        | bits(8, 8) << 10
        | bits(10, 9) << 8
        | bits(6, 6) << 7
        | bits(7, 7) << 6
        | bits(2, 2) << 5
        | bits(11, 11) << 4
        | bits(5, 3) << 1;
    (offset << 20) as i32 >> 20
}

fn branch_offset(half: u32) -> i32 {
    let bits = |high: u32, low: u32| half >> low & ((2 << (high - low)) - 1);
    let offset =
        bits(12, 12) << 8 | bits(6, 5) << 6 | bits(2, 2) << 5 | bits(11, 10) << 3 | bits(4, 3) << 1;
    (offset << 23) as i32 >> 23
}
