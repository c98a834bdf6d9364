// Runs a program on a verilated RI5CY (`riscv_core`) with memory that answers at once, as the simulator runs it: the same
// memory map, the same calls of the host (support/start.S passes them on as stores to HOST), the same counts on the
// standard error. Usage: core PROGRAM < input.
//
// Counts: an instruction counts when it leaves decoding (`ivalid_o`). What the trap handler takes does not count; an
// `ecall` counts as one instruction and one cycle.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include "Vriscv_core.h"
#include "verilated.h"

namespace {

constexpr uint32_t base = 0x80000000, size = 64u << 20, host = 0x70000000;
std::vector<uint8_t> memory(size);
uint32_t entry, trap_page;
uint32_t host_registers[4];
uint64_t instructions, cycles;
bool finished;
int exit_code;
FILE *output; // The standard output; what the model itself prints goes to the standard error.

[[noreturn]] void fail(const std::string &reason)
{
    std::fprintf(stderr, "core: %s\n", reason.c_str());
    std::exit(125);
}

uint8_t *at(uint32_t address, uint32_t length)
{
    if (address - base > size || length > size - (address - base))
        fail("no memory at " + std::to_string(address));
    return &memory[address - base];
}

template <typename T> T number(const std::vector<char> &file, size_t offset)
{
    T value;
    if (offset + sizeof value > file.size())
        fail("the program is cut off");
    std::memcpy(&value, file.data() + offset, sizeof value);
    return value;
}

void load(const char *path)
{
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (file.size() < 52 || std::memcmp(file.data(), "\177ELF\1\1", 6) != 0)
        fail(std::string(path) + ": no program");
    entry = number<uint32_t>(file, 24);
    const uint32_t segments = number<uint32_t>(file, 28);
    for (int i = 0; i < number<uint16_t>(file, 44); i++) {
        const size_t segment = segments + size_t(i) * number<uint16_t>(file, 42);
        const uint32_t offset = number<uint32_t>(file, segment + 4), length = number<uint32_t>(file, segment + 16);
        if (number<uint32_t>(file, segment) != 1 || length == 0)
            continue;
        if (size_t(offset) + length > file.size())
            fail("the program is cut off");
        std::memcpy(at(number<uint32_t>(file, segment + 8), length), file.data() + offset, length);
    }
    const uint32_t sections = number<uint32_t>(file, 32), section_size = number<uint16_t>(file, 46);
    for (int i = 0; i < number<uint16_t>(file, 48); i++) {
        const size_t section = sections + size_t(i) * section_size;
        if (number<uint32_t>(file, section + 4) != 2)
            continue;
        const size_t names = number<uint32_t>(file, sections + size_t(number<uint32_t>(file, section + 24)) * section_size + 16);
        const uint32_t first = number<uint32_t>(file, section + 16), length = number<uint32_t>(file, section + 20);
        for (uint32_t symbol = first; symbol < first + length; symbol += 16)
            if (std::strcmp(file.data() + names + number<uint32_t>(file, symbol), "trap") == 0)
                trap_page = number<uint32_t>(file, symbol + 4);
    }
    if (trap_page == 0)
        fail("the program has no `trap`: link it with support/start.S");
}

void call()
{
    const uint32_t a0 = host_registers[0], a1 = host_registers[1], a2 = host_registers[2], a7 = host_registers[3];
    switch (a7) {
    case 63:
        host_registers[0] = a0 == 0 ? uint32_t(std::fread(at(a1, a2), 1, a2, stdin)) : uint32_t(-9);
        break;
    case 64:
        std::fwrite(at(a1, a2), 1, a2, a0 == 2 ? stderr : output);
        host_registers[0] = a2;
        break;
    case 93:
        finished = true;
        exit_code = int(a0);
        break;
    case 500: // One core: parallel regions are executed, their cycles not divided.
    case 501:
    case 502:
        break;
    case 503:
        std::fprintf(stderr, "mark %u %llu %llu\n", a0, (unsigned long long)instructions, (unsigned long long)cycles);
        break;
    default:
        fail("unknown call " + std::to_string(a7));
    }
}

uint32_t read_word(uint32_t address)
{
    uint32_t word;
    if (address - host < 16)
        return host_registers[(address - host) / 4];
    std::memcpy(&word, at(address & ~3u, 4), 4);
    return word;
}

void write_word(uint32_t address, uint32_t word, unsigned enables)
{
    if (address - host < 16) {
        host_registers[(address - host) / 4] = word;
        if (address - host == 12)
            call();
        return;
    }
    uint8_t *place = at(address & ~3u, 4);
    for (int byte = 0; byte < 4; byte++)
        if (enables >> byte & 1)
            place[byte] = uint8_t(word >> (8 * byte));
}

} // namespace

int main(int count, char **arguments)
{
    if (count < 2)
        fail("usage: core PROGRAM");
    output = fdopen(dup(1), "wb");
    dup2(2, 1);
    load(arguments[1]);
    // CORE_TRACE prints the cycle and the address of each instruction.
    const bool trace = std::getenv("CORE_TRACE") != nullptr;
    Vriscv_core core;
    core.clock_en_i = 1;
    core.boot_addr_i = entry;
    core.instr_gnt_i = 1;
    core.data_gnt_i = 1;
    core.fetch_enable_i = 1;
    core.rst_ni = 0;
    uint64_t time = 0, last = 0;
    bool counted = false, trapped = false, called = false;
    while (!finished) {
        core.clk_i = 0;
        core.eval();
        const bool fetches = core.instr_req_o, accesses = core.data_req_o;
        uint32_t instruction = 0, data = 0;
        if (core.rst_ni) {
            if (fetches) // Fetches run ahead of the program's end.
                instruction = core.instr_addr_o - base < size - 4 ? read_word(core.instr_addr_o & ~3u) : 0;
            if (core.ivalid_o) {
                if (core.iaddr_o - trap_page < 4096) {
                    trapped = true;
                } else if (!(called && !trapped)) { // An `ecall` waits for what is before it.
                    instructions++;
                    cycles += counted && !trapped ? time - last : 1;
                    last = time;
                    counted = true;
                    trapped = false;
                    called = core.instr_o == 0x73;
                    if (trace)
                        std::fprintf(stderr, "%llu %08x\n", (unsigned long long)cycles, core.iaddr_o);
                }
            }
            if (accesses && core.data_we_o)
                write_word(core.data_addr_o, core.data_wdata_o, core.data_be_o);
            else if (accesses)
                data = read_word(core.data_addr_o);
        }
        core.clk_i = 1;
        core.eval();
        core.instr_rvalid_i = fetches && core.rst_ni;
        core.instr_rdata_i = instruction;
        core.data_rvalid_i = accesses && core.rst_ni;
        core.data_rdata_i = data;
        if (++time == 4)
            core.rst_ni = 1;
        if (counted && time - last > 100000)
            fail("the core stands still");
    }
    std::fflush(output);
    std::fprintf(stderr, "total %llu %llu\n", (unsigned long long)instructions, (unsigned long long)cycles);
    core.final();
    return exit_code;
}
