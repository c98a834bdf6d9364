//! The table of instructions. Names: the mnemonic, then element letters (B, Ub, H, Uh, W, Uw), then what makes the form
//! special: `Immediate`, `Saturate`, `Round`, `Accumulate` (`+=`), `Next` (post-increment by a number), `Step`
//! (post-increment by a modifier), `At` (base plus shifted index), `If` and `IfNot` (predicated).
//!
//! Vector offsets and post-increments count vectors, scalar ones bytes.

use super::registers::Version;
use super::table::{Field, Row, Unit, short};

macro_rules! opcodes {
    ($($name:ident $unit:ident $since:ident [$($role:ident $kind:ident),*] $form:literal;)*) => {
        /// An instruction; the variant's text is its assembly form, `{n}` standing for operand n.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Opcode {
            $(#[doc = concat!("`", $form, "`")] $name,)*
        }

        impl Opcode {
            /// Every instruction, in the table's order.
            pub const ALL: &[Opcode] = &[$(Opcode::$name,)*];

            /// The row of the table.
            #[must_use]
            pub fn row(self) -> &'static Row {
                &ROWS[self as usize]
            }
        }

        static ROWS: &[Row] = &[$(Row {
            form: $form,
            fields: &[$(Field { role: short::$role, kind: short::$kind }),*],
            unit: Unit::$unit,
            since: Version::$since,
        },)*];
    };
}

opcodes! {
    // Scalar arithmetic, 32 bits.
    Move              Alu32 V62 [d R, u R] "{0} = {1}";
    Constant          Alu32 V62 [d R, u S16X] "{0} = {1}";
    AddressOf         Control V62 [d R, u U6X] "{0} = add(pc,{1})";
    Add               Alu32 V62 [d R, u R, u R] "{0} = add({1},{2})";
    AddImmediate      Alu32 V62 [d R, u R, u S16X] "{0} = add({1},{2})";
    AddSaturate       Alu32 V62 [d R, u R, u R] "{0} = add({1},{2}):sat";
    Sub               Alu32 V62 [d R, u R, u R] "{0} = sub({1},{2})";
    SubSaturate       Alu32 V62 [d R, u R, u R] "{0} = sub({1},{2}):sat";
    SubFromImmediate  Alu32 V62 [d R, u S10X, u R] "{0} = sub({1},{2})";
    And               Alu32 V62 [d R, u R, u R] "{0} = and({1},{2})";
    AndImmediate      Alu32 V62 [d R, u R, u S10X] "{0} = and({1},{2})";
    Or                Alu32 V62 [d R, u R, u R] "{0} = or({1},{2})";
    OrImmediate       Alu32 V62 [d R, u R, u S10X] "{0} = or({1},{2})";
    Xor               Alu32 V62 [d R, u R, u R] "{0} = xor({1},{2})";
    SignExtendB       Alu32 V62 [d R, u R] "{0} = sxtb({1})";
    SignExtendH       Alu32 V62 [d R, u R] "{0} = sxth({1})";
    ZeroExtendB       Alu32 V62 [d R, u R] "{0} = zxtb({1})";
    ZeroExtendH       Alu32 V62 [d R, u R] "{0} = zxth({1})";
    ShiftLeft         Xtype V62 [d R, u R, u R] "{0} = lsl({1},{2})";
    ShiftLeftImmediate Xtype V62 [d R, u R, u U5] "{0} = asl({1},{2})";
    ArithmeticLeft    Xtype V62 [d R, u R, u R] "{0} = asl({1},{2})";
    ArithmeticRight   Xtype V62 [d R, u R, u R] "{0} = asr({1},{2})";
    ArithmeticRightImmediate Xtype V62 [d R, u R, u U5] "{0} = asr({1},{2})";
    LogicalRight      Xtype V62 [d R, u R, u R] "{0} = lsr({1},{2})";
    LogicalRightImmediate Xtype V62 [d R, u R, u U5] "{0} = lsr({1},{2})";
    AddShifted        Xtype V62 [d R, u R, u R, u U3] "{0} = addasl({1},{2},{3})";
    Max               Xtype V62 [d R, u R, u R] "{0} = max({1},{2})";
    MaxU              Xtype V62 [d R, u R, u R] "{0} = maxu({1},{2})";
    Min               Xtype V62 [d R, u R, u R] "{0} = min({1},{2})";
    MinU              Xtype V62 [d R, u R, u R] "{0} = minu({1},{2})";
    Abs               Xtype V62 [d R, u R] "{0} = abs({1})";
    CountLeadingZeros Xtype V62 [d R, u R] "{0} = cl0({1})";
    CountLeadingBits  Xtype V62 [d R, u R] "{0} = clb({1})";
    CountTrailingZeros Xtype V62 [d R, u R] "{0} = ct0({1})";
    SaturateB         Xtype V62 [d R, u R] "{0} = satb({1})";
    SaturateUb        Xtype V62 [d R, u R] "{0} = satub({1})";
    SaturateH         Xtype V62 [d R, u R] "{0} = sath({1})";
    SaturateD         Xtype V62 [d R, u RR] "{0} = sat({1})";
    SplatB            Xtype V62 [d R, u R] "{0} = vsplatb({1})";
    ExtractBits       Xtype V62 [d R, u R, u U5, u U5] "{0} = extractu({1},{2},{3})";
    InsertBits        Xtype V62 [x R, u R, u U5, u U5] "{0} = insert({1},{2},{3})";
    Multiply          Multiply V62 [d R, u R, u R] "{0} = mpyi({1},{2})";
    MultiplyImmediate Multiply V62 [d R, u R, u U8X] "{0} = mpyi({1},{2})";
    MultiplyAccumulate Multiply V62 [x R, u R, u R] "{0} += mpyi({1},{2})";
    MultiplyHigh      Multiply V62 [d R, u R, u R] "{0} = mpy({1},{2})";
    MultiplyHighU     Multiply V62 [d R, u R, u R] "{0} = mpyu({1},{2})";
    MultiplyD         Multiply V62 [d RR, u R, u R] "{0} = mpy({1},{2})";
    MultiplyDU        Multiply V62 [d RR, u R, u R] "{0} = mpyu({1},{2})";
    MultiplyDAccumulate Multiply V62 [x RR, u R, u R] "{0} += mpy({1},{2})";
    MultiplyDUAccumulate Multiply V62 [x RR, u R, u R] "{0} += mpyu({1},{2})";

    // Scalar pairs, 64 bits.
    Combine           Alu32 V62 [d RR, u R, u R] "{0} = combine({1},{2})";
    CombineImmediate  Alu32 V62 [d RR, u S8X, u S8] "{0} = combine({1},{2})";
    SignExtendW       Xtype V62 [d RR, u R] "{0} = sxtw({1})";
    AddD              Xtype V62 [d RR, u RR, u RR] "{0} = add({1},{2})";
    SubD              Xtype V62 [d RR, u RR, u RR] "{0} = sub({1},{2})";
    NegD              Xtype V62 [d RR, u RR] "{0} = neg({1})";
    AbsD              Xtype V62 [d RR, u RR] "{0} = abs({1})";
    AndD              Xtype V62 [d RR, u RR, u RR] "{0} = and({1},{2})";
    OrD               Xtype V62 [d RR, u RR, u RR] "{0} = or({1},{2})";
    XorD              Xtype V62 [d RR, u RR, u RR] "{0} = xor({1},{2})";
    NotD              Xtype V62 [d RR, u RR] "{0} = not({1})";
    MaxD              Xtype V62 [d RR, u RR, u RR] "{0} = max({1},{2})";
    MinD              Xtype V62 [d RR, u RR, u RR] "{0} = min({1},{2})";
    ShiftLeftD        Xtype V62 [d RR, u RR, u R] "{0} = lsl({1},{2})";
    ShiftLeftDImmediate Xtype V62 [d RR, u RR, u U6] "{0} = asl({1},{2})";
    ArithmeticLeftD   Xtype V62 [d RR, u RR, u R] "{0} = asl({1},{2})";
    ArithmeticRightD  Xtype V62 [d RR, u RR, u R] "{0} = asr({1},{2})";
    ArithmeticRightDImmediate Xtype V62 [d RR, u RR, u U6] "{0} = asr({1},{2})";
    LogicalRightD     Xtype V62 [d RR, u RR, u R] "{0} = lsr({1},{2})";
    LogicalRightDImmediate Xtype V62 [d RR, u RR, u U6] "{0} = lsr({1},{2})";
    CountLeadingZerosD Xtype V62 [d R, u RR] "{0} = cl0({1})";
    CountLeadingBitsD Xtype V62 [d R, u RR] "{0} = clb({1})";

    // Comparisons and selection.
    CompareEq         Alu32 V62 [d P, u R, u R] "{0} = cmp.eq({1},{2})";
    CompareEqImmediate Alu32 V62 [d P, u R, u S10X] "{0} = cmp.eq({1},{2})";
    CompareGt         Alu32 V62 [d P, u R, u R] "{0} = cmp.gt({1},{2})";
    CompareGtImmediate Alu32 V62 [d P, u R, u S10X] "{0} = cmp.gt({1},{2})";
    CompareGtU        Alu32 V62 [d P, u R, u R] "{0} = cmp.gtu({1},{2})";
    CompareGtUImmediate Alu32 V62 [d P, u R, u U9X] "{0} = cmp.gtu({1},{2})";
    CompareEqD        Xtype V62 [d P, u RR, u RR] "{0} = cmp.eq({1},{2})";
    CompareGtD        Xtype V62 [d P, u RR, u RR] "{0} = cmp.gt({1},{2})";
    CompareGtUD       Xtype V62 [d P, u RR, u RR] "{0} = cmp.gtu({1},{2})";
    TestBit           Xtype V62 [d P, u R, u U5] "{0} = tstbit({1},{2})";
    PredicateAnd      Predicate V62 [d P, u P, u P] "{0} = and({1},{2})";
    PredicateOr       Predicate V62 [d P, u P, u P] "{0} = or({1},{2})";
    PredicateXor      Predicate V62 [d P, u P, u P] "{0} = xor({1},{2})";
    PredicateNot      Predicate V62 [d P, u P] "{0} = not({1})";
    PredicateToR      Xtype V62 [d R, u P] "{0} = {1}";
    PredicateFromR    Xtype V62 [d P, u R] "{0} = {1}";
    Mux               Alu32 V62 [d R, u P, u R, u R] "{0} = mux({1},{2},{3})";
    MuxImmediate      Alu32 V62 [d R, u P, u S8X, u S8] "{0} = mux({1},{2},{3})";
    MuxImmediateR     Alu32 V62 [d R, u P, u S8X, u R] "{0} = mux({1},{2},{3})";
    MuxRImmediate     Alu32 V62 [d R, u P, u R, u S8X] "{0} = mux({1},{2},{3})";
    MoveIf            Alu32 V62 [x R, u P, u R] "if ({1}) {0} = {2}";
    MoveIfNot         Alu32 V62 [x R, u P, u R] "if (!{1}) {0} = {2}";
    AddIf             Alu32 V62 [x R, u P, u R, u R] "if ({1}) {0} = add({2},{3})";
    AddIfNot          Alu32 V62 [x R, u P, u R, u R] "if (!{1}) {0} = add({2},{3})";

    // Scalar binary32; rounds to nearest, ties to even, unless the form says otherwise.
    FloatAdd          Float V62 [d R, u R, u R] "{0} = sfadd({1},{2})";
    FloatSub          Float V62 [d R, u R, u R] "{0} = sfsub({1},{2})";
    FloatMultiply     Float V62 [d R, u R, u R] "{0} = sfmpy({1},{2})";
    FloatMax          Float V62 [d R, u R, u R] "{0} = sfmax({1},{2})";
    FloatMin          Float V62 [d R, u R, u R] "{0} = sfmin({1},{2})";
    FloatMultiplyAdd  Float V62 [x R, u R, u R] "{0} += sfmpy({1},{2})";
    FloatMultiplySub  Float V62 [x R, u R, u R] "{0} -= sfmpy({1},{2})";
    FloatCompareEq    Float V62 [d P, u R, u R] "{0} = sfcmp.eq({1},{2})";
    FloatCompareGt    Float V62 [d P, u R, u R] "{0} = sfcmp.gt({1},{2})";
    FloatCompareGe    Float V62 [d P, u R, u R] "{0} = sfcmp.ge({1},{2})";
    FloatCompareUnordered Float V62 [d P, u R, u R] "{0} = sfcmp.uo({1},{2})";
    FloatFromW        Float V62 [d R, u R] "{0} = convert_w2sf({1})";
    FloatFromUw       Float V62 [d R, u R] "{0} = convert_uw2sf({1})";
    FloatFromD        Float V62 [d R, u RR] "{0} = convert_d2sf({1})";
    FloatFromUd       Float V62 [d R, u RR] "{0} = convert_ud2sf({1})";
    FloatToW          Float V62 [d R, u R] "{0} = convert_sf2w({1})";
    FloatToWChop      Float V62 [d R, u R] "{0} = convert_sf2w({1}):chop";
    FloatToUw         Float V62 [d R, u R] "{0} = convert_sf2uw({1})";
    FloatToUwChop     Float V62 [d R, u R] "{0} = convert_sf2uw({1}):chop";
    FloatToD          Float V62 [d RR, u R] "{0} = convert_sf2d({1})";
    FloatToDChop      Float V62 [d RR, u R] "{0} = convert_sf2d({1}):chop";

    // Scalar memory.
    LoadB             Load V62 [d R, u R, u S11_0] "{0} = memb({1}+{2})";
    LoadUb            Load V62 [d R, u R, u S11_0] "{0} = memub({1}+{2})";
    LoadH             Load V62 [d R, u R, u S11_1] "{0} = memh({1}+{2})";
    LoadUh            Load V62 [d R, u R, u S11_1] "{0} = memuh({1}+{2})";
    LoadW             Load V62 [d R, u R, u S11_2] "{0} = memw({1}+{2})";
    LoadD             Load V62 [d RR, u R, u S11_3] "{0} = memd({1}+{2})";
    LoadBNext         Load V62 [d R, x R, u S4_0] "{0} = memb({1}++{2})";
    LoadUbNext        Load V62 [d R, x R, u S4_0] "{0} = memub({1}++{2})";
    LoadHNext         Load V62 [d R, x R, u S4_1] "{0} = memh({1}++{2})";
    LoadUhNext        Load V62 [d R, x R, u S4_1] "{0} = memuh({1}++{2})";
    LoadWNext         Load V62 [d R, x R, u S4_2] "{0} = memw({1}++{2})";
    LoadDNext         Load V62 [d RR, x R, u S4_3] "{0} = memd({1}++{2})";
    LoadBStep         Load V62 [d R, x R, u M] "{0} = memb({1}++{2})";
    LoadUbStep        Load V62 [d R, x R, u M] "{0} = memub({1}++{2})";
    LoadHStep         Load V62 [d R, x R, u M] "{0} = memh({1}++{2})";
    LoadUhStep        Load V62 [d R, x R, u M] "{0} = memuh({1}++{2})";
    LoadWStep         Load V62 [d R, x R, u M] "{0} = memw({1}++{2})";
    LoadDStep         Load V62 [d RR, x R, u M] "{0} = memd({1}++{2})";
    LoadBAt           Load V62 [d R, u R, u R, u U2] "{0} = memb({1}+{2}<<{3})";
    LoadUbAt          Load V62 [d R, u R, u R, u U2] "{0} = memub({1}+{2}<<{3})";
    LoadHAt           Load V62 [d R, u R, u R, u U2] "{0} = memh({1}+{2}<<{3})";
    LoadUhAt          Load V62 [d R, u R, u R, u U2] "{0} = memuh({1}+{2}<<{3})";
    LoadWAt           Load V62 [d R, u R, u R, u U2] "{0} = memw({1}+{2}<<{3})";
    LoadDAt           Load V62 [d RR, u R, u R, u U2] "{0} = memd({1}+{2}<<{3})";
    LoadUbIf          Load V62 [x R, u P, u R, u U6_0] "if ({1}) {0} = memub({2}+{3})";
    LoadBIf           Load V62 [x R, u P, u R, u U6_0] "if ({1}) {0} = memb({2}+{3})";
    LoadWIf           Load V62 [x R, u P, u R, u U6_2] "if ({1}) {0} = memw({2}+{3})";
    StoreB            Store V62 [u R, u S11_0, u R] "memb({0}+{1}) = {2}";
    StoreH            Store V62 [u R, u S11_1, u R] "memh({0}+{1}) = {2}";
    StoreW            Store V62 [u R, u S11_2, u R] "memw({0}+{1}) = {2}";
    StoreD            Store V62 [u R, u S11_3, u RR] "memd({0}+{1}) = {2}";
    StoreBNext        Store V62 [x R, u S4_0, u R] "memb({0}++{1}) = {2}";
    StoreHNext        Store V62 [x R, u S4_1, u R] "memh({0}++{1}) = {2}";
    StoreWNext        Store V62 [x R, u S4_2, u R] "memw({0}++{1}) = {2}";
    StoreDNext        Store V62 [x R, u S4_3, u RR] "memd({0}++{1}) = {2}";
    StoreBStep        Store V62 [x R, u M, u R] "memb({0}++{1}) = {2}";
    StoreHStep        Store V62 [x R, u M, u R] "memh({0}++{1}) = {2}";
    StoreWStep        Store V62 [x R, u M, u R] "memw({0}++{1}) = {2}";
    StoreDStep        Store V62 [x R, u M, u RR] "memd({0}++{1}) = {2}";
    StoreBAt          Store V62 [u R, u R, u U2, u R] "memb({0}+{1}<<{2}) = {3}";
    StoreHAt          Store V62 [u R, u R, u U2, u R] "memh({0}+{1}<<{2}) = {3}";
    StoreWAt          Store V62 [u R, u R, u U2, u R] "memw({0}+{1}<<{2}) = {3}";
    StoreDAt          Store V62 [u R, u R, u U2, u RR] "memd({0}+{1}<<{2}) = {3}";
    StoreBIf          Store V62 [u P, u R, u U6_0, u R] "if ({0}) memb({1}+{2}) = {3}";
    StoreWIf          Store V62 [u P, u R, u U6_2, u R] "if ({0}) memw({1}+{2}) = {3}";

    // Modifiers, loops, jumps; those with labels are written by the layer itself.
    ModifierFromR     Control V62 [d M, u R] "{0} = {1}";
    ModifierToR       Control V62 [d R, u M] "{0} = {1}";
    Loop0             Loop V62 [u U6X, u R] "loop0({0},{1})";
    Loop0Immediate    Loop V62 [u U6X, u U10] "loop0({0},{1})";
    Loop1             Loop V62 [u U6X, u R] "loop1({0},{1})";
    Loop1Immediate    Loop V62 [u U6X, u U10] "loop1({0},{1})";
    Jump              Jump V62 [u U6X] "jump {0}";
    JumpIf            Jump V62 [u P, u U6X] "if ({0}) jump:t {1}";
    JumpIfNot         Jump V62 [u P, u U6X] "if (!{0}) jump:nt {1}";
    JumpRegister      JumpRegister V62 [u R] "jumpr {0}";
    Call              Jump V62 [u U6X] "call {0}";
    AllocateFrame     Frame V62 [u U11_3] "allocframe({0})";
    DeallocateFrame   Load V62 [] "deallocframe";
    Nop               Alu32 V62 [] "nop";

    // Vector memory.
    LoadV             VectorLoad V62 [d V, u R, u S4_0] "{0} = vmem({1}+{2})";
    LoadVNext         VectorLoad V62 [d V, x R, u S3] "{0} = vmem({1}++{2})";
    LoadVStep         VectorLoad V62 [d V, x R, u M] "{0} = vmem({1}++{2})";
    LoadVUnaligned    VectorLoadUnaligned V62 [d V, u R, u S4_0] "{0} = vmemu({1}+{2})";
    LoadVUnalignedNext VectorLoadUnaligned V62 [d V, x R, u S3] "{0} = vmemu({1}++{2})";
    LoadVUnalignedStep VectorLoadUnaligned V62 [d V, x R, u M] "{0} = vmemu({1}++{2})";
    StoreV            VectorStore V62 [u R, u S4_0, u V] "vmem({0}+{1}) = {2}";
    StoreVNext        VectorStore V62 [x R, u S3, u V] "vmem({0}++{1}) = {2}";
    StoreVStep        VectorStore V62 [x R, u M, u V] "vmem({0}++{1}) = {2}";
    StoreVUnaligned   VectorStoreUnaligned V62 [u R, u S4_0, u V] "vmemu({0}+{1}) = {2}";
    StoreVUnalignedNext VectorStoreUnaligned V62 [x R, u S3, u V] "vmemu({0}++{1}) = {2}";
    StoreVIfQ         VectorStore V62 [u Q, u R, u S4_0, u V] "if ({0}) vmem({1}+{2}) = {3}";
    StoreVIfNotQ      VectorStore V62 [u Q, u R, u S4_0, u V] "if (!{0}) vmem({1}+{2}) = {3}";
    StoreVIfQNext     VectorStore V62 [u Q, x R, u S3, u V] "if ({0}) vmem({1}++{2}) = {3}";
    StoreVIfNotQNext  VectorStore V62 [u Q, x R, u S3, u V] "if (!{0}) vmem({1}++{2}) = {3}";
    StoreVIfQStep     VectorStore V62 [u Q, x R, u M, u V] "if ({0}) vmem({1}++{2}) = {3}";
    StoreVIf          VectorStore V62 [u P, u R, u S4_0, u V] "if ({0}) vmem({1}+{2}) = {3}";

    // Vector moves, splats, words in and out.
    Vassign           VectorAlu V62 [d V, u V] "{0} = {1}";
    Vcombine          VectorAluPair V62 [d VV, u V, u V] "{0} = vcombine({1},{2})";
    VsplatW           VectorMultiply V62 [d V, u R] "{0} = vsplat({1})";
    VsplatH           VectorMultiply V62 [d V, u R] "{0}.h = vsplat({1})";
    VsplatB           VectorMultiply V62 [d V, u R] "{0}.b = vsplat({1})";
    VinsertW          VectorMultiply V62 [x V, u R] "{0}.w = vinsert({1})";
    VextractW         Extract V62 [d R, u V, u R] "{0} = vextract({1},{2})";

    // Vector addition and subtraction.
    VaddB             VectorAlu V62 [d V, u V, u V] "{0}.b = vadd({1}.b,{2}.b)";
    VaddH             VectorAlu V62 [d V, u V, u V] "{0}.h = vadd({1}.h,{2}.h)";
    VaddW             VectorAlu V62 [d V, u V, u V] "{0}.w = vadd({1}.w,{2}.w)";
    VaddBSaturate     VectorAlu V62 [d V, u V, u V] "{0}.b = vadd({1}.b,{2}.b):sat";
    VaddUbSaturate    VectorAlu V62 [d V, u V, u V] "{0}.ub = vadd({1}.ub,{2}.ub):sat";
    VaddHSaturate     VectorAlu V62 [d V, u V, u V] "{0}.h = vadd({1}.h,{2}.h):sat";
    VaddUhSaturate    VectorAlu V62 [d V, u V, u V] "{0}.uh = vadd({1}.uh,{2}.uh):sat";
    VaddWSaturate     VectorAlu V62 [d V, u V, u V] "{0}.w = vadd({1}.w,{2}.w):sat";
    VsubB             VectorAlu V62 [d V, u V, u V] "{0}.b = vsub({1}.b,{2}.b)";
    VsubH             VectorAlu V62 [d V, u V, u V] "{0}.h = vsub({1}.h,{2}.h)";
    VsubW             VectorAlu V62 [d V, u V, u V] "{0}.w = vsub({1}.w,{2}.w)";
    VsubBSaturate     VectorAlu V62 [d V, u V, u V] "{0}.b = vsub({1}.b,{2}.b):sat";
    VsubUbSaturate    VectorAlu V62 [d V, u V, u V] "{0}.ub = vsub({1}.ub,{2}.ub):sat";
    VsubHSaturate     VectorAlu V62 [d V, u V, u V] "{0}.h = vsub({1}.h,{2}.h):sat";
    VsubWSaturate     VectorAlu V62 [d V, u V, u V] "{0}.w = vsub({1}.w,{2}.w):sat";
    VaddHPair         VectorAluPair V62 [d VV, u VV, u VV] "{0}.h = vadd({1}.h,{2}.h)";
    VaddWPair         VectorAluPair V62 [d VV, u VV, u VV] "{0}.w = vadd({1}.w,{2}.w)";
    VsubHPair         VectorAluPair V62 [d VV, u VV, u VV] "{0}.h = vsub({1}.h,{2}.h)";
    VsubWPair         VectorAluPair V62 [d VV, u VV, u VV] "{0}.w = vsub({1}.w,{2}.w)";
    VaddUbWiden       VectorMultiplyPair V62 [d VV, u V, u V] "{0}.h = vadd({1}.ub,{2}.ub)";
    VaddHWiden        VectorMultiplyPair V62 [d VV, u V, u V] "{0}.w = vadd({1}.h,{2}.h)";
    VsubUbWiden       VectorMultiplyPair V62 [d VV, u V, u V] "{0}.h = vsub({1}.ub,{2}.ub)";
    VsubHWiden        VectorMultiplyPair V62 [d VV, u V, u V] "{0}.w = vsub({1}.h,{2}.h)";
    VavgUb            VectorAlu V62 [d V, u V, u V] "{0}.ub = vavg({1}.ub,{2}.ub)";
    VavgUbRound       VectorAlu V62 [d V, u V, u V] "{0}.ub = vavg({1}.ub,{2}.ub):rnd";
    VavgH             VectorAlu V62 [d V, u V, u V] "{0}.h = vavg({1}.h,{2}.h)";
    VavgW             VectorAlu V62 [d V, u V, u V] "{0}.w = vavg({1}.w,{2}.w)";
    VavgWRound        VectorAlu V62 [d V, u V, u V] "{0}.w = vavg({1}.w,{2}.w):rnd";

    // Vector extremes, magnitudes, logic.
    VmaxB             VectorAlu V62 [d V, u V, u V] "{0}.b = vmax({1}.b,{2}.b)";
    VmaxUb            VectorAlu V62 [d V, u V, u V] "{0}.ub = vmax({1}.ub,{2}.ub)";
    VmaxH             VectorAlu V62 [d V, u V, u V] "{0}.h = vmax({1}.h,{2}.h)";
    VmaxUh            VectorAlu V62 [d V, u V, u V] "{0}.uh = vmax({1}.uh,{2}.uh)";
    VmaxW             VectorAlu V62 [d V, u V, u V] "{0}.w = vmax({1}.w,{2}.w)";
    VminB             VectorAlu V62 [d V, u V, u V] "{0}.b = vmin({1}.b,{2}.b)";
    VminUb            VectorAlu V62 [d V, u V, u V] "{0}.ub = vmin({1}.ub,{2}.ub)";
    VminH             VectorAlu V62 [d V, u V, u V] "{0}.h = vmin({1}.h,{2}.h)";
    VminUh            VectorAlu V62 [d V, u V, u V] "{0}.uh = vmin({1}.uh,{2}.uh)";
    VminW             VectorAlu V62 [d V, u V, u V] "{0}.w = vmin({1}.w,{2}.w)";
    VabsB             VectorAlu V65 [d V, u V] "{0}.b = vabs({1}.b)";
    VabsH             VectorAlu V62 [d V, u V] "{0}.h = vabs({1}.h)";
    VabsW             VectorAlu V62 [d V, u V] "{0}.w = vabs({1}.w)";
    VabsHSaturate     VectorAlu V62 [d V, u V] "{0}.h = vabs({1}.h):sat";
    VabsWSaturate     VectorAlu V62 [d V, u V] "{0}.w = vabs({1}.w):sat";
    VabsDiffUb        VectorMultiply V62 [d V, u V, u V] "{0}.ub = vabsdiff({1}.ub,{2}.ub)";
    Vand              VectorAlu V62 [d V, u V, u V] "{0} = vand({1},{2})";
    Vor               VectorAlu V62 [d V, u V, u V] "{0} = vor({1},{2})";
    Vxor              VectorAlu V62 [d V, u V, u V] "{0} = vxor({1},{2})";
    Vnot              VectorAlu V62 [d V, u V] "{0} = vnot({1})";

    // Vector comparisons, predicates, selection.
    VcompareEqB       VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.eq({1}.b,{2}.b)";
    VcompareEqH       VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.eq({1}.h,{2}.h)";
    VcompareEqW       VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.eq({1}.w,{2}.w)";
    VcompareGtB       VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.gt({1}.b,{2}.b)";
    VcompareGtUb      VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.gt({1}.ub,{2}.ub)";
    VcompareGtH       VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.gt({1}.h,{2}.h)";
    VcompareGtUh      VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.gt({1}.uh,{2}.uh)";
    VcompareGtW       VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.gt({1}.w,{2}.w)";
    VcompareGtUw      VectorAlu V62 [d Q, u V, u V] "{0} = vcmp.gt({1}.uw,{2}.uw)";
    QAnd              VectorAluPair V62 [d Q, u Q, u Q] "{0} = and({1},{2})";
    QOr               VectorAluPair V62 [d Q, u Q, u Q] "{0} = or({1},{2})";
    QXor              VectorAluPair V62 [d Q, u Q, u Q] "{0} = xor({1},{2})";
    QNot              VectorAlu V62 [d Q, u Q] "{0} = not({1})";
    Vsetq             VectorPermute V62 [d Q, u R] "{0} = vsetq({1})";
    Vsetq2            VectorPermute V62 [d Q, u R] "{0} = vsetq2({1})";
    VandQR            VectorMultiply V62 [d V, u Q, u R] "{0} = vand({1},{2})";
    QandVR            VectorMultiply V62 [d Q, u V, u R] "{0} = vand({1},{2})";
    Vmux              VectorAlu V62 [d V, u Q, u V, u V] "{0} = vmux({1},{2},{3})";
    VaddWIfQ          VectorAlu V62 [x V, u Q, u V] "if ({1}) {0}.w += {2}.w";
    VaddWIfNotQ       VectorAlu V62 [x V, u Q, u V] "if (!{1}) {0}.w += {2}.w";
    VsubWIfQ          VectorAlu V62 [x V, u Q, u V] "if ({1}) {0}.w -= {2}.w";
    VaddHIfQ          VectorAlu V62 [x V, u Q, u V] "if ({1}) {0}.h += {2}.h";
    VaddBIfQ          VectorAlu V62 [x V, u Q, u V] "if ({1}) {0}.b += {2}.b";

    // Dot products. `Ub` then `B`: the vector's lanes unsigned, the second operand's signed; `v` marks two vectors.
    VrmpyUbUb         VectorMultiply V62 [d V, u V, u R] "{0}.uw = vrmpy({1}.ub,{2}.ub)";
    VrmpyUbUbAccumulate VectorMultiply V62 [x V, u V, u R] "{0}.uw += vrmpy({1}.ub,{2}.ub)";
    VrmpyUbB          VectorMultiply V62 [d V, u V, u R] "{0}.w = vrmpy({1}.ub,{2}.b)";
    VrmpyUbBAccumulate VectorMultiply V62 [x V, u V, u R] "{0}.w += vrmpy({1}.ub,{2}.b)";
    VrmpyUbUbv        VectorMultiply V62 [d V, u V, u V] "{0}.uw = vrmpy({1}.ub,{2}.ub)";
    VrmpyUbUbvAccumulate VectorMultiplyWide V62 [x V, u V, u V] "{0}.uw += vrmpy({1}.ub,{2}.ub)";
    VrmpyUbBv         VectorMultiply V62 [d V, u V, u V] "{0}.w = vrmpy({1}.ub,{2}.b)";
    VrmpyUbBvAccumulate VectorMultiplyWide V62 [x V, u V, u V] "{0}.w += vrmpy({1}.ub,{2}.b)";
    VrmpyBBv          VectorMultiply V62 [d V, u V, u V] "{0}.w = vrmpy({1}.b,{2}.b)";
    VrmpyBBvAccumulate VectorMultiplyWide V62 [x V, u V, u V] "{0}.w += vrmpy({1}.b,{2}.b)";
    VrmpyUbBPair      VectorMultiplyPair V62 [d VV, u VV, u R, u U1] "{0}.w = vrmpy({1}.ub,{2}.b,{3})";
    VrmpyUbBPairAccumulate VectorMultiplyPair V62 [x VV, u VV, u R, u U1] "{0}.w += vrmpy({1}.ub,{2}.b,{3})";
    VdmpyUbB          VectorMultiply V62 [d V, u V, u R] "{0}.h = vdmpy({1}.ub,{2}.b)";
    VdmpyUbBAccumulate VectorMultiply V62 [x V, u V, u R] "{0}.h += vdmpy({1}.ub,{2}.b)";
    VdmpyHB           VectorMultiply V62 [d V, u V, u R] "{0}.w = vdmpy({1}.h,{2}.b)";
    VdmpyHBAccumulate VectorMultiply V62 [x V, u V, u R] "{0}.w += vdmpy({1}.h,{2}.b)";
    VdmpyHHSaturate   VectorMultiplyWide V62 [d V, u V, u R] "{0}.w = vdmpy({1}.h,{2}.h):sat";
    VdmpyHHv          VectorMultiplyWide V62 [d V, u V, u V] "{0}.w = vdmpy({1}.h,{2}.h):sat";
    VdmpyHHvAccumulate VectorMultiplyPair V62 [x V, u V, u V] "{0}.w += vdmpy({1}.h,{2}.h):sat";

    // Products. Widening ones put even lanes in the low vector, odd ones in the high vector.
    VmpyUbB           VectorMultiplyPair V62 [d VV, u V, u R] "{0}.h = vmpy({1}.ub,{2}.b)";
    VmpyUbBAccumulate VectorMultiplyPair V62 [x VV, u V, u R] "{0}.h += vmpy({1}.ub,{2}.b)";
    VmpyHH            VectorMultiplyPair V62 [d VV, u V, u R] "{0}.w = vmpy({1}.h,{2}.h)";
    VmpyHHSaturateAccumulate VectorMultiplyPair V62 [x VV, u V, u R] "{0}.w += vmpy({1}.h,{2}.h):sat";
    VmpyBBv           VectorMultiplyPair V62 [d VV, u V, u V] "{0}.h = vmpy({1}.b,{2}.b)";
    VmpyBBvAccumulate VectorMultiplyPair V62 [x VV, u V, u V] "{0}.h += vmpy({1}.b,{2}.b)";
    VmpyUbBv          VectorMultiplyPair V62 [d VV, u V, u V] "{0}.h = vmpy({1}.ub,{2}.b)";
    VmpyUbBvAccumulate VectorMultiplyPair V62 [x VV, u V, u V] "{0}.h += vmpy({1}.ub,{2}.b)";
    VmpyUbUbv         VectorMultiplyPair V62 [d VV, u V, u V] "{0}.uh = vmpy({1}.ub,{2}.ub)";
    VmpyHHv           VectorMultiplyPair V62 [d VV, u V, u V] "{0}.w = vmpy({1}.h,{2}.h)";
    VmpyHHvAccumulate VectorMultiplyPair V62 [x VV, u V, u V] "{0}.w += vmpy({1}.h,{2}.h)";
    VmpyHUhv          VectorMultiplyPair V62 [d VV, u V, u V] "{0}.w = vmpy({1}.h,{2}.uh)";
    VmpyUhUhv         VectorMultiplyPair V62 [d VV, u V, u V] "{0}.uw = vmpy({1}.uh,{2}.uh)";
    VmpyiH            VectorMultiplyPair V62 [d V, u V, u V] "{0}.h = vmpyi({1}.h,{2}.h)";
    VmpyiHAccumulate  VectorMultiplyPair V62 [x V, u V, u V] "{0}.h += vmpyi({1}.h,{2}.h)";
    VmpyiHB           VectorMultiply V62 [d V, u V, u R] "{0}.h = vmpyi({1}.h,{2}.b)";
    VmpyiWB           VectorMultiply V62 [d V, u V, u R] "{0}.w = vmpyi({1}.w,{2}.b)";
    VmpyiWBAccumulate VectorMultiply V62 [x V, u V, u R] "{0}.w += vmpyi({1}.w,{2}.b)";
    VmpyiWUb          VectorMultiply V62 [d V, u V, u R] "{0}.w = vmpyi({1}.w,{2}.ub)";
    VmpyiWH           VectorMultiplyPair V62 [d V, u V, u R] "{0}.w = vmpyi({1}.w,{2}.h)";
    VmpyiWHAccumulate VectorMultiplyPair V62 [x V, u V, u R] "{0}.w += vmpyi({1}.w,{2}.h)";
    VmpyieWUh         VectorMultiplyPair V62 [d V, u V, u V] "{0}.w = vmpyie({1}.w,{2}.uh)";
    VmpyieWUhAccumulate VectorMultiplyPair V62 [x V, u V, u V] "{0}.w += vmpyie({1}.w,{2}.uh)";
    VmpyioWH          VectorMultiplyPair V62 [d V, u V, u V] "{0}.w = vmpyio({1}.w,{2}.h)";
    VmpyieoH          VectorMultiply V62 [d V, u V, u V] "{0}.w = vmpyieo({1}.h,{2}.h)";
    VmpyeWUh          VectorMultiplyPair V62 [d V, u V, u V] "{0}.w = vmpye({1}.w,{2}.uh)";
    VmpyoWHShiftRoundSaturate VectorMultiplyPair V62 [d V, u V, u V] "{0}.w = vmpyo({1}.w,{2}.h):<<1:rnd:sat";
    VmpyoWHShiftRoundAccumulate VectorMultiplyPair V62 [x V, u V, u V] "{0}.w += vmpyo({1}.w,{2}.h):<<1:rnd:sat:shift";
    VmpyeD            VectorMultiplyPair V62 [d VV, u V, u V] "{0} = vmpye({1}.w,{2}.uh)";
    VmpyoDAccumulate  VectorMultiplyPair V62 [x VV, u V, u V] "{0} += vmpyo({1}.w,{2}.h)";

    // Shifts. By a scalar, every lane alike (low bits of the scalar); by a vector, each lane its own, negative the other way.
    VaslH             VectorShift V62 [d V, u V, u R] "{0}.h = vasl({1}.h,{2})";
    VaslW             VectorShift V62 [d V, u V, u R] "{0}.w = vasl({1}.w,{2})";
    VaslWAccumulate   VectorShift V62 [x V, u V, u R] "{0}.w += vasl({1}.w,{2})";
    VasrH             VectorShift V62 [d V, u V, u R] "{0}.h = vasr({1}.h,{2})";
    VasrW             VectorShift V62 [d V, u V, u R] "{0}.w = vasr({1}.w,{2})";
    VasrWAccumulate   VectorShift V62 [x V, u V, u R] "{0}.w += vasr({1}.w,{2})";
    VlsrB             VectorShift V62 [d V, u V, u R] "{0}.ub = vlsr({1}.ub,{2})";
    VlsrH             VectorShift V62 [d V, u V, u R] "{0}.uh = vlsr({1}.uh,{2})";
    VlsrW             VectorShift V62 [d V, u V, u R] "{0}.uw = vlsr({1}.uw,{2})";
    VaslHv            VectorShift V62 [d V, u V, u V] "{0}.h = vasl({1}.h,{2}.h)";
    VaslWv            VectorShift V62 [d V, u V, u V] "{0}.w = vasl({1}.w,{2}.w)";
    VasrHv            VectorShift V62 [d V, u V, u V] "{0}.h = vasr({1}.h,{2}.h)";
    VasrWv            VectorShift V62 [d V, u V, u V] "{0}.w = vasr({1}.w,{2}.w)";
    VlsrHv            VectorShift V62 [d V, u V, u V] "{0}.h = vlsr({1}.h,{2}.h)";
    VlsrWv            VectorShift V62 [d V, u V, u V] "{0}.w = vlsr({1}.w,{2}.w)";
    VcountZerosH      VectorShift V62 [d V, u V] "{0}.uh = vcl0({1}.uh)";
    VcountZerosW      VectorShift V62 [d V, u V] "{0}.uw = vcl0({1}.uw)";
    VnormAmountW      VectorShift V62 [d V, u V] "{0}.w = vnormamt({1}.w)";
    VpopCountH        VectorShift V62 [d V, u V] "{0}.h = vpopcount({1}.h)";

    // Narrowing: even lanes come from the second operand, odd ones from the first.
    VasrWHSaturate    VectorShift V62 [d V, u V, u V, u R8] "{0}.h = vasr({1}.w,{2}.w,{3}):sat";
    VasrWHRoundSaturate VectorShift V62 [d V, u V, u V, u R8] "{0}.h = vasr({1}.w,{2}.w,{3}):rnd:sat";
    VasrWH            VectorShift V62 [d V, u V, u V, u R8] "{0}.h = vasr({1}.w,{2}.w,{3})";
    VasrWUhSaturate   VectorShift V62 [d V, u V, u V, u R8] "{0}.uh = vasr({1}.w,{2}.w,{3}):sat";
    VasrWUhRoundSaturate VectorShift V62 [d V, u V, u V, u R8] "{0}.uh = vasr({1}.w,{2}.w,{3}):rnd:sat";
    VasrHBSaturate    VectorShift V62 [d V, u V, u V, u R8] "{0}.b = vasr({1}.h,{2}.h,{3}):sat";
    VasrHBRoundSaturate VectorShift V62 [d V, u V, u V, u R8] "{0}.b = vasr({1}.h,{2}.h,{3}):rnd:sat";
    VasrHUbSaturate   VectorShift V62 [d V, u V, u V, u R8] "{0}.ub = vasr({1}.h,{2}.h,{3}):sat";
    VasrHUbRoundSaturate VectorShift V62 [d V, u V, u V, u R8] "{0}.ub = vasr({1}.h,{2}.h,{3}):rnd:sat";
    VroundWH          VectorShift V62 [d V, u V, u V] "{0}.h = vround({1}.w,{2}.w):sat";
    VroundHB          VectorShift V62 [d V, u V, u V] "{0}.b = vround({1}.h,{2}.h):sat";
    VroundHUb         VectorShift V62 [d V, u V, u V] "{0}.ub = vround({1}.h,{2}.h):sat";
    VsatWH            VectorAlu V62 [d V, u V, u V] "{0}.h = vsat({1}.w,{2}.w)";
    VsatHUb           VectorAlu V62 [d V, u V, u V] "{0}.ub = vsat({1}.h,{2}.h)";

    // Packing: the low half comes from the second operand, the high half from the first.
    VpackeB           VectorPermute V62 [d V, u V, u V] "{0}.b = vpacke({1}.h,{2}.h)";
    VpackeH           VectorPermute V62 [d V, u V, u V] "{0}.h = vpacke({1}.w,{2}.w)";
    VpackoB           VectorPermute V62 [d V, u V, u V] "{0}.b = vpacko({1}.h,{2}.h)";
    VpackoH           VectorPermute V62 [d V, u V, u V] "{0}.h = vpacko({1}.w,{2}.w)";
    VpackHBSaturate   VectorPermute V62 [d V, u V, u V] "{0}.b = vpack({1}.h,{2}.h):sat";
    VpackHUbSaturate  VectorPermute V62 [d V, u V, u V] "{0}.ub = vpack({1}.h,{2}.h):sat";
    VpackWHSaturate   VectorPermute V62 [d V, u V, u V] "{0}.h = vpack({1}.w,{2}.w):sat";
    VpackWUhSaturate  VectorPermute V62 [d V, u V, u V] "{0}.uh = vpack({1}.w,{2}.w):sat";

    // Widening: `Vzxt`, `Vsxt` split even and odd lanes; `Vunpack` keeps the order.
    VzxtB             VectorAluPair V62 [d VV, u V] "{0}.uh = vzxt({1}.ub)";
    VzxtH             VectorAluPair V62 [d VV, u V] "{0}.uw = vzxt({1}.uh)";
    VsxtB             VectorAluPair V62 [d VV, u V] "{0}.h = vsxt({1}.b)";
    VsxtH             VectorAluPair V62 [d VV, u V] "{0}.w = vsxt({1}.h)";
    VunpackUb         VectorPermuteShift V62 [d VV, u V] "{0}.uh = vunpack({1}.ub)";
    VunpackUh         VectorPermuteShift V62 [d VV, u V] "{0}.uw = vunpack({1}.uh)";
    VunpackB          VectorPermuteShift V62 [d VV, u V] "{0}.h = vunpack({1}.b)";
    VunpackH          VectorPermuteShift V62 [d VV, u V] "{0}.w = vunpack({1}.h)";

    // Permutations.
    VshuffB           VectorPermute V62 [d V, u V] "{0}.b = vshuff({1}.b)";
    VshuffH           VectorPermute V62 [d V, u V] "{0}.h = vshuff({1}.h)";
    VdealB            VectorPermute V62 [d V, u V] "{0}.b = vdeal({1}.b)";
    VdealH            VectorPermute V62 [d V, u V] "{0}.h = vdeal({1}.h)";
    VdealBW           VectorPermute V62 [d V, u V, u V] "{0}.b = vdeale({1}.b,{2}.b)";
    VshuffeB          VectorAlu V62 [d V, u V, u V] "{0}.b = vshuffe({1}.b,{2}.b)";
    VshuffoB          VectorAlu V62 [d V, u V, u V] "{0}.b = vshuffo({1}.b,{2}.b)";
    VshuffeH          VectorAlu V62 [d V, u V, u V] "{0}.h = vshuffe({1}.h,{2}.h)";
    VshuffoH          VectorAlu V62 [d V, u V, u V] "{0}.h = vshuffo({1}.h,{2}.h)";
    VshuffoeB         VectorAluPair V62 [d VV, u V, u V] "{0}.b = vshuffoe({1}.b,{2}.b)";
    VshuffoeH         VectorAluPair V62 [d VV, u V, u V] "{0}.h = vshuffoe({1}.h,{2}.h)";
    Vshuff            VectorPermuteShift V62 [d VV, u V, u V, u R8] "{0} = vshuff({1},{2},{3})";
    Vdeal             VectorPermuteShift V62 [d VV, u V, u V, u R8] "{0} = vdeal({1},{2},{3})";
    Valign            VectorPermute V62 [d V, u V, u V, u R8] "{0} = valign({1},{2},{3})";
    ValignImmediate   VectorPermute V62 [d V, u V, u V, u U3] "{0} = valign({1},{2},{3})";
    Vlalign           VectorPermute V62 [d V, u V, u V, u R8] "{0} = vlalign({1},{2},{3})";
    VlalignImmediate  VectorPermute V62 [d V, u V, u V, u U3] "{0} = vlalign({1},{2},{3})";
    Vror              VectorPermute V62 [d V, u V, u R] "{0} = vror({1},{2})";
    Vdelta            VectorPermute V62 [d V, u V, u V] "{0} = vdelta({1},{2})";
    Vrdelta           VectorPermute V62 [d V, u V, u V] "{0} = vrdelta({1},{2})";
    Vlut32            VectorPermute V62 [d V, u V, u V, u U3] "{0}.b = vlut32({1}.b,{2}.b,{3})";
    Vlut32Or          VectorPermuteShift V62 [x V, u V, u V, u U3] "{0}.b |= vlut32({1}.b,{2}.b,{3})";
}
