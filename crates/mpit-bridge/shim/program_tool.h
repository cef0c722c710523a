/* A tool of PMPI that is linked into the program. See program_tool.c. */
#ifndef THROUGHLINE_PROGRAM_TOOL_H
#define THROUGHLINE_PROGRAM_TOOL_H

#pragma GCC visibility push(hidden)

/* Once MPI has started: looks for one, and reports it among the settings. */
void tl_program_tool_look(void);
/* Its functions that can't be counted, as text; NULL where there is none. */
const char *tl_program_tool(void);
/* Whether the program has a function of its own by which MPI starts. */
int tl_program_starts_mpi(void);

#pragma GCC visibility pop

#endif
