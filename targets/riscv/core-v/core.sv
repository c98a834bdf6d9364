// The pins of RI5CY that ../rtl/core.cpp drives, on a CV32E40P with its CORE-V instructions.
module riscv_core (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        clock_en_i,
    input  logic        fetch_enable_i,
    input  logic [31:0] boot_addr_i,

    output logic        instr_req_o,
    input  logic        instr_gnt_i,
    input  logic        instr_rvalid_i,
    output logic [31:0] instr_addr_o,
    input  logic [31:0] instr_rdata_i,

    output logic        data_req_o,
    input  logic        data_gnt_i,
    input  logic        data_rvalid_i,
    output logic        data_we_o,
    output logic [ 3:0] data_be_o,
    output logic [31:0] data_addr_o,
    output logic [31:0] data_wdata_o,
    input  logic [31:0] data_rdata_i,

    // The instruction that leaves decoding in this cycle.
    output logic        ivalid_o,
    output logic [31:0] iaddr_o,
    output logic [31:0] instr_o
);
  cv32e40p_core #(
      .COREV_PULP(1),
      .COREV_CLUSTER(0),
      .FPU(0)
  ) core (
      .clk_i,
      .rst_ni,
      .pulp_clock_en_i(clock_en_i),
      .scan_cg_en_i(1'b0),
      .boot_addr_i,
      .mtvec_addr_i(boot_addr_i),
      .dm_halt_addr_i('0),
      .dm_exception_addr_i('0),
      .hart_id_i('0),
      .instr_req_o,
      .instr_gnt_i,
      .instr_rvalid_i,
      .instr_addr_o,
      .instr_rdata_i,
      .data_req_o,
      .data_gnt_i,
      .data_rvalid_i,
      .data_we_o,
      .data_be_o,
      .data_addr_o,
      .data_wdata_o,
      .data_rdata_i,
      .apu_busy_o(),
      .apu_req_o(),
      .apu_gnt_i(1'b0),
      .apu_operands_o(),
      .apu_op_o(),
      .apu_flags_o(),
      .apu_rvalid_i(1'b0),
      .apu_result_i('0),
      .apu_flags_i('0),
      .irq_i('0),
      .irq_ack_o(),
      .irq_id_o(),
      .debug_req_i(1'b0),
      .debug_havereset_o(),
      .debug_running_o(),
      .debug_halted_o(),
      .fetch_enable_i,
      .core_sleep_o()
  );

  assign ivalid_o = core.id_valid & core.is_decoding;
  assign iaddr_o  = core.pc_id;
  assign instr_o  = core.instr_rdata_id;
endmodule
