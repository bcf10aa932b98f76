/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_memory.c - memory that calls may name: H1 to H5 of the known
 * faults, and waiting for who uses it (C11). */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "await.h"
#include "client_memory.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "suite.h"

#define LEN (64 * KIB)

static struct client_rig rig;

static void open_rig(void)
{
    client_open_strict(&rig, NULL);
}

static enum mc_err put_from(const char *key, const void *data, size_t len)
{
    return mc_client_put_from(rig.client, mc_view_str(key), data, len, NULL);
}

static enum mc_err get_into(const char *key, void *data, size_t len)
{
    uint64_t size = 0;
    return mc_client_get_into(rig.client, mc_view_str(key), data, len, &size);
}

/* ---- the table ------------------------------------------------------------ */

START_TEST(ranges_are_counted_and_never_overlap)
{
    struct mci_memory memory;
    char *a = (char *)(uintptr_t)0x100000;
    ck_assert_int_eq(mci_memory_init(&memory), MC_OK);
    ck_assert_int_eq(mci_memory_add(&memory, NULL, 1), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_add(&memory, a, 0), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_add(&memory, a, SIZE_MAX),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_add(&memory, a, 4096), MC_OK);
    ck_assert_int_eq(mci_memory_add(&memory, a, 4096), MC_OK);
    ck_assert_int_eq(mci_memory_add(&memory, a, 4095), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_add(&memory, a + 1, 8), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_add(&memory, a - 1, 2), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_add(&memory, a - 1, 8192),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_add(&memory, a + 4096, 4096), MC_OK);
    ck_assert_int_eq(mci_memory_add(&memory, a - 4096, 4096), MC_OK);
    ck_assert_uint_eq(atomic_load(&memory.count), 3);
    /* Ranges that touch are two. */
    ck_assert_uint_eq(mci_memory_len(&memory, a), 4096);
    ck_assert_uint_eq(mci_memory_len(&memory, a + 4095), 1);
    ck_assert_uint_eq(mci_memory_len(&memory, a - 1), 1);
    ck_assert_uint_eq(mci_memory_len(&memory, a - 4097), 0);
    ck_assert_uint_eq(mci_memory_len(&memory, a + 8192), 0);
    ck_assert_uint_eq(mci_memory_len(&memory, NULL), 0);
    ck_assert_int_eq(mci_memory_remove(&memory, a, 0), MC_OK);
    ck_assert_int_eq(mci_memory_remove(&memory, a, 0), MC_OK);
    ck_assert_int_eq(mci_memory_remove(&memory, a, 0), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_remove(&memory, a + 4097, 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_memory_remove(&memory, a + 4096, 0), MC_OK);
    ck_assert_int_eq(mci_memory_remove(&memory, a - 4096, 0), MC_OK);
    ck_assert_uint_eq(atomic_load(&memory.count), 0);
    mci_memory_fini(&memory);
}
END_TEST

START_TEST(a_range_in_use_stays_until_its_calls_are_over)
{
    struct mci_memory memory;
    struct mci_memory_use use = {.count = 0};
    char *a = (char *)(uintptr_t)0x100000;
    ck_assert_int_eq(mci_memory_init(&memory), MC_OK);
    ck_assert_int_eq(mci_memory_add(&memory, a, 4096), MC_OK);
    ck_assert(!mci_memory_use(&memory, &use, a + 4095, 2));
    ck_assert(!mci_memory_use(&memory, &use, a - 1, 2));
    ck_assert(mci_memory_use(&memory, &use, a, 4096));
    ck_assert(mci_memory_use(&memory, &use, a + 4095, 1));
    ck_assert_int_eq(mci_memory_remove(&memory, a, 0), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(atomic_load(&memory.count), 1);
    mci_memory_release(&memory, &use);
    ck_assert_int_eq(mci_memory_remove(&memory, a, 0), MC_OK);
    mci_memory_fini(&memory);
}
END_TEST

/* One is there that the call does not use. */
static void use_many(int count, bool is_listed)
{
    struct mci_memory memory;
    struct mci_memory_use use = {.count = 0};
    char *a = (char *)(uintptr_t)0x100000;
    char *other = a + (size_t)count * 4096;
    ck_assert_int_eq(mci_memory_init(&memory), MC_OK);
    for (int i = 0; i <= count; i++) {
        ck_assert_int_eq(mci_memory_add(&memory, a + (size_t)i * 4096, 4096),
                         MC_OK);
    }
    for (int i = 0; i < count; i++) {
        ck_assert(mci_memory_use(&memory, &use, a + (size_t)i * 4096, 4096));
    }
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(mci_memory_remove(&memory, a + (size_t)i * 4096, 0),
                         MC_ERR_RPC_TIMEOUT);
    }
    ck_assert_int_eq(mci_memory_remove(&memory, other, 0),
                     is_listed ? MC_OK : MC_ERR_RPC_TIMEOUT);
    mci_memory_release(&memory, &use);
    for (int i = 0; i < count + !is_listed; i++) {
        ck_assert_int_eq(mci_memory_remove(&memory, a + (size_t)i * 4096, 0),
                         MC_OK);
    }
    mci_memory_fini(&memory);
}

START_TEST(a_call_uses_what_it_names_and_no_more)
{
    use_many(MCI_MEMORY_USES, true);
    use_many(MCI_MEMORY_USES + 1, true);
    use_many(MCI_MEMORY_USES_MAX, true);
}
END_TEST

START_TEST(a_call_may_use_more_ranges_than_it_lists)
{
    use_many(MCI_MEMORY_USES_MAX + 1, false);
}
END_TEST

START_TEST(a_call_without_memory_for_a_list_uses_all)
{
    struct alloc_fail fail;
    char *a = (char *)(uintptr_t)0x100000;
    char *other = a + (size_t)MCI_MEMORY_USES * 8192;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_memory memory;
        struct mci_memory_use use = {.count = 0};
        ck_assert_int_eq(mci_memory_init(&memory), MC_OK);
        ck_assert_int_eq(mci_memory_add(&memory, other, 4096), MC_OK);
        for (size_t i = 0; i <= MCI_MEMORY_USES; i++) {
            ck_assert_int_eq(mci_memory_add(&memory, a + i * 4096, 4096),
                             MC_OK);
        }
        alloc_fail_arm(&fail);
        for (size_t i = 0; i <= MCI_MEMORY_USES; i++) {
            ck_assert(mci_memory_use(&memory, &use, a + i * 4096, 4096));
        }
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(mci_memory_remove(&memory, other, 0),
                         alloc_fail_happened(&fail) ? MC_ERR_RPC_TIMEOUT
                                                    : MC_OK);
        mci_memory_release(&memory, &use);
        mci_memory_fini(&memory);
    }
}
END_TEST

struct leaving {
    struct mci_memory *memory;
    void *base;
    atomic_int err;
};

static void *leave(void *ctx)
{
    struct leaving *leaving = ctx;
    atomic_store(&leaving->err,
                 mci_memory_remove(leaving->memory, leaving->base, UINT64_MAX));
    return NULL;
}

START_TEST(who_unregisters_waits_and_lets_nobody_new_in)
{
    struct mci_memory memory;
    struct mci_memory_use use = {.count = 0};
    struct mci_memory_use late = {.count = 0};
    char *a = (char *)(uintptr_t)0x100000;
    pthread_t thread;
    ck_assert_int_eq(mci_memory_init(&memory), MC_OK);
    ck_assert_int_eq(mci_memory_add(&memory, a, 4096), MC_OK);
    ck_assert(mci_memory_use(&memory, &use, a, 1));
    struct leaving leaving = {.memory = &memory, .base = a};
    atomic_init(&leaving.err, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, leave, &leaving), 0);
    bool is_out = false;
    ck_assert(AWAIT((is_out = !mci_memory_use(&memory, &late, a, 1),
                     mci_memory_release(&memory, &late), is_out)));
    ck_assert_int_eq(atomic_load(&leaving.err), 1);
    mci_memory_release(&memory, &use);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&leaving.err), MC_OK);
    mci_memory_fini(&memory);
}
END_TEST

/* ---- H1: what is not registered is not touched ------------------------------ */

START_TEST(memory_that_is_not_registered_is_refused)
{
    uint8_t *block = must_alloc(4 * LEN);
    uint8_t *inside = block + LEN;
    open_rig();
    stamp_fill(block, 4 * LEN, 1);
    ck_assert_int_eq(put_from("a", inside, LEN), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_register_buffer(rig.client, inside, 2 * LEN),
                     MC_OK);
    ck_assert_int_eq(put_from("a", inside - 1, LEN), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_from("a", inside + LEN + 1, LEN),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_from("a", NULL, LEN), MC_ERR_INVALID_PARAMS);
    ck_assert(!client_has(&rig, "a"));
    ck_assert_int_eq(put_from("a", inside, LEN), MC_OK);
    memset(block, 0xcc, 4 * LEN);
    ck_assert_int_eq(get_into("a", inside - 8, LEN), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(get_into("a", inside + LEN + 8, LEN),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(get_into("a", NULL, LEN), MC_ERR_INVALID_PARAMS);
    for (size_t i = 0; i < 4 * LEN; i++) {
        ck_assert_uint_eq(block[i], 0xcc);
    }
    ck_assert_int_eq(get_into("a", inside + LEN, LEN), MC_OK);
    ck_assert_int_eq(mc_client_unregister_buffer(rig.client, inside), MC_OK);
    ck_assert_int_eq(get_into("a", inside, LEN), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_unregister_buffer(rig.client, inside),
                     MC_ERR_INVALID_PARAMS);
    client_close(&rig);
    free(block);
}
END_TEST

START_TEST(a_batch_refuses_the_row_and_not_its_neighbours)
{
    uint8_t *block = must_alloc(3 * LEN);
    struct mc_view keys[] = {mc_view_str("a"), mc_view_str("b"),
                             mc_view_str("c")};
    struct mc_span spans[] = {
        {block, LEN}, {block + 2 * LEN, LEN}, {block + LEN, LEN}};
    struct mc_spans lists[] = {{&spans[0], 1}, {&spans[0], 2}, {&spans[2], 1}};
    int64_t results[3];
    open_rig();
    stamp_fill(block, 3 * LEN, 5);
    ck_assert_int_eq(mc_client_register_buffer(rig.client, block, 2 * LEN),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_batch_put_from(rig.client, keys, spans, 3, NULL, results),
        MC_OK);
    ck_assert(results[0] == 0 && results[1] == MC_ERR_INVALID_PARAMS &&
              results[2] == 0);
    ck_assert_int_eq(
        mc_client_batch_upsert_from(rig.client, keys, spans, 3, NULL, results),
        MC_OK);
    ck_assert(results[0] == 0 && results[1] == MC_ERR_INVALID_PARAMS &&
              results[2] == 0);
    ck_assert_int_eq(mc_client_put(rig.client, keys[1], block, LEN, NULL),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_batch_get_into(rig.client, keys, spans, 3, results), MC_OK);
    ck_assert(results[0] == LEN && results[1] == MC_ERR_INVALID_PARAMS &&
              results[2] == LEN);
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffers(
                         rig.client, keys, lists, 3, false, results),
                     MC_OK);
    ck_assert(results[0] == LEN && results[1] == MC_ERR_INVALID_PARAMS &&
              results[2] == LEN);
    ck_assert_int_eq(
        mc_client_upsert_from(rig.client, keys[0], block + 2 * LEN, LEN, NULL),
        MC_ERR_INVALID_PARAMS);
    client_close(&rig);
    free(block);
}
END_TEST

START_TEST(calls_that_copy_take_any_memory)
{
    uint8_t value[100];
    struct mc_span parts[] = {{value, 40}, {value + 40, 60}};
    void *data = NULL;
    size_t len = 0;
    open_rig();
    stamp_fill(value, sizeof value, 9);
    ck_assert_int_eq(
        mc_client_put(rig.client, mc_view_str("a"), value, sizeof value, NULL),
        MC_OK);
    ck_assert_int_eq(
        mc_client_put_parts(rig.client, mc_view_str("b"), parts, 2, NULL),
        MC_OK);
    ck_assert_int_eq(
        mc_client_upsert_parts(rig.client, mc_view_str("b"), parts, 2, NULL),
        MC_OK);
    ck_assert_int_eq(mc_client_get(rig.client, mc_view_str("b"), &data, &len),
                     MC_OK);
    ck_assert_uint_eq(len, sizeof value);
    ck_assert_mem_eq(data, value, len);
    mc_client_free(data);
    client_close(&rig);
}
END_TEST

/* ---- H3: freed, mapped again, registered again -------------------------------- */

START_TEST(memory_at_the_same_address_is_fresh_memory)
{
    open_rig();
    void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t stamp = 0;
        char key[] = {(char)('a' + (char)i), '\0'};
        ck_assert_int_eq(mc_client_register_buffer(rig.client, at, LEN), MC_OK);
        stamp_fill(at, LEN, 70 + i);
        ck_assert_int_eq(put_from(key, at, LEN), MC_OK);
        memset(at, 0, LEN);
        ck_assert_int_eq(get_into(key, at, LEN), MC_OK);
        ck_assert(stamp_read(at, LEN, &stamp) && stamp == 70 + i);
        ck_assert_int_eq(mc_client_unregister_buffer(rig.client, at), MC_OK);
        ck_assert_int_eq(munmap(at, LEN), 0);
        void *again = mmap(at, LEN, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        ck_assert_ptr_eq(again, at);
    }
    ck_assert_int_eq(munmap(at, LEN), 0);
    client_close(&rig);
}
END_TEST

/* ---- H4: every kind of mapping ------------------------------------------------- */

static void takes_mapping(int flags, int fd)
{
    uint64_t stamp = 0;
    uint8_t *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, fd, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    ck_assert_int_eq(mc_client_register_buffer(rig.client, at, LEN), MC_OK);
    stamp_fill(at, LEN, 12);
    ck_assert_int_eq(
        mc_client_upsert_from(rig.client, mc_view_str("m"), at, LEN, NULL),
        MC_OK);
    memset(at, 0, LEN);
    ck_assert_int_eq(get_into("m", at, LEN), MC_OK);
    ck_assert(stamp_read(at, LEN, &stamp) && stamp == 12);
    ck_assert_int_eq(mc_client_unregister_buffer(rig.client, at), MC_OK);
    ck_assert_int_eq(munmap(at, LEN), 0);
}

START_TEST(anonymous_shared_and_file_backed_memory_will_do)
{
    open_rig();
    takes_mapping(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    takes_mapping(MAP_SHARED | MAP_ANONYMOUS, -1);
    int fd = memfd_create("buffer", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)LEN), 0);
    takes_mapping(MAP_SHARED, fd);
    takes_mapping(MAP_PRIVATE, fd);
    ck_assert_int_eq(close(fd), 0);
    client_close(&rig);
}
END_TEST

/* ---- H5: no 32-bit page numbers -------------------------------------------------- */

START_TEST(five_gigabytes_may_be_registered_and_used_at_their_end)
{
    size_t len = (size_t)5 << 30;
    size_t far = ((size_t)9 << 29) + 12345;
    uint64_t stamp = 0;
    open_rig();
    uint8_t *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    ck_assert_int_eq(mc_client_register_buffer(rig.client, at, len), MC_OK);
    stamp_fill(at + far, LEN, 44);
    ck_assert_int_eq(put_from("far", at + far, LEN), MC_OK);
    memset(at + far, 0, LEN);
    ck_assert_int_eq(get_into("far", at + far, LEN), MC_OK);
    ck_assert(stamp_read(at + far, LEN, &stamp) && stamp == 44);
    ck_assert_int_eq(mc_client_unregister_buffer(rig.client, at), MC_OK);
    ck_assert_int_eq(munmap(at, len), 0);
    client_close(&rig);
}
END_TEST

static TCase *memory(void)
{
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, ranges_are_counted_and_never_overlap);
    tcase_add_test(tcase, a_range_in_use_stays_until_its_calls_are_over);
    tcase_add_test(tcase, a_call_uses_what_it_names_and_no_more);
    tcase_add_test(tcase, a_call_may_use_more_ranges_than_it_lists);
    tcase_add_test(tcase, a_call_without_memory_for_a_list_uses_all);
    tcase_add_test(tcase, who_unregisters_waits_and_lets_nobody_new_in);
    tcase_add_test(tcase, memory_that_is_not_registered_is_refused);
    tcase_add_test(tcase, a_batch_refuses_the_row_and_not_its_neighbours);
    tcase_add_test(tcase, calls_that_copy_take_any_memory);
    tcase_add_test(tcase, memory_at_the_same_address_is_fresh_memory);
    tcase_add_test(tcase, anonymous_shared_and_file_backed_memory_will_do);
    tcase_add_test(tcase,
                   five_gigabytes_may_be_registered_and_used_at_their_end);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client memory");
    suite_add_tcase(suite, memory());
    return suite_run(suite);
}
