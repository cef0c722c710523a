/* CUptiResult, as far as the test double of libcupti answers it. Declarations are our own. */
#ifndef THROUGHLINE_CUPTI_CODES_H
#define THROUGHLINE_CUPTI_CODES_H

enum {
	OK = 0,
	INVALID_PARAMETER = 1,
	INVALID_DEVICE = 2,
	INVALID_CONTEXT = 3,
	INVALID_OPERATION = 7,
	NOT_INITIALIZED = 15,
	INVALID_METRIC_NAME = 17,
	HARDWARE_BUSY = 26,
	NOT_SUPPORTED = 27,
	UNKNOWN = 999,
};

#endif
