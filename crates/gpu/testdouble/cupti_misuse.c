/* Checks that the test double of libcupti refuses wrong use. Run by a test of the crate: cupti_misuse LIBCUDA LIBCUPTI, on
 * a scenario whose first GPU is a GH100. Prints what it found wrong; status 0 when each misuse was refused. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned (*call)(void *);
typedef unsigned (*plain)(unsigned);

static void *libcupti;
static int wrong;

static unsigned query(const char *name, void *parameters)
{
	call function;
	void *found = dlsym(libcupti, name);
	memcpy(&function, &found, sizeof function);
	if (!found)
		exit(2);
	return function(parameters);
}

static void expect(const char *what, unsigned got, unsigned wanted)
{
	if (got != wanted) {
		printf("%s: answered %u instead of %u\n", what, got, wanted);
		wrong++;
	}
}

/* A configuration of two metrics, added in so many calls. */
static unsigned char *image(unsigned calls, size_t *passes)
{
	const char *names[] = {"nvltx__bytes.sum", "nvlrx__bytes.sum"};
	struct { size_t size; void *p; unsigned kind; const char *chip; const void *a; void *host; } host = {48, 0, 1, "GH100", 0, 0};
	expect("host", query("cuptiProfilerHostInitialize", &host), 0);
	for (unsigned i = 0; i < calls; i++) {
		struct { size_t size; void *p, *host; const char **names; size_t count; } add = {40, 0, host.host, names + i,
												 2 / calls};
		expect("add", query("cuptiProfilerHostConfigAddMetrics", &add), 0);
	}
	struct { size_t size; void *p, *host; size_t bytes; } size = {32, 0, host.host, 0};
	expect("size", query("cuptiProfilerHostGetConfigImageSize", &size), 0);
	unsigned char *bytes = calloc(1, size.bytes);
	struct { size_t size; void *p, *host; size_t bytes; unsigned char *image; } get = {40, 0, host.host, size.bytes, bytes};
	expect("image", query("cuptiProfilerHostGetConfigImage", &get), 0);
	struct { size_t size; void *p; size_t bytes; unsigned char *image; size_t passes; } number = {40, 0, size.bytes, bytes, 0};
	expect("passes", query("cuptiProfilerHostGetNumOfPasses", &number), 0);
	*passes = number.passes;
	struct { size_t size; void *p, *host; } end = {24, 0, host.host};
	expect("host given back", query("cuptiProfilerHostDeinitialize", &end), 0);
	expect("host given back twice", query("cuptiProfilerHostDeinitialize", &end), 1);
	return bytes;
}

int main(int argc, char **argv)
{
	void *libcuda = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
	libcupti = libcuda ? dlopen(argv[2], RTLD_NOW) : NULL;
	if (!libcupti)
		return 2;
	plain init;
	void *found = dlsym(libcuda, "cuInit");
	memcpy(&init, &found, sizeof init);
	struct { size_t size; void *p; } start = {16, 0};
	struct { size_t size; void *p; size_t device; void *object; } enable = {32, 0, 0, 0};
	expect("enable before init", query("cuptiPmSamplingEnable", &enable), 15);
	expect("init before cuInit", query("cuptiProfilerInitialize", &start), 15);
	expect("cuInit", init(0), 0);
	start.size = 24;
	expect("init of a wrong size", query("cuptiProfilerInitialize", &start), 1);
	start.size = 16;
	expect("init", query("cuptiProfilerInitialize", &start), 0);
	enable.size = 40;
	expect("enable of a wrong size", query("cuptiPmSamplingEnable", &enable), 1);
	enable.size = 32;
	enable.device = 99;
	expect("enable of no GPU", query("cuptiPmSamplingEnable", &enable), 1);
	enable.device = 0;
	expect("enable", query("cuptiPmSamplingEnable", &enable), 0);
	struct { size_t size; void *p; size_t device; void *object; } second = {32, 0, 0, 0};
	expect("enable twice", query("cuptiPmSamplingEnable", &second), 26);

	struct { size_t size; void *p, *object; } object = {24, 0, enable.object};
	expect("start without a configuration", query("cuptiPmSamplingStart", &object), 7);
	size_t passes = 0;
	unsigned char *two = image(2, &passes);
	expect("passes of two calls", (unsigned)passes, 2);
	struct { size_t size; void *p, *object; size_t bytes; const unsigned char *image; size_t buffer; uint64_t interval;
		unsigned trigger, append; } config = {64, 0, enable.object, 96, two, 1 << 20, 1000000, 1, 0};
	expect("configuration of two passes", query("cuptiPmSamplingSetConfig", &config), 27);
	unsigned char *one = image(1, &passes);
	expect("passes of one call", (unsigned)passes, 1);
	config.image = one;
	config.size = 60;
	expect("configuration of an older release's size", query("cuptiPmSamplingSetConfig", &config), 1);
	config.size = 64;
	config.trigger = 0;
	expect("a trigger of older chips", query("cuptiPmSamplingSetConfig", &config), 27);
	config.trigger = 1;
	expect("configuration", query("cuptiPmSamplingSetConfig", &config), 0);

	const char *names[] = {"nvltx__bytes.sum", "nvlrx__bytes.sum"};
	struct { size_t size; void *p, *object; const char **names; size_t count; unsigned samples; size_t bytes; } space = {
		56, 0, enable.object, names, 2, 8, 0};
	expect("room", query("cuptiPmSamplingGetCounterDataSize", &space), 0);
	unsigned char *data = calloc(1, space.bytes);
	struct { size_t size; void *p, *object; unsigned char *data; size_t bytes; unsigned reason; unsigned char overflow; } decode = {
		45, 0, enable.object, data, space.bytes, 0, 0};
	struct { size_t size; void *p, *object; size_t bytes; unsigned char *data; } fresh = {40, 0, enable.object, space.bytes, data};
	expect("decoding before the start", query("cuptiPmSamplingDecodeData", &decode), 7);
	expect("stop before the start", query("cuptiPmSamplingStop", &object), 7);
	expect("start", query("cuptiPmSamplingStart", &object), 0);
	expect("start twice", query("cuptiPmSamplingStart", &object), 7);
	expect("decoding into what was not prepared", query("cuptiPmSamplingDecodeData", &decode), 1);
	expect("preparing", query("cuptiPmSamplingCounterDataImageInitialize", &fresh), 0);
	one[90] ^= 1;
	expect("decoding with a configuration that was changed", query("cuptiPmSamplingDecodeData", &decode), 7);
	one[90] ^= 1;
	expect("decoding", query("cuptiPmSamplingDecodeData", &decode), 0);
	expect("disabling what runs", query("cuptiPmSamplingDisable", &object), 7);
	expect("stop", query("cuptiPmSamplingStop", &object), 0);
	expect("disable", query("cuptiPmSamplingDisable", &object), 0);
	expect("disable twice", query("cuptiPmSamplingDisable", &object), 7);
	expect("enable again", query("cuptiPmSamplingEnable", &second), 0);
	free(one);
	free(two);
	free(data);
	return wrong ? 1 : 0;
}
