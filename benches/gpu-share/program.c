/* Ranks that send each other messages in one of three ways, for so many seconds: exchange (isend, irecv, waitall with both neighbours),
 * alltoall, pairs (send and recv of unequal sizes). Built with meter.h before mpi.h's names, so that each call is metered. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meter.h"

#define LARGEST (1 << 20)

int main(int count, char **arguments)
{
	int rank, size, go = 1;
	const char *way = count > 1 ? arguments[1] : "exchange";
	const double seconds = count > 2 ? atof(arguments[2]) : 20;
	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	meter_begin(rank);
	char *out = calloc(2 * size, LARGEST), *in = calloc(2 * size, LARGEST);
	const int next = (rank + 1) % size, before = (rank + size - 1) % size;
	const double begin = MPI_Wtime();
	for (int round = 0; go; round++) {
		if (strcmp(way, "exchange") == 0) {
			MPI_Request requests[4];
			MPI_Irecv(in, LARGEST, MPI_BYTE, before, 0, MPI_COMM_WORLD, &requests[0]);
			MPI_Irecv(in + LARGEST, LARGEST, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[1]);
			MPI_Isend(out, LARGEST, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[2]);
			MPI_Isend(out, LARGEST / 4, MPI_BYTE, before, 1, MPI_COMM_WORLD, &requests[3]);
			MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
		} else if (strcmp(way, "alltoall") == 0) {
			MPI_Alltoall(out, 1 << 17, MPI_BYTE, in, 1 << 17, MPI_BYTE, MPI_COMM_WORLD);
		} else {
			const int peer = rank ^ 1, bytes = rank % 2 ? LARGEST / 2 : LARGEST;
			if (peer < size) {
				MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 0, in, LARGEST, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
					     MPI_STATUS_IGNORE);
				if (rank < peer)
					MPI_Send(out, LARGEST, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
				else
					MPI_Recv(in, LARGEST, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			}
		}
		usleep(20000 + 5000 * (round % 3));
		if (rank == 0)
			go = MPI_Wtime() - begin < seconds;
		MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
