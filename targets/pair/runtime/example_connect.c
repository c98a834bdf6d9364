/* The other device. With -DTRAINC_FASTRPC a DSP by @PREFIX@_fastrpc.c; without it an emulator's process, whose
 * command the variable TRAINC_PARTNER names, a word a line. */
#ifdef TRAINC_FASTRPC
int @PREFIX@_open_dsp(void);

static int connect_dsp(void)
{
    return @PREFIX@_open_dsp();
}
#else
#include "trainc_pair_process.h"

static int connect_dsp(void)
{
    enum { WORDS = 16, MILLISECONDS = 60000 };
    static struct trainc_pair_process partner;
    static char *words[WORDS + 1] = { "qemu-hexagon", "-cpu", "v67", "./partner", NULL };
    char *rest = getenv("TRAINC_PARTNER");
    for (size_t count = 0; rest != NULL && count < WORDS; count++) {
        char *const end = strchr(rest, '\n');
        words[count] = rest;
        words[count + 1] = NULL;
        rest = end != NULL ? end + 1 : NULL;
        if (end != NULL) {
            *end = '\0';
        }
    }
    if (trainc_pair_start(&partner, @PREFIX@_window_bytes(), words, MILLISECONDS) != TRAINC_PAIR_OK) {
        return -1;
    }
    @PREFIX@_connect(partner.window, trainc_pair_run, &partner);
    @PREFIX@_overlap(trainc_pair_begin, trainc_pair_end);
    return 0;
}
#endif

