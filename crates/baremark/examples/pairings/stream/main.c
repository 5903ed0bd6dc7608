/* Runs the HPC Challenge's copy of stream.c and prints its four rates in MB/s, as stream.c itself does. Its own text goes to the file TEXT, where
   that is given. */
#include "hpcc.h"

int HPCC_Stream(HPCC_Params *, int, MPI_Comm, int, double *, double *, double *, double *, int *);

int main(void) {
    HPCC_Params params;
    double copy, scale, add, triad;
    int failure = 0;
    memset(&params, 0, sizeof params);
#ifdef TEXT
    strcpy(params.outFname, TEXT);
    const int writes = 1;
#else
    const int writes = 0;
#endif
    if (HPCC_Stream(&params, writes, 0, 0, &copy, &scale, &add, &triad, &failure) || failure) {
        puts("Solution does not validate");
        return 1;
    }
    printf("Copy: %.3f\nScale: %.3f\nAdd: %.3f\nTriad: %.3f\n", 1e3 * copy, 1e3 * scale, 1e3 * add, 1e3 * triad);
    return 0;
}
