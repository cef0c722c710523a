/* Names of communicators. See comm_names.c. */
#ifndef THROUGHLINE_COMM_NAMES_H
#define THROUGHLINE_COMM_NAMES_H

#include "comm.h"

#pragma GCC visibility push(hidden)

/* A communicator has been translated. */
void tl_comm_name_look(struct tl_comm *comm);
/* The program has named one. */
void tl_comm_name_report(struct tl_comm *comm, const char *name);

#pragma GCC visibility pop

#endif
