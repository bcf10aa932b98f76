/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c - a memfd, mapped, with its header page.
 *
 * The mapping begins on a 2 MiB boundary, since a file's huge page can only be
 * mapped where offset and address agree; for that, address space is reserved
 * first and the file is laid over an aligned part of it. Pages are touched by
 * MADV_POPULATE_WRITE, which answers an error where a plain write would end the
 * process by a signal; where the kernel does not know it, fallocate comes first
 * for the same reason.
 */
#include "mci_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_mapping.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define MEMFD_NAME "mckv-segment"

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static enum mc_err check_opts(const struct mci_segment_opts *opts)
{
    if (opts->bytes > MCI_SEGMENT_BYTES_MAX) {
        mc_log(MC_LOG_ERROR,
               "segment of %llu bytes: at most %llu can be mapped",
               (unsigned long long)opts->bytes,
               (unsigned long long)MCI_SEGMENT_BYTES_MAX);
        return MC_ERR_INVALID_PARAMS;
    }
    if (opts->label && strlen(opts->label) > MCI_SEGMENT_LABEL_MAX) {
        mc_log(MC_LOG_ERROR, "segment label: longer than %d bytes",
               MCI_SEGMENT_LABEL_MAX);
        return MC_ERR_INVALID_PARAMS;
    }
    struct sysinfo machine;
    if (opts->no_prefault || sysinfo(&machine) != 0) {
        return MC_OK;
    }
    uint64_t has =
        ((uint64_t)machine.totalram + machine.totalswap) * machine.mem_unit;
    if (opts->bytes > has) {
        mc_log(MC_LOG_ERROR,
               "segment of %llu bytes: the machine has %llu of memory",
               (unsigned long long)opts->bytes, (unsigned long long)has);
        return MC_ERR_NOMEM;
    }
    return MC_OK;
}

static enum mc_err draw_id(uint64_t id[2])
{
    if (getrandom(id, 2 * sizeof id[0], 0) != (ssize_t)(2 * sizeof id[0])) {
        mc_log(MC_LOG_ERROR, "segment id: getrandom: %s", strerror(errno));
        return MC_ERR_INTERNAL_ERROR;
    }
    return MC_OK;
}

static enum mc_err fail_nomem(const char *what, uint64_t bytes)
{
    mc_log(MC_LOG_ERROR, "segment of %llu bytes: %s: %s",
           (unsigned long long)bytes, what, strerror(errno));
    return MC_ERR_NOMEM;
}

static int touch_pages(int fd, uint8_t *map, uint64_t bytes)
{
    if (madvise(map, bytes, MADV_POPULATE_WRITE) == 0) {
        return 0;
    }
    if (errno != EINVAL) {
        return -1;
    }
    if (fallocate(fd, 0, 0, (off_t)bytes) != 0) {
        return -1;
    }
    for (uint64_t at = 0; at < bytes; at += page_bytes()) {
        *(volatile uint8_t *)(map + at) = 0;
    }
    return 0;
}

/* Advice is advice: where it is not taken, the segment works all the same. */
static void advise(void *map, uint64_t bytes)
{
    (void)madvise(map, bytes, MADV_HUGEPAGE);
    (void)madvise(map, bytes, MADV_DONTDUMP);
}

static enum mc_err make_file(uint64_t bytes, int *fd_out)
{
    int fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC);
    if (fd < 0) {
        return fail_nomem("memfd_create", bytes);
    }
    if (ftruncate(fd, (off_t)bytes) != 0) {
        enum mc_err err = fail_nomem("ftruncate", bytes);
        (void)close(fd);
        return err;
    }
    *fd_out = fd;
    return MC_OK;
}

static void write_header(struct mci_segment *segment, uint64_t data_offset)
{
    struct mci_segment_header *header = segment->header;
    header->id[0] = segment->id[0];
    header->id[1] = segment->id[1];
    header->data_offset = data_offset;
    header->data_bytes = segment->bytes;
    atomic_store(&header->generation, 1);
    header->magic = MCI_SEGMENT_MAGIC;
}

/* bytes: of data, whole pages. */
static enum mc_err make_memory(struct mci_segment *segment, uint64_t bytes,
                               bool prefault)
{
    uint64_t total = bytes + page_bytes();
    int fd = -1;
    enum mc_err err = make_file(total, &fd);
    if (err != MC_OK) {
        return err;
    }
    uint8_t *map = mci_map_huge(fd, total);
    if (map == MAP_FAILED) {
        err = fail_nomem("mmap", total);
        goto err_close_fd;
    }
    advise(map, total);
    if (touch_pages(fd, map, prefault ? total : page_bytes()) != 0) {
        err = fail_nomem("touching pages", total);
        goto err_unmap;
    }
    segment->fd = fd;
    segment->header = (struct mci_segment_header *)(void *)map;
    segment->base = map + page_bytes();
    segment->bytes = bytes;
    segment->map_bytes = total;
    write_header(segment, page_bytes());
    return MC_OK;
err_unmap:
    (void)munmap(map, total);
err_close_fd:
    (void)close(fd);
    return err;
}

enum mc_err mci_segment_init(struct mci_segment *segment,
                             const struct mci_segment_opts *opts)
{
    enum mc_err err = check_opts(opts);
    if (err != MC_OK) {
        return err;
    }
    struct mci_segment made = {.fd = -1};
    err = draw_id(made.id);
    if (err != MC_OK) {
        return err;
    }
    if (opts->label) {
        memcpy(made.label, opts->label, strlen(opts->label));
    }
    if (opts->bytes > 0) {
        uint64_t page = page_bytes();
        uint64_t bytes = (opts->bytes + page - 1) / page * page;
        err = make_memory(&made, bytes, !opts->no_prefault);
        if (err != MC_OK) {
            return err;
        }
    }
    *segment = made;
    return MC_OK;
}

void mci_segment_fini(struct mci_segment *segment)
{
    if (segment->header) {
        (void)munmap(segment->header, segment->map_bytes);
        (void)close(segment->fd);
    }
    memset(segment, 0, sizeof *segment);
    segment->fd = -1;
}

uint64_t mci_segment_retire(struct mci_segment *segment)
{
    if (!segment->header) {
        return 0;
    }
    return atomic_fetch_add(&segment->header->generation, 1) + 1;
}
