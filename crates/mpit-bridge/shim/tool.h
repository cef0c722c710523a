/* MPI_T, opened once for all that reads from it. See tool.c. */
#ifndef THROUGHLINE_TOOL_H
#define THROUGHLINE_TOOL_H

#include "shim.h"

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

/* After MPI_Init. 0 if there is no MPI_T, or none that another thread may use. Again: as the first time. */
int tl_tool_open(void);
/* Before MPI_Finalize. */
void tl_tool_close(void);

/* Around the program's own MPI_T_init_thread and MPI_T_finalize. */
void tl_tool_step_back(void);
void tl_tool_step_in(void);

#pragma GCC visibility pop

#endif
