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

static unsigned ask(const char *name, void *parameters)
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
	expect("host", ask("cuptiProfilerHostInitialize", &host), 0);
	for (unsigned i = 0; i < calls; i++) {
		struct { size_t size; void *p, *host; const char **names; size_t count; } add = {40, 0, host.host, names + i,
												 2 / calls};
		expect("add", ask("cuptiProfilerHostConfigAddMetrics", &add), 0);
	}
	struct { size_t size; void *p, *host; size_t bytes; } size = {32, 0, host.host, 0};
	expect("size", ask("cuptiProfilerHostGetConfigImageSize", &size), 0);
	unsigned char *bytes = calloc(1, size.bytes);
	struct { size_t size; void *p, *host; size_t bytes; unsigned char *image; } get = {40, 0, host.host, size.bytes, bytes};
	expect("image", ask("cuptiProfilerHostGetConfigImage", &get), 0);
	struct { size_t size; void *p; size_t bytes; unsigned char *image; size_t passes; } number = {40, 0, size.bytes, bytes, 0};
	expect("passes", ask("cuptiProfilerHostGetNumOfPasses", &number), 0);
	*passes = number.passes;
	struct { size_t size; void *p, *host; } end = {24, 0, host.host};
	expect("host given back", ask("cuptiProfilerHostDeinitialize", &end), 0);
	expect("host given back twice", ask("cuptiProfilerHostDeinitialize", &end), 1);
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
	expect("enable before init", ask("cuptiPmSamplingEnable", &enable), 15);
	expect("init before cuInit", ask("cuptiProfilerInitialize", &start), 15);
	expect("cuInit", init(0), 0);
	start.size = 24;
	expect("init of a wrong size", ask("cuptiProfilerInitialize", &start), 1);
	start.size = 16;
	expect("init", ask("cuptiProfilerInitialize", &start), 0);
	enable.size = 40;
	expect("enable of a wrong size", ask("cuptiPmSamplingEnable", &enable), 1);
	enable.size = 32;
	enable.device = 99;
	expect("enable of no GPU", ask("cuptiPmSamplingEnable", &enable), 1);
	enable.device = 0;
	expect("enable", ask("cuptiPmSamplingEnable", &enable), 0);
	struct { size_t size; void *p; size_t device; void *object; } second = {32, 0, 0, 0};
	expect("enable twice", ask("cuptiPmSamplingEnable", &second), 26);

	struct { size_t size; void *p, *object; } object = {24, 0, enable.object};
	expect("start without a configuration", ask("cuptiPmSamplingStart", &object), 7);
	size_t passes = 0;
	unsigned char *two = image(2, &passes);
	expect("passes of two calls", (unsigned)passes, 2);
	struct { size_t size; void *p, *object; size_t bytes; const unsigned char *image; size_t buffer; uint64_t interval;
		unsigned trigger, append; } config = {64, 0, enable.object, 96, two, 1 << 20, 1000000, 1, 0};
	expect("configuration of two passes", ask("cuptiPmSamplingSetConfig", &config), 27);
	unsigned char *one = image(1, &passes);
	expect("passes of one call", (unsigned)passes, 1);
	config.image = one;
	config.size = 60;
	expect("configuration of an older release's size", ask("cuptiPmSamplingSetConfig", &config), 1);
	config.size = 64;
	config.trigger = 0;
	expect("a trigger of older chips", ask("cuptiPmSamplingSetConfig", &config), 27);
	config.trigger = 1;
	expect("configuration", ask("cuptiPmSamplingSetConfig", &config), 0);

	const char *names[] = {"nvltx__bytes.sum", "nvlrx__bytes.sum"};
	struct { size_t size; void *p, *object; const char **names; size_t count; unsigned samples; size_t bytes; } room = {
		56, 0, enable.object, names, 2, 8, 0};
	expect("room", ask("cuptiPmSamplingGetCounterDataSize", &room), 0);
	unsigned char *data = calloc(1, room.bytes);
	struct { size_t size; void *p, *object; unsigned char *data; size_t bytes; unsigned reason; unsigned char overflow; } decode = {
		45, 0, enable.object, data, room.bytes, 0, 0};
	struct { size_t size; void *p, *object; size_t bytes; unsigned char *data; } fresh = {40, 0, enable.object, room.bytes, data};
	expect("decoding before the start", ask("cuptiPmSamplingDecodeData", &decode), 7);
	expect("stop before the start", ask("cuptiPmSamplingStop", &object), 7);
	expect("start", ask("cuptiPmSamplingStart", &object), 0);
	expect("start twice", ask("cuptiPmSamplingStart", &object), 7);
	expect("decoding into what was not prepared", ask("cuptiPmSamplingDecodeData", &decode), 1);
	expect("preparing", ask("cuptiPmSamplingCounterDataImageInitialize", &fresh), 0);
	one[90] ^= 1;
	expect("decoding with a configuration that was changed", ask("cuptiPmSamplingDecodeData", &decode), 7);
	one[90] ^= 1;
	expect("decoding", ask("cuptiPmSamplingDecodeData", &decode), 0);
	expect("disabling what runs", ask("cuptiPmSamplingDisable", &object), 7);
	expect("stop", ask("cuptiPmSamplingStop", &object), 0);
	expect("disable", ask("cuptiPmSamplingDisable", &object), 0);
	expect("disable twice", ask("cuptiPmSamplingDisable", &object), 7);
	expect("enable again", ask("cuptiPmSamplingEnable", &second), 0);
	free(one);
	free(two);
	free(data);
	return wrong ? 1 : 0;
}
