/* SPDX-License-Identifier: Apache-2.0 */
/* The memory segment: odd sizes, header page, what is refused and said. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_segment.h"
#include "suite.h"

#define MIB UINT64_C(0x100000)

static char last_line[1024];

static void keep_line(void *ctx, enum mc_log_level level, const char *text)
{
    (void)ctx;
    ck_assert_int_eq(level, MC_LOG_ERROR);
    strncpy(last_line, text, sizeof last_line - 1);
}

static struct mci_segment open_segment(uint64_t bytes, bool no_prefault)
{
    struct mci_segment segment;
    struct mci_segment_opts opts = {
        .bytes = bytes, .label = "n1:12345", .no_prefault = no_prefault};
    ck_assert_int_eq(mci_segment_init(&segment, &opts), MC_OK);
    return segment;
}

static void check_refused(uint64_t bytes, bool no_prefault, enum mc_err code)
{
    struct mci_segment segment = {.fd = 77};
    struct mci_segment_opts opts = {.bytes = bytes, .no_prefault = no_prefault};
    last_line[0] = '\0';
    mc_log_set_sink(keep_line, NULL);
    ck_assert_int_eq(mci_segment_init(&segment, &opts), code);
    mc_log_set_sink(NULL, NULL);
    ck_assert_ptr_nonnull(strstr(last_line, "segment"));
    ck_assert_int_eq(segment.fd, 77);
}

/* Pages of [at, at + len) that are in memory. */
static uint64_t resident_pages(uint8_t *at, uint64_t len)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t count = len / page;
    unsigned char *map = calloc(count, 1);
    ck_assert_ptr_nonnull(map);
    ck_assert_int_eq(mincore(at, len, map), 0);
    uint64_t resident = 0;
    for (uint64_t i = 0; i < count; i++) {
        resident += map[i] & 1U;
    }
    free(map);
    return resident;
}

START_TEST(odd_sizes_are_rounded_up_to_pages)
{
    static const uint64_t sizes[] = {1,    4095,         4096,
                                     4097, 16 * MIB + 1, UINT64_C(1000000007)};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct mci_segment segment = open_segment(sizes[i], true);
        ck_assert_uint_ge(segment.bytes, sizes[i]);
        ck_assert_uint_lt(segment.bytes - sizes[i], 4096);
        ck_assert_uint_eq(segment.bytes % 4096, 0);
        segment.base[0] = 1;
        segment.base[segment.bytes - 1] = 2;
        ck_assert_int_eq(lseek(segment.fd, 0, SEEK_END),
                         (off_t)(segment.bytes + 4096));
        mci_segment_fini(&segment);
    }
}
END_TEST

START_TEST(a_segment_without_memory_is_fine)
{
    struct mci_segment segment = open_segment(0, false);
    ck_assert_ptr_null(segment.base);
    ck_assert_ptr_null(segment.header);
    ck_assert_uint_eq(segment.bytes, 0);
    ck_assert_int_eq(segment.fd, -1);
    ck_assert(segment.id[0] != 0 || segment.id[1] != 0);
    ck_assert_uint_eq(mci_segment_retire(&segment), 0);
    mci_segment_fini(&segment);
    mci_segment_fini(&segment);
}
END_TEST

START_TEST(too_large_is_refused_with_a_line)
{
    check_refused(MCI_SEGMENT_BYTES_MAX + 1, true, MC_ERR_INVALID_PARAMS);
    check_refused(UINT64_MAX, true, MC_ERR_INVALID_PARAMS);
    check_refused(UINT64_MAX - 4095, false, MC_ERR_INVALID_PARAMS);
    check_refused(MCI_SEGMENT_BYTES_MAX, false, MC_ERR_NOMEM);
}
END_TEST

START_TEST(a_label_has_a_limit)
{
    char label[MCI_SEGMENT_LABEL_MAX + 2];
    memset(label, 'a', sizeof label);
    label[MCI_SEGMENT_LABEL_MAX + 1] = '\0';
    struct mci_segment segment;
    struct mci_segment_opts opts = {.label = label};
    mc_log_set_sink(keep_line, NULL);
    ck_assert_int_eq(mci_segment_init(&segment, &opts), MC_ERR_INVALID_PARAMS);
    mc_log_set_sink(NULL, NULL);
    label[MCI_SEGMENT_LABEL_MAX] = '\0';
    ck_assert_int_eq(mci_segment_init(&segment, &opts), MC_OK);
    ck_assert_str_eq(segment.label, label);
    mci_segment_fini(&segment);
}
END_TEST

START_TEST(the_header_stands_on_a_page_of_its_own)
{
    struct mci_segment segment = open_segment(MIB, false);
    const struct mci_segment_header *header = segment.header;
    ck_assert_uint_eq(header->magic, MCI_SEGMENT_MAGIC);
    ck_assert_uint_eq(header->generation, 1);
    ck_assert_uint_eq(header->id[0], segment.id[0]);
    ck_assert_uint_eq(header->id[1], segment.id[1]);
    ck_assert_uint_eq(header->data_bytes, MIB);
    ck_assert_ptr_eq((const uint8_t *)header + header->data_offset,
                     segment.base);
    ck_assert_uint_ge(header->data_offset, 4096);
    ck_assert_uint_eq((uintptr_t)segment.base % 4096, 0);
    memset(segment.base, 0xff, segment.bytes);
    ck_assert_uint_eq(header->generation, 1);
    ck_assert_uint_eq(mci_segment_retire(&segment), 2);
    ck_assert_uint_eq(header->generation, 2);
    mci_segment_fini(&segment);
}
END_TEST

/* A peer maps the descriptor and sees the same bytes and generation. */
START_TEST(the_descriptor_shows_the_same_memory)
{
    struct mci_segment segment = open_segment(MIB, true);
    ck_assert_int_eq(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    uint8_t *peer =
        mmap(NULL, segment.map_bytes, PROT_READ, MAP_SHARED, segment.fd, 0);
    ck_assert_ptr_ne(peer, MAP_FAILED);
    const struct mci_segment_header *header = (const void *)peer;
    for (uint64_t i = 0; i < segment.bytes; i += 4096) {
        ck_assert_uint_eq(peer[header->data_offset + i], 0);
    }
    segment.base[12345] = 0x5a;
    (void)mci_segment_retire(&segment);
    ck_assert_uint_eq(peer[header->data_offset + 12345], 0x5a);
    ck_assert_uint_eq(header->generation, 2);
    ck_assert_int_eq(munmap(peer, segment.map_bytes), 0);
    mci_segment_fini(&segment);
}
END_TEST

START_TEST(pages_are_touched_at_open_unless_told_otherwise)
{
    struct mci_segment now = open_segment(4 * MIB, false);
    ck_assert_uint_eq(resident_pages(now.base, now.bytes), 1024);
    mci_segment_fini(&now);
    struct mci_segment later = open_segment(4 * MIB, true);
    ck_assert_uint_eq(resident_pages(later.base, later.bytes), 0);
    mci_segment_fini(&later);
}
END_TEST

START_TEST(two_segments_have_two_ids)
{
    struct mci_segment a = open_segment(4096, true);
    struct mci_segment b = open_segment(4096, true);
    ck_assert(a.id[0] != b.id[0] || a.id[1] != b.id[1]);
    mci_segment_fini(&a);
    mci_segment_fini(&b);
}
END_TEST

START_TEST(descriptors_and_maps_are_given_back)
{
    struct mci_segment first = open_segment(MIB, true);
    int fd = first.fd;
    mci_segment_fini(&first);
    for (int i = 0; i < 100; i++) {
        struct mci_segment segment = open_segment(MIB, true);
        ck_assert_int_eq(segment.fd, fd);
        uint8_t *base = segment.base;
        mci_segment_fini(&segment);
        unsigned char seen;
        ck_assert_int_ne(mincore(base, 4096, &seen), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segment");
    TCase *sizes = tcase_create("sizes");
    tcase_add_test(sizes, odd_sizes_are_rounded_up_to_pages);
    tcase_add_test(sizes, a_segment_without_memory_is_fine);
    tcase_add_test(sizes, too_large_is_refused_with_a_line);
    tcase_add_test(sizes, a_label_has_a_limit);
    suite_add_tcase(suite, sizes);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, the_header_stands_on_a_page_of_its_own);
    tcase_add_test(memory, the_descriptor_shows_the_same_memory);
    tcase_add_test(memory, pages_are_touched_at_open_unless_told_otherwise);
    tcase_add_test(memory, two_segments_have_two_ids);
    tcase_add_test(memory, descriptors_and_maps_are_given_back);
    suite_add_tcase(suite, memory);
    return suite_run(suite);
}
