/* MPI_T, opened once for all that reads from it. See tool.c. */
#ifndef THROUGHLINE_TOOL_H
#define THROUGHLINE_TOOL_H

#include "library.h"

#pragma GCC visibility push(hidden)

struct tl_tool {
    int (*pvar_get_num)(int *);
    int (*pvar_get_info)(int, char *, int *, int *, int *, tl_handle *, void *, char *, int *, int *, int *, int *,
                         int *);
    int (*session_create)(void *);
    int (*session_free)(void *);
    int (*handle_alloc)(void *, int, void *, void *, int *);
    int (*handle_free)(void *, void *);
    int (*start)(void *, void *);
    int (*read)(void *, void *, void *);
    int (*cvar_get_num)(int *);
    int (*cvar_get_info)(int, char *, int *, int *, tl_handle *, void *, char *, int *, int *, int *);
    int (*cvar_handle_alloc)(int, void *, void *, int *);
    int (*cvar_handle_free)(void *);
    int (*cvar_read)(void *, void *);
};
extern struct tl_tool tl_tool;

/* After MPI_Init. 0 if there is no MPI_T, or none that another thread may use. */
int tl_tool_open(void);
/* Before MPI_Finalize, and where the process ends: nothing is read any more. Any thread. */
void tl_tool_end(void);
/* Around calls of MPI_T's functions, which may only be made in between; short. 0: it has ended, and there is no end to call. */
int tl_tool_read_begin(void);
void tl_tool_read_end(void);

/* The program's own MPI_T_init_thread and MPI_T_finalize. */
int tl_tool_program_init(int (*next)(int, int *), int required, int *provided);
int tl_tool_program_finalize(int (*next)(void));

#pragma GCC visibility pop

#endif
