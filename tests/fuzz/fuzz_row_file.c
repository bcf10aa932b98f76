/* SPDX-License-Identifier: Apache-2.0 */
/* A row driver's file is read whole or refused with one line that has its name; what
 * is refused changes nothing, what is read is within the limits. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mc_row_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_texts(const struct mc_row_file *file)
{
    const char *const texts[] = {file->client.master,
                                 file->client.local_hostname,
                                 file->client.metadata_server,
                                 file->client.protocol,
                                 file->client.tenant,
                                 file->device_name,
                                 file->key_prefix};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        require(!texts[i] || strlen(texts[i]) < MC_ROW_TEXT_SIZE);
    }
    require(!file->has_client || file->client.master[0] != '\0');
}

static void check_numbers(const struct mc_row_file *file)
{
    require(file->driver.workers <= MC_ROW_WORKERS_MAX);
    require(file->driver.rows_per_call <= MC_ROWS_MAX);
    require(file->driver.bytes_per_call <= MC_OBJECT_SIZE_MAX);
    require(file->driver.rows_max <= MC_ROW_QUEUE_MAX);
    require(file->driver.replicas <= MC_ROW_REPLICAS_MAX);
    require(file->client.segment_bytes == MC_NONE ||
            file->client.segment_bytes <= INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    static const struct mc_row_file nothing;
    char problem[256];
    struct mc_row_file file = nothing;
    if (fd < 0) {
        fd = memfd_create("rows", MFD_CLOEXEC);
        require(fd >= 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    require(ftruncate(fd, 0) == 0);
    require(pwrite(fd, data, size, 0) == (ssize_t)size);
    if (mc_row_driver_file(path, &file, problem, sizeof problem) == MC_OK) {
        require(problem[0] == '\0');
        check_texts(&file);
        check_numbers(&file);
        return 0;
    }
    require(strncmp(problem, path, strlen(path)) == 0);
    require(memcmp(&file, &nothing, sizeof file) == 0);
    return 0;
}
