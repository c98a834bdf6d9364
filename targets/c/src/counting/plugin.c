/* A plugin of qemu's user-mode emulation that counts executed instructions. The program marks a
 * place by the system call 32343 (which no kernel has) with a number as its argument; the plugin
 * writes a line `trainc-mark NUMBER COUNT`, with the count so far, to standard error.
 *
 * The declarations are those of version 1 of the plugin interface, as far as they are used, so that
 * no header of qemu is needed. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef void tb_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void system_call(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t a1,
    uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_translated *callback);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb,
    enum qemu_plugin_op op, void *counter, uint64_t amount);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, system_call *callback);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);

int qemu_plugin_version = 1;
static uint64_t executed;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &executed,
        qemu_plugin_tb_n_insns(tb));
}

static void called(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t a1,
    uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)vcpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number == 32343) {
        fprintf(stderr, "trainc-mark %" PRIu32 " %" PRIu64 "\n", (uint32_t)a1, executed);
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
