/* What the HPC Challenge's copy of stream.c 5.10 needs around it to be a program of one process with OpenMP threads: sizes
   and passes come from the command line of the compiler (WORDS, and NTIMES in the source), memory is of 2 MiB pages. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

typedef struct {
    char outFname[16];
    int StreamVectorSize, StreamThreads;
} HPCC_Params;
typedef int MPI_Comm;
enum { MPI_DOUBLE, MPI_MIN };

static void *huge(size_t bytes) {
    const size_t page = (size_t)2 << 20;
    void *memory = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (memory && bytes >= page) madvise(memory, (bytes + page - 1) / page * page, MADV_HUGEPAGE);
    return memory;
}

#define HPCC_LocalVectorSize(params, vectors, size, power) (WORDS)
#define HPCC_XMALLOC(type, count) ((type *)huge(sizeof(type) * (size_t)(count)))
#define HPCC_free free
#define Mmin(a, b) ((a) < (b) ? (a) : (b))
#define Mmax(a, b) ((a) > (b) ? (a) : (b))
#define MPI_Wtime omp_get_wtime
#define MPI_Comm_size(comm, count) ((void)(comm), *(count) = 1)
#define MPI_Comm_rank(comm, rank) ((void)(comm), *(rank) = 0)
#define MPI_Barrier(comm) ((void)(comm))
#define MPI_Abort(comm, code) exit(code)
#define MPI_Allreduce(from, to, count, type, operation, comm) memcpy(to, from, sizeof(double) * (size_t)(count))
#define MPI_Gather(from, n, type, to, m, other, root, comm) memcpy(to, from, sizeof(double) * (size_t)(n))
