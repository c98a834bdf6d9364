/* What emitted OpenCL programs need of the host: one device with its kernels and memory.
 *
 * C99; OpenCL's own header, with its many names, is the source's alone. Nothing of it is for callers
 * of a model: see the model's header.
 */
#ifndef TRAINC_OPENCL_H
#define TRAINC_OPENCL_H

#include <stddef.h>
#include <stdint.h>

/* What happens where OpenCL refuses something in the middle of a call: says so and ends the program.
 * Define it to do otherwise, but not to return. */
#ifndef TRAINC_OPENCL_FAILED
#define TRAINC_OPENCL_FAILED(message) trainc_opencl_end(message)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The device's memory: working memory, weights and statistics, constants, arguments of calls. */
enum trainc_memory { TRAINC_ARENA, TRAINC_STATE, TRAINC_CONSTANTS, TRAINC_ARGUMENTS, TRAINC_MEMORIES };

/* A buffer of a kernel: where it begins. */
struct trainc_place {
    enum trainc_memory memory;
    uint32_t offset;
};

/* Bytes of the device's memory that a call gives back. */
struct trainc_result {
    enum trainc_memory memory;
    uint32_t offset;
    void *to;
    size_t bytes;
};

/* How a kernel is launched: the number of a variant, which stand behind it, or 0 for itself; work items of a group along each
 * dimension, all 0 for the driver's choice. */
struct trainc_tuning {
    uint32_t variant;
    size_t group[3];
};

/* OpenCL's objects. */
struct _cl_device_id;
struct _cl_context;
struct _cl_command_queue;
struct _cl_program;
struct _cl_mem;
struct _cl_kernel;

/* A program, and the device on which it runs once it is open. */
struct trainc_opencl {
    /* Lines of OpenCL C, and how many. */
    const char *const *source;
    uint32_t lines;
    /* Names of the kernels, how many, and their handles. */
    const char *const *names;
    uint32_t count;
    struct _cl_kernel **kernels;
    /* Their work items along each dimension, and how they are launched. */
    const size_t (*items)[3];
    struct trainc_tuning *tuning;
    /* Bytes of each memory; what the constants are. */
    size_t bytes[TRAINC_MEMORIES];
    const void *constants;
    /* Whether kernels compute floats. */
    int floats;

    int is_open;
    volatile int is_taken;
    struct _cl_device_id *device;
    struct _cl_context *context;
    struct _cl_command_queue *queue;
    struct _cl_program *program;
    struct _cl_mem *memory[TRAINC_MEMORIES];
    char message[1024];
};

/* Opens the device, if it is not: NULL, or why there is none. */
const char *trainc_opencl_open(struct trainc_opencl *cl);

/* Gives all back. */
void trainc_opencl_close(struct trainc_opencl *cl);

/* Around a call: others wait for it. */
void trainc_opencl_enter(struct trainc_opencl *cl);
void trainc_opencl_leave(struct trainc_opencl *cl);

/* Copies to the device's memory. */
void trainc_opencl_put(struct trainc_opencl *cl, enum trainc_memory memory, uint32_t offset,
    const void *from, size_t bytes);

/* Copies from it, behind all launches so far. */
void trainc_opencl_get(struct trainc_opencl *cl, const struct trainc_result *results, size_t count);

/* What hooks see: the arena, if the caller has memory for it, and results. */
void trainc_opencl_show(struct trainc_opencl *cl, void *arena, const struct trainc_result *results,
    size_t count);

/* A word of it, behind all launches so far. */
int32_t trainc_opencl_word(struct trainc_opencl *cl, enum trainc_memory memory, uint32_t offset);

/* Runs a kernel, behind all launches so far: as it was tuned, or by the driver's choice on a device that refuses that. */
void trainc_opencl_launch(struct trainc_opencl *cl, uint32_t kernel,
    const struct trainc_place *places, uint32_t count);

/* Whether a variant of a kernel is to run in its place that is several kernels; and runs one of those. */
int trainc_opencl_takes(const struct trainc_opencl *cl, uint32_t kernel, uint32_t variant);
void trainc_opencl_part(struct trainc_opencl *cl, uint32_t kernel, uint32_t of,
    const struct trainc_place *places, uint32_t count);

/* Writes to standard error and ends the program with code 1. */
void trainc_opencl_end(const char *message);

#ifdef TRAINC_OPENCL_TRIALS
/* What `trainc tune` and `trainc bench` add to a program: called when a call begins and ends, for each kernel with its event, or NULL
 * where the device refused how it was to be launched, and behind the kernels of a launch with its number. */
struct _cl_event;
void trainc_trial_begins(struct trainc_opencl *cl);
void trainc_trial_launched(uint32_t kernel, struct _cl_event *event);
void trainc_trial_reached(uint32_t launch);
void trainc_trial_ends(struct trainc_opencl *cl);
#endif

#ifdef __cplusplus
}
#endif

#endif
