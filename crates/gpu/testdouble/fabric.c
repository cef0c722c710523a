/* Test double of libnvidia-ml: registration of GPUs in a fabric of NVLinks over several nodes. */
#include <string.h>

#include "double.h"

struct fabric_info {
	unsigned version;
	unsigned char cluster[16];
	unsigned status, clique;
	unsigned char state;
	unsigned health;
};
_Static_assert(sizeof(struct fabric_info) == 36, "layout of nvmlGpuFabricInfo_v2_t");

enum { VERSION_2 = 36 | 2 << 24, VERSION_MISMATCH = 25 };

EXPORT unsigned nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric_info *info);

unsigned nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric_info *info)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "fabric", &gpu, NULL);
	if (code != SUCCESS)
		return code;
	if (!info)
		return INVALID_ARGUMENT;
	if (info->version != VERSION_2)
		return VERSION_MISMATCH;
	memcpy(info->cluster, gpu->fabric.cluster, sizeof info->cluster);
	info->clique = gpu->fabric.clique;
	info->status = gpu->fabric.status;
	info->state = (unsigned char)gpu->fabric.state;
	info->health = 0;
	return SUCCESS;
}
