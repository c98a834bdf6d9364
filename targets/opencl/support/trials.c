/* What `trainc tune` and `trainc bench` add to a program: each call launches the kernels as the next lines of a file say, or as they were
 * tuned if there is none, and writes to another file how long each took, and each launch of the entry. */
#define _POSIX_C_SOURCE 199309L
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include "trainc_opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __APPLE__
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif

static FILE *plan, *times;
/* The launches of a call: kernels and events. */
static struct {
    uint32_t kernel, launch;
    cl_event event;
} *launches;
static size_t launched, room;
/* Launches up to here have their numbers. */
static size_t numbered;
static int is_open;
static struct timespec began;

static FILE *opened(const char *variable, const char *mode)
{
    const char *const name = getenv(variable);
    FILE *const file = name != NULL ? fopen(name, mode) : NULL;
    if (file == NULL) {
        trainc_opencl_end("the files of the trials cannot be opened");
    }
    return file;
}

void trainc_trial_begins(struct trainc_opencl *cl)
{
    if (!is_open) {
        char name[256] = "";
        is_open = 1;
        plan = getenv("TRAINC_TUNING_PLAN") != NULL ? opened("TRAINC_TUNING_PLAN", "r") : NULL;
        times = opened("TRAINC_TUNING_TIMES", "w");
        clGetDeviceInfo(cl->device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
        fprintf(times, "%s\n", name);
    }
    for (uint32_t k = 0; plan != NULL && k < cl->count; k++) {
        unsigned variant, x, y, z;
        if (fscanf(plan, "%u %u %u %u", &variant, &x, &y, &z) != 4) {
            trainc_opencl_end("the plan of the trials ends too early");
        }
        cl->tuning[k] = (struct trainc_tuning){ variant, { x, y, z } };
    }
    launched = numbered = 0;
    clock_gettime(CLOCK_MONOTONIC, &began);
}

void trainc_trial_launched(uint32_t kernel, struct _cl_event *event)
{
    if (launched == room) {
        room = 2 * room + 64;
        launches = realloc(launches, room * sizeof *launches);
        if (launches == NULL) {
            trainc_opencl_end("no memory for the times of launches");
        }
    }
    launches[launched].kernel = kernel;
    launches[launched].event = event;
    launched++;
}

void trainc_trial_reached(uint32_t launch)
{
    for (; numbered < launched; numbered++) {
        launches[numbered].launch = launch;
    }
}

/* Nanoseconds that a kernel ran. */
static unsigned long long duration(cl_event event)
{
    cl_ulong from = 0, to = 0;
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL);
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL);
    return to - from;
}

void trainc_trial_ends(struct trainc_opencl *cl)
{
    struct timespec ended;
    clFinish(cl->queue);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    fprintf(times, "%lld", (long long)(ended.tv_sec - began.tv_sec) * 1000000000 + ended.tv_nsec - began.tv_nsec);
    for (uint32_t k = 0; k < cl->count; k++) {
        unsigned long long sum = 0;
        int refused = 0;
        for (size_t at = 0; at < launched; at++) {
            if (launches[at].kernel != k) {
                continue;
            }
            if (launches[at].event == NULL) {
                refused = 1;
                continue;
            }
            sum += duration(launches[at].event);
        }
        fprintf(times, refused ? " -" : " %llu", sum);
    }
    /* Behind the kernels: launches that ran, each with its number. */
    fprintf(times, " |");
    for (size_t at = 0; at < numbered;) {
        const uint32_t launch = launches[at].launch;
        unsigned long long sum = 0;
        for (; at < numbered && launches[at].launch == launch; at++) {
            sum += launches[at].event != NULL ? duration(launches[at].event) : 0;
        }
        fprintf(times, " %u:%llu", (unsigned)launch, sum);
    }
    for (size_t at = 0; at < launched; at++) {
        if (launches[at].event != NULL) {
            clReleaseEvent(launches[at].event);
        }
    }
    fprintf(times, "\n");
    fflush(times);
}
