/* Trains with a DSP that is lost twice; writes the state after each step. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "trainc_pair.h"
#include "trainc_pair_process.h"

@OPERANDS@
enum { STEPS = @STEPS@, KILLED = @KILLED@, STALLED = @STALLED@, PATTERN = 0xa5 };

static unsigned char arena[1], results[@RESULTS@] __attribute__((aligned(16)));
static unsigned char state[DIGITS_STATE_BYTES] __attribute__((aligned(128))), before[sizeof state];
static struct trainc_pair_process partner;
static char **command;
/* Which segment of a step loses the DSP, and how. */
static int victim, signal_sent, segments;

static int run(void *context, uint32_t segment)
{
    if (++segments == victim) {
        kill(partner.process, signal_sent);
        /* A process that stopped is not waited for as long as one that computes. */
        partner.milliseconds = signal_sent == SIGSTOP ? 500 : partner.milliseconds;
    }
    return trainc_pair_run(context, segment);
}

static void fail(const char *why, int step)
{
    fprintf(stderr, "step %d: %s, status %d\n", step, why, digits_status());
    exit(1);
}

static void start(int step)
{
    if (trainc_pair_start(&partner, digits_window_bytes(), command, 60000) != TRAINC_PAIR_OK) {
        fail("the other side does not start", step);
    }
    digits_connect(partner.window, run, &partner);
}

static void call(int step)
{
    segments = 0;
    memset(results, PATTERN, sizeof results);
    memcpy(before, state, sizeof state);
    switch (step) {
@CASES@
    default: break;
    }
}

static void expect(int step, int status)
{
    if (digits_status() != status) {
        fail("another status", step);
    }
    if (status != TRAINC_PAIR_OK) {
        for (size_t i = 0; i < sizeof results; i++) {
            if (results[i] != PATTERN) {
                fail("results of a step that failed", step);
            }
        }
        if (memcmp(before, state, sizeof state) != 0) {
            fail("weights of a step that failed", step);
        }
    } else if (memcmp(before, state, sizeof state) == 0) {
        fail("nothing was learnt", step);
    }
}

int main(int count, char *words[])
{
    (void)count;
    command = words + 1;
    digits_init(state);
    call(0);
    expect(0, TRAINC_PAIR_UNCONNECTED);
    start(0);
    for (int step = 0; step < STEPS; step++) {
        const int lost[] = { 0, SIGKILL, SIGSTOP };
        signal_sent = step < 3 ? lost[step] : 0;
        victim = signal_sent == SIGKILL ? KILLED : signal_sent == SIGSTOP ? STALLED : -1;
        call(step);
        if (signal_sent != 0) {
            const int status = signal_sent == SIGKILL ? TRAINC_PAIR_LOST : TRAINC_PAIR_LATE;
            expect(step, status);
            /* It stays lost until there is another. */
            call(step);
            expect(step, status);
            trainc_pair_stop(&partner);
            victim = -1;
            start(step);
            call(step);
        }
        expect(step, TRAINC_PAIR_OK);
        fwrite(state, 1, sizeof state, stdout);
    }
    /* A window of another program. */
    ((unsigned char *)partner.window)[0] ^= 1;
    call(0);
    expect(STEPS, TRAINC_PAIR_REFUSED);
    trainc_pair_stop(&partner);
    return 0;
}
