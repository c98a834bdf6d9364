/* Starts the other side of @PREFIX@ for trainc verify. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "@PREFIX@.h"
#include "trainc_pair.h"
#include "trainc_pair_process.h"
#include "trainc_rt.h"

/* Rounds to the other side and back that are timed. */
enum { WORDS = 64, MILLISECONDS = 3600000, ROUNDS = 100 };

/* Of the program around: it hears of launches of both sides, and finds their results here. */
void trainc_verify_launched(unsigned int launch);
extern unsigned char *trainc_verify_window;
unsigned char *trainc_verify_window;

static struct trainc_pair_process partner;

static int run(void *context, uint32_t segment)
{
    const int status = trainc_pair_run(context, segment);
    if (status != TRAINC_PAIR_OK) {
        fprintf(stderr, "segment %u: the other side's status is %d\n", (unsigned)segment, status);
        _exit(7);
    }
    return status;
}

#ifndef TRAINC_VERIFY_HOOKS_H
static int begin(void *context, uint32_t segment)
{
    const int status = trainc_pair_begin(context, segment);
    if (status != TRAINC_PAIR_OK) {
        fprintf(stderr, "segment %u: the other side's status is %d\n", (unsigned)segment, status);
        _exit(7);
    }
    return status;
}

static int end(void *context, uint32_t segment)
{
    const int status = trainc_pair_end(context, segment);
    if (status != TRAINC_PAIR_OK) {
        fprintf(stderr, "segment %u: the other side's status is %d\n", (unsigned)segment, status);
        _exit(7);
    }
    return status;
}
#endif

__attribute__((constructor)) static void connect_partner(void)
{
    char *words[WORDS + 1], *command = getenv("@VARIABLE@"), *rest = NULL;
    size_t count = 0;
    if (command == NULL) {
        fprintf(stderr, "@VARIABLE@ names no command\n");
        _exit(8);
    }
    command = strdup(command);
    for (char *word = strtok_r(command, "\n", &rest); word != NULL && count < WORDS;
        word = strtok_r(NULL, "\n", &rest)) {
        words[count++] = word;
    }
    words[count] = NULL;
    if (count == 0
        || trainc_pair_start(&partner, @PREFIX@_window_bytes(), words, MILLISECONDS) != TRAINC_PAIR_OK) {
        fprintf(stderr, "the other side does not start\n");
        _exit(8);
    }
    partner.launched = trainc_verify_launched;
    trainc_verify_window = partner.window;
    @PREFIX@_connect(partner.window, run, &partner);
    /* Launches are compared in their order, one after the other. */
#ifndef TRAINC_VERIFY_HOOKS_H
    @PREFIX@_overlap(begin, end);
#endif
#ifdef TRAINC_PROFILE
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t start = TRAINC_CYCLES();
        (void)run(&partner, TRAINC_PAIR_NOTHING);
        fprintf(stderr, "trainc-time switch %llu\n",
            (unsigned long long)((TRAINC_CYCLES() - start) / 2));
    }
#endif
}
