/* The kernel gives a lock on a file back with its process, as the driver does a monitor. */
#define _GNU_SOURCE
#include "monitors.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "gpus.h"
#include "refuse.h"

/* Files, one more each: 0 is none. */
static int locks[MAX_GPUS];

bool monitor_take(const char *folder, int place)
{
	char path[4160];
	snprintf(path, sizeof path, "%s/monitor-%d", folder, place);
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (file < 0)
		refuse("cannot open %s", path);
	if (flock(file, LOCK_EX | LOCK_NB) != 0) {
		close(file);
		return false;
	}
	locks[place] = file + 1;
	return true;
}

void monitor_give(int place)
{
	if (locks[place])
		close(locks[place] - 1);
	locks[place] = 0;
}
