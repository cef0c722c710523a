/* The connection to the agent on this node. Never waits, but for tl_channel_wait. See channel.c. */
#ifndef THROUGHLINE_CHANNEL_H
#define THROUGHLINE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* Reads where the agent listens from the environment: once, before there is a second thread. */
void tl_channel_configure(void);
int tl_channel_connected(void);
/* Where the agent may listen, from 0 on; empty where that place is not used, NULL behind the last one. */
const char *tl_channel_path(int i);
/* Tries once to connect. 1: now connected. */
int tl_channel_connect(void);
/* Sends one finished frame, or puts it into the file of the last totals while that is open. 1: handed over; 0: not, and counted. `patience_ms` is how long a full socket is waited for. */
int tl_channel_send(struct tl_frame *frame, int patience_ms);
/* One received message into `to`, or 0. Waits up to `patience_ms` for it. */
size_t tl_channel_receive(uint8_t *to, size_t size, int patience_ms);
void tl_channel_close(void);
uint64_t tl_channel_lost(void);
uint64_t tl_channel_connections(void);

#pragma GCC visibility pop

#endif
