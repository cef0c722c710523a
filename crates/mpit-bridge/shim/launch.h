/* The variable by which Hydra's mpiexec names its own start to all its ranks. */
#ifndef THROUGHLINE_LAUNCH_H
#define THROUGHLINE_LAUNCH_H

#define TL_LAUNCH_VARIABLE "THROUGHLINE_LAUNCH"

#endif
