/* See the header. For Linux. */
#define _GNU_SOURCE
#include "trainc_pair_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trainc_pair.h"

/* Above the files that the other process gets. */
enum { FILES = 10, WINDOW = 3 };

static int lost(struct trainc_pair_process *p, int status)
{
    if (p->process > 0) {
        kill((pid_t)p->process, SIGKILL);
        while (waitpid((pid_t)p->process, NULL, 0) < 0 && errno == EINTR) {
        }
        close(p->socket);
        p->process = 0;
    }
    return status;
}

int trainc_pair_start(struct trainc_pair_process *p, size_t bytes, char *const command[],
    int milliseconds)
{
    int ends[2] = { -1, -1 }, file = -1;
    p->window = MAP_FAILED;
    p->bytes = bytes;
    p->process = 0;
    p->milliseconds = milliseconds;
    p->sequence = 0;
    p->launched = NULL;
    const int made = memfd_create("trainc-window", MFD_CLOEXEC);
    if (made >= 0 && ftruncate(made, (off_t)bytes) == 0) {
        file = fcntl(made, F_DUPFD_CLOEXEC, FILES);
        p->window = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    }
    if (p->window != MAP_FAILED && file >= 0
        && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        const int other = fcntl(ends[1], F_DUPFD_CLOEXEC, FILES);
        const pid_t process = other < 0 ? -1 : fork();
        if (process == 0) {
            if (dup2(other, 0) == 0 && dup2(other, 1) == 1 && dup2(file, WINDOW) == WINDOW) {
                execvp(command[0], command);
            }
            _exit(127);
        }
        close(ends[1]);
        if (other >= 0) {
            close(other);
        }
        p->process = process > 0 ? (int)process : 0;
        p->socket = ends[0];
        if (p->process == 0) {
            close(ends[0]);
        }
    }
    if (made >= 0) {
        close(made);
    }
    if (file >= 0) {
        close(file);
    }
    if (p->process == 0) {
        trainc_pair_stop(p);
        return TRAINC_PAIR_LOST;
    }
    return TRAINC_PAIR_OK;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int trainc_pair_begin(void *process, uint32_t segment)
{
    struct trainc_pair_process *const p = (struct trainc_pair_process *)process;
    uint32_t request[2];
    if (p->process == 0) {
        return TRAINC_PAIR_LOST;
    }
    /* Number 0 is what the other side tells of launches. */
    p->sequence = p->sequence == UINT32_MAX ? 1 : p->sequence + 1;
    request[0] = p->sequence;
    request[1] = segment;
    if (send(p->socket, request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request) {
        return lost(p, TRAINC_PAIR_LOST);
    }
    return TRAINC_PAIR_OK;
}

int trainc_pair_end(void *process, uint32_t segment)
{
    struct trainc_pair_process *const p = (struct trainc_pair_process *)process;
    uint32_t answer[2];
    size_t done = 0;
    (void)segment;
    if (p->process == 0) {
        return TRAINC_PAIR_LOST;
    }
    int64_t end = now() + p->milliseconds;
    while (done < sizeof answer) {
        struct pollfd ready = { p->socket, POLLIN, 0 };
        const int64_t left = end - now();
        const int found = left > 0 ? poll(&ready, 1, (int)left) : 0;
        if (found == 0) {
            return lost(p, TRAINC_PAIR_LATE);
        }
        const ssize_t bytes = found < 0
            ? -1
            : recv(p->socket, (unsigned char *)answer + done, sizeof answer - done, 0);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes <= 0) {
            return lost(p, TRAINC_PAIR_LOST);
        }
        done += (size_t)bytes;
        if (done == sizeof answer && answer[0] == 0) {
            if (p->launched != NULL) {
                p->launched(answer[1]);
            }
            if (send(p->socket, answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer) {
                return lost(p, TRAINC_PAIR_LOST);
            }
            end = now() + p->milliseconds;
            done = 0;
        }
    }
    if (answer[0] != p->sequence) {
        return lost(p, TRAINC_PAIR_LOST);
    }
    return answer[1] == TRAINC_PAIR_OK ? TRAINC_PAIR_OK : lost(p, (int)answer[1]);
}

int trainc_pair_run(void *process, uint32_t segment)
{
    const int status = trainc_pair_begin(process, segment);
    return status == TRAINC_PAIR_OK ? trainc_pair_end(process, segment) : status;
}

void trainc_pair_stop(struct trainc_pair_process *p)
{
    lost(p, 0);
    if (p->window != MAP_FAILED && p->window != NULL) {
        munmap(p->window, p->bytes);
    }
    p->window = NULL;
}
