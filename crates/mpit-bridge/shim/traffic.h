/* Traffic by operation, as frames. See traffic.c. Flush thread only. */
#ifndef THROUGHLINE_TRAFFIC_H
#define THROUGHLINE_TRAFFIC_H

#include "frame.h"

#pragma GCC visibility push(hidden)

/* Sends what changed, by `frame`; `report_names` sends names that are new, and is 0 where it fails. */
void tl_traffic_push(struct tl_frame *frame, int (*report_names)(void), int (*patience)(void));
/* Everything is to be sent again. */
void tl_traffic_again(void);

#pragma GCC visibility pop

#endif
