/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mci_mapping.h"
#include "suite.h"

static int make_file(uint64_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static bool is_mapped(uint8_t *page, uint64_t page_bytes)
{
    unsigned char in_core;
    return mincore(page, page_bytes, &in_core) == 0;
}

START_TEST(it_begins_at_a_huge_page_and_is_the_files)
{
    static const uint64_t sizes[] = {1, 4096, 10000, MCI_HUGE_PAGE,
                                     MCI_HUGE_PAGE + 4096};
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t bytes = sizes[i];
        int fd = make_file(bytes);
        uint8_t *map = mci_map_huge(fd, bytes);
        ck_assert_ptr_ne(map, MAP_FAILED);
        ck_assert_uint_eq((uintptr_t)map % MCI_HUGE_PAGE, 0);
        map[bytes - 1] = 42;
        uint8_t last = 0;
        ck_assert_int_eq(pread(fd, &last, 1, (off_t)bytes - 1), 1);
        ck_assert_uint_eq(last, 42);
        ck_assert(is_mapped(map + (bytes - 1) / page * page, page));
        ck_assert_int_eq(munmap(map, bytes), 0);
        (void)close(fd);
    }
}
END_TEST

static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%llu", &pages), 1);
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

START_TEST(nothing_stays_reserved)
{
    enum { ROUNDS = 64 };
    int fd = make_file(4096);
    void *warm = mci_map_huge(fd, 4096);
    ck_assert_ptr_ne(warm, MAP_FAILED);
    ck_assert_int_eq(munmap(warm, 4096), 0);
    uint64_t before = address_space();
    for (int i = 0; i < ROUNDS; i++) {
        void *map = mci_map_huge(fd, 4096);
        ck_assert_ptr_ne(map, MAP_FAILED);
        ck_assert_int_eq(munmap(map, 4096), 0);
        ck_assert_ptr_eq(mci_map_huge(-1, 4096), MAP_FAILED);
        ck_assert_int_eq(errno, EBADF);
    }
    ck_assert_uint_lt(address_space(), before + ROUNDS / 2 * MCI_HUGE_PAGE);
    (void)close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mapping");
    TCase *tcase = tcase_create("huge pages");
    tcase_add_test(tcase, it_begins_at_a_huge_page_and_is_the_files);
    tcase_add_test(tcase, nothing_stays_reserved);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
