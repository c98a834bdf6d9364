/* See trainc_opencl.h. */
#include "trainc_opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif

/* Platforms, and devices of each, that are looked at. */
enum { PLATFORMS = 16, DEVICES = 16 };

/* Names the folder that built programs are kept in. */
#define TRAINC_OPENCL_CACHE "TRAINC_OPENCL_CACHE"

#define START UINT64_C(0xcbf29ce484222325)

#define INSTALL "OpenCL needs a driver: on Debian, `apt-get install pocl-opencl-icd` is one for the processor"

void trainc_opencl_end(const char *message)
{
    fprintf(stderr, "%s\n", message);
    exit(1);
}

/* Says what OpenCL refused. */
static const char *refused(struct trainc_opencl *cl, const char *call, cl_int code)
{
    snprintf(cl->message, sizeof cl->message, "OpenCL: %s: error %d", call, (int)code);
    return cl->message;
}

static void check(struct trainc_opencl *cl, const char *call, cl_int code)
{
    if (code != CL_SUCCESS) {
        TRAINC_OPENCL_FAILED(refused(cl, call, code));
    }
}

/* Why a device cannot run the program to the bit; NULL if it can. */
static const char *unsuited(const struct trainc_opencl *cl, cl_device_id device)
{
    cl_bool yes = CL_FALSE;
    cl_device_fp_config floats = 0;
    char profile[64] = "";
    clGetDeviceInfo(device, CL_DEVICE_AVAILABLE, sizeof yes, &yes, NULL);
    if (!yes) {
        return "it is not available";
    }
    clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof yes, &yes, NULL);
    if (!yes) {
        return "it has no compiler";
    }
    clGetDeviceInfo(device, CL_DEVICE_ENDIAN_LITTLE, sizeof yes, &yes, NULL);
    if (!yes) {
        return "it is big-endian";
    }
    clGetDeviceInfo(device, CL_DEVICE_PROFILE, sizeof profile, profile, NULL);
    if (strcmp(profile, "FULL_PROFILE") != 0) {
        return "it has the embedded profile, which rounds as it likes";
    }
    clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL);
    const cl_device_fp_config needed = CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN | CL_FP_DENORM;
    if (cl->floats && (floats & needed) != needed) {
        return "its floats lack denormal numbers, infinities or rounding to nearest";
    }
    return NULL;
}

/* Finds a device: a GPU before an accelerator before a processor, the first of a kind. */
static const char *find(struct trainc_opencl *cl)
{
    static const cl_device_type kinds[] = {
        CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU,
    };
    cl_platform_id platforms[PLATFORMS];
    cl_uint platform_count = 0;
    const char *why = NULL;
    if (clGetPlatformIDs(PLATFORMS, platforms, &platform_count) != CL_SUCCESS) {
        return "there is no OpenCL platform. " INSTALL;
    }
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        for (cl_uint p = 0; p < platform_count && p < PLATFORMS; p++) {
            cl_device_id devices[DEVICES];
            cl_uint count = 0;
            if (clGetDeviceIDs(platforms[p], kinds[kind], DEVICES, devices, &count) != CL_SUCCESS) {
                continue;
            }
            for (cl_uint d = 0; d < count && d < DEVICES; d++) {
                const char *const reason = unsuited(cl, devices[d]);
                if (reason == NULL) {
                    cl->device = devices[d];
                    return NULL;
                }
                why = reason;
            }
        }
    }
    if (why == NULL) {
        return "no OpenCL platform has a device (PoCL has none if it cannot write its cache, which POCL_CACHE_DIR names). "
            INSTALL;
    }
    snprintf(cl->message, sizeof cl->message, "no OpenCL device suits; of the last one: %s", why);
    return cl->message;
}

/* A fingerprint of bytes, which goes on from another (FNV-1a). */
static uint64_t fingerprint(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        hash = (hash ^ ((const unsigned char *)bytes)[at]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* The file that a built program is kept in, named by all that it depends on; 0 if none is wanted. */
static int cache_file(const struct trainc_opencl *cl, const char *options, char *path, size_t size)
{
    const char *const folder = getenv(TRAINC_OPENCL_CACHE);
    static const cl_device_info names[] = {
        CL_DEVICE_VENDOR, CL_DEVICE_NAME, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
    };
    uint64_t hash = START;
    if (folder == NULL || folder[0] == '\0') {
        return 0;
    }
    for (size_t part = 0; part < cl->lines + 1 + sizeof names / sizeof names[0]; part++) {
        char name[256] = "";
        const char *text = options;
        if (part < cl->lines) {
            text = cl->source[part];
        } else if (part > cl->lines) {
            clGetDeviceInfo(cl->device, names[part - cl->lines - 1], sizeof name - 1, name, NULL);
            text = name;
        }
        hash = fingerprint(hash, text, strlen(text) + 1);
    }
    const int length = snprintf(path, size, "%s/%08lx%08lx.clbin", folder,
        (unsigned long)(hash >> 32), (unsigned long)(hash & 0xffffffff));
    return length > 0 && (size_t)length < size;
}

/* Takes a built program out of a file, behind its fingerprint: drivers end the process over a damaged one. Whether that went
 * well. */
static int load_program(struct trainc_opencl *cl, const char *path, const char *options)
{
    FILE *const file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    uint64_t hash = 0;
    cl_int code = CL_INVALID_BINARY, status = CL_INVALID_BINARY;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        const long length = ftell(file);
        const size_t size = length > (long)sizeof hash ? (size_t)length - sizeof hash : 0;
        rewind(file);
        bytes = size > 0 ? malloc(size) : NULL;
        if (bytes != NULL && fread(&hash, sizeof hash, 1, file) == 1
            && fread(bytes, 1, size, file) == size && fingerprint(START, bytes, size) == hash) {
            const unsigned char *all = bytes;
            cl->program = clCreateProgramWithBinary(cl->context, 1, &cl->device, &size, &all,
                &status, &code);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    free(bytes);
    if (code == CL_SUCCESS && status == CL_SUCCESS
        && clBuildProgram(cl->program, 1, &cl->device, options, NULL, NULL) == CL_SUCCESS) {
        return 1;
    }
    if (code == CL_SUCCESS) {
        clReleaseProgram(cl->program);
    }
    cl->program = NULL;
    return 0;
}

/* Keeps a built program in a file, which appears whole; without one it is built again the next time. */
static void save_program(const struct trainc_opencl *cl, const char *path)
{
    size_t size = 0;
    char draft[1100];
    clGetProgramInfo(cl->program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    unsigned char *bytes = size > 0 ? malloc(size) : NULL;
    const int length = snprintf(draft, sizeof draft, "%s.%lx", path, (unsigned long)(uintptr_t)bytes);
    if (bytes != NULL && length > 0 && (size_t)length < sizeof draft
        && clGetProgramInfo(cl->program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) == CL_SUCCESS) {
        FILE *const file = fopen(draft, "wb");
        const uint64_t hash = fingerprint(START, bytes, size);
        const int whole = file != NULL && fwrite(&hash, sizeof hash, 1, file) == 1
            && fwrite(bytes, 1, size, file) == size;
        if (file != NULL && (fclose(file) != 0 || !whole || rename(draft, path) != 0)) {
            remove(draft);
        }
    }
    free(bytes);
}

/* Builds the program of its text; what the compiler says if it refuses it. */
static const char *compile(struct trainc_opencl *cl, const char *options)
{
    cl_int code = CL_SUCCESS;
    cl->program = clCreateProgramWithSource(cl->context, cl->lines, (const char **)cl->source, NULL,
        &code);
    if (code != CL_SUCCESS) {
        return refused(cl, "clCreateProgramWithSource", code);
    }
    code = clBuildProgram(cl->program, 1, &cl->device, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        const size_t used = strlen(refused(cl, "clBuildProgram", code));
        cl->message[used] = '\n';
        char log[sizeof cl->message] = "";
        clGetProgramBuildInfo(cl->program, cl->device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log,
            NULL);
        snprintf(cl->message + used, sizeof cl->message - used, "\n%s", log);
        return cl->message;
    }
    return NULL;
}

/* Builds the program, or takes it as it was built before. */
static const char *build(struct trainc_opencl *cl)
{
    cl_int code = CL_SUCCESS;
    cl_device_fp_config floats = 0;
    clGetDeviceInfo(cl->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL);
    const int rounded = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    const char *const options = rounded
        ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -DTRAINC_ROUNDED_DIVISION"
        : "-cl-std=CL1.2";
    char path[1024];
    const int cached = cache_file(cl, options, path, sizeof path);
    if (!cached || !load_program(cl, path, options)) {
        const char *const why = compile(cl, options);
        if (why != NULL) {
            return why;
        }
        if (cached) {
            save_program(cl, path);
        }
    }
    for (uint32_t k = 0; k < cl->count; k++) {
        cl->kernels[k] = clCreateKernel(cl->program, cl->names[k], &code);
        if (code != CL_SUCCESS) {
            return refused(cl, cl->names[k], code);
        }
    }
    return NULL;
}

/* Takes the memory. */
static const char *allocate(struct trainc_opencl *cl)
{
    static const char *const names[TRAINC_MEMORIES] = {
        "clCreateBuffer: arena", "clCreateBuffer: state", "clCreateBuffer: constants",
        "clCreateBuffer: arguments",
    };
    for (int m = 0; m < TRAINC_MEMORIES; m++) {
        const int constant = m == TRAINC_CONSTANTS && cl->bytes[m] > 0;
        const cl_mem_flags flags = constant ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR
            : CL_MEM_READ_WRITE;
        cl_int code = CL_SUCCESS;
        /* There is no buffer of nothing. */
        cl->memory[m] = clCreateBuffer(cl->context, flags, cl->bytes[m] > 0 ? cl->bytes[m] : 4,
            constant ? (void *)(uintptr_t)cl->constants : NULL, &code);
        if (code != CL_SUCCESS) {
            return refused(cl, names[m], code);
        }
    }
    return NULL;
}

const char *trainc_opencl_open(struct trainc_opencl *cl)
{
    if (cl->is_open) {
        return NULL;
    }
    cl_int code = CL_SUCCESS;
    const char *why = find(cl);
    if (why != NULL) {
        return why;
    }
    cl->context = clCreateContext(NULL, 1, &cl->device, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        return refused(cl, "clCreateContext", code);
    }
#ifdef TRAINC_OPENCL_TRIALS
    cl->queue = clCreateCommandQueue(cl->context, cl->device, CL_QUEUE_PROFILING_ENABLE, &code);
#else
    cl->queue = clCreateCommandQueue(cl->context, cl->device, 0, &code);
#endif
    why = code != CL_SUCCESS ? refused(cl, "clCreateCommandQueue", code) : build(cl);
    why = why != NULL ? why : allocate(cl);
    cl->is_open = 1;
    if (why != NULL) {
        trainc_opencl_close(cl);
    }
    return why;
}

void trainc_opencl_close(struct trainc_opencl *cl)
{
    if (!cl->is_open) {
        return;
    }
    for (int m = 0; m < TRAINC_MEMORIES; m++) {
        if (cl->memory[m] != NULL) {
            clReleaseMemObject(cl->memory[m]);
        }
        cl->memory[m] = NULL;
    }
    for (uint32_t k = 0; k < cl->count; k++) {
        if (cl->kernels[k] != NULL) {
            clReleaseKernel(cl->kernels[k]);
        }
        cl->kernels[k] = NULL;
    }
    if (cl->program != NULL) {
        clReleaseProgram(cl->program);
    }
    if (cl->queue != NULL) {
        clReleaseCommandQueue(cl->queue);
    }
    clReleaseContext(cl->context);
    cl->program = NULL;
    cl->queue = NULL;
    cl->context = NULL;
    cl->is_open = 0;
}

void trainc_opencl_enter(struct trainc_opencl *cl)
{
#ifdef __GNUC__
    while (__sync_lock_test_and_set(&cl->is_taken, 1)) {
    }
#endif
    const char *const why = trainc_opencl_open(cl);
    if (why != NULL) {
        TRAINC_OPENCL_FAILED(why);
    }
#ifdef TRAINC_OPENCL_TRIALS
    trainc_trial_begins(cl);
#endif
}

void trainc_opencl_leave(struct trainc_opencl *cl)
{
#ifdef TRAINC_OPENCL_TRIALS
    trainc_trial_ends(cl);
#endif
#ifdef __GNUC__
    __sync_lock_release(&cl->is_taken);
#else
    (void)cl;
#endif
}

void trainc_opencl_put(struct trainc_opencl *cl, enum trainc_memory memory, uint32_t offset,
    const void *from, size_t bytes)
{
    const cl_int code = clEnqueueWriteBuffer(cl->queue, cl->memory[memory], CL_TRUE, offset, bytes,
        from, 0, NULL, NULL);
    check(cl, "clEnqueueWriteBuffer", code);
}

void trainc_opencl_get(struct trainc_opencl *cl, const struct trainc_result *results, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        const cl_int code = clEnqueueReadBuffer(cl->queue, cl->memory[results[r].memory], CL_TRUE,
            results[r].offset, results[r].bytes, results[r].to, 0, NULL, NULL);
        check(cl, "clEnqueueReadBuffer", code);
    }
}

void trainc_opencl_show(struct trainc_opencl *cl, void *arena, const struct trainc_result *results,
    size_t count)
{
    if (arena != NULL && cl->bytes[TRAINC_ARENA] > 0) {
        const struct trainc_result all = { TRAINC_ARENA, 0, arena, cl->bytes[TRAINC_ARENA] };
        trainc_opencl_get(cl, &all, 1);
    }
    trainc_opencl_get(cl, results, count);
}

int32_t trainc_opencl_word(struct trainc_opencl *cl, enum trainc_memory memory, uint32_t offset)
{
    int32_t word = 0;
    const struct trainc_result result = { memory, offset, &word, sizeof word };
    trainc_opencl_get(cl, &result, 1);
    return word;
}

/* Launches a kernel or a variant of it; what OpenCL says. */
static cl_int launch(struct trainc_opencl *cl, uint32_t kernel, const size_t *group,
    const struct trainc_place *places, uint32_t count, cl_event *event)
{
    const cl_kernel handle = cl->kernels[kernel];
    const size_t *const items = cl->items[kernel];
    for (uint32_t p = 0; p < count; p++) {
        const cl_uint offset = places[p].offset;
        check(cl, cl->names[kernel],
            clSetKernelArg(handle, 2 * p, sizeof(cl_mem), &cl->memory[places[p].memory]));
        check(cl, cl->names[kernel], clSetKernelArg(handle, 2 * p + 1, sizeof offset, &offset));
    }
    const cl_uint dimensions = items[2] > 1 ? 3 : items[1] > 1 ? 2 : 1;
    return clEnqueueNDRangeKernel(cl->queue, handle, dimensions, NULL, items, group, 0, NULL, event);
}

int trainc_opencl_takes(const struct trainc_opencl *cl, uint32_t kernel, uint32_t variant)
{
    return cl->tuning[kernel].variant == variant;
}

void trainc_opencl_part(struct trainc_opencl *cl, uint32_t kernel, uint32_t of,
    const struct trainc_place *places, uint32_t count)
{
#ifdef TRAINC_OPENCL_TRIALS
    cl_event timed = NULL;
    cl_event *const event = &timed;
#else
    cl_event *const event = NULL;
    (void)of;
#endif
    check(cl, cl->names[kernel], launch(cl, kernel, NULL, places, count, event));
#ifdef TRAINC_OPENCL_TRIALS
    trainc_trial_launched(of, timed);
#endif
}

void trainc_opencl_launch(struct trainc_opencl *cl, uint32_t kernel,
    const struct trainc_place *places, uint32_t count)
{
    const struct trainc_tuning tuned = cl->tuning[kernel];
    cl_int code = CL_INVALID_WORK_GROUP_SIZE;
#ifdef TRAINC_OPENCL_TRIALS
    cl_event timed = NULL;
    cl_event *const event = &timed;
    int refused = 0;
#else
    cl_event *const event = NULL;
#endif
    if (tuned.group[0] > 0) {
        code = launch(cl, kernel + tuned.variant, tuned.group, places, count, event);
#ifdef TRAINC_OPENCL_TRIALS
        refused = code != CL_SUCCESS;
#endif
    }
    if (code != CL_SUCCESS) {
        code = launch(cl, kernel, NULL, places, count, event);
    }
    check(cl, cl->names[kernel], code);
#ifdef TRAINC_OPENCL_TRIALS
    trainc_trial_launched(kernel, refused ? NULL : timed);
#endif
}
