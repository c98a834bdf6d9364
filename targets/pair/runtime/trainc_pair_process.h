/* The other device as a process that shares memory with this one: for emulators. */
#ifndef TRAINC_PAIR_PROCESS_H
#define TRAINC_PAIR_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct trainc_pair_process {
    /* The memory that both have. */
    void *window;
    size_t bytes;
    /* 0 if there is none. */
    int process;
    int socket;
    /* Of a segment. */
    int milliseconds;
    uint32_t sequence;
    /* Called after each launch of the other side, which waits, where it was built to tell of launches; NULL
     * at first. */
    void (*launched)(unsigned int launch);
};

/* Starts a command with its arguments, which ends with NULL, on a window of so many bytes: the process has
 * the connection as its standard input and output, and the window as file 3. The window is zeros.
 * TRAINC_PAIR_OK or TRAINC_PAIR_LOST. */
int trainc_pair_start(struct trainc_pair_process *process, size_t bytes, char *const command[],
    int milliseconds);

/* Has it run a segment: the hook of M_connect, whose context is the process. One that fails or is late
 * is killed, so that it writes no more. */
int trainc_pair_run(void *process, uint32_t segment);

/* The same in two: it starts, and this side waits for it; one segment at a time. The hooks of M_overlap. */
int trainc_pair_begin(void *process, uint32_t segment);
int trainc_pair_end(void *process, uint32_t segment);

/* Ends it and gives the window back. */
void trainc_pair_stop(struct trainc_pair_process *process);

#ifdef __cplusplus
}
#endif

#endif
