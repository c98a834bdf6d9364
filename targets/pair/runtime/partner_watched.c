/* Hooks of launches on the DSP's side, for trainc verify. */
#include <stdint.h>

void trainc_pair_launched(uint32_t launch);
void trainc_verify_launched(unsigned int launch);

void trainc_verify_launched(unsigned int launch)
{
    trainc_pair_launched(launch);
}
