/* SPDX-License-Identifier: Apache-2.0 */
/* msgpack-c as second opinion: it must accept what our reader accepts, with the
 * same values, and refuse what our reader calls cut or malformed. */
#include <msgpack.h>
#include <stdlib.h>

#include "mci_alloc.h"
#include "mci_unpack.h"
#include "suite.h"
#include "vectors.h"

static struct mci_unpack unpack_of(const char *bytes, size_t len)
{
    struct mci_unpack unpack;
    mci_unpack_init(&unpack, mc_view_make(bytes, len));
    return unpack;
}

#define NESTING 6

static void pack_random(msgpack_packer *packer, uint64_t *random, int depth);

static void pack_random_bytes(msgpack_packer *packer, uint64_t *random)
{
    static const char text[300] = "text";
    size_t len = vector_random(random, vector_random(random, 8) ? 40 : 300);
    switch (vector_random(random, 3)) {
    case 0:
        msgpack_pack_str(packer, len);
        msgpack_pack_str_body(packer, text, len);
        break;
    case 1:
        msgpack_pack_bin(packer, len);
        msgpack_pack_bin_body(packer, text, len);
        break;
    default:
        msgpack_pack_ext(packer, len, 5);
        msgpack_pack_ext_body(packer, text, len);
        break;
    }
}

static void pack_random_container(msgpack_packer *packer, uint64_t *random,
                                  int depth)
{
    size_t count =
        depth > NESTING
            ? 0
            : vector_random(random, vector_random(random, 9) ? 4 : 20);
    size_t values = count;
    if (vector_random(random, 2)) {
        msgpack_pack_array(packer, count);
    } else {
        msgpack_pack_map(packer, count);
        values *= 2;
    }
    for (size_t i = 0; i < values; i++) {
        pack_random(packer, random, depth + 1);
    }
}

static void pack_random(msgpack_packer *packer, uint64_t *random, int depth)
{
    uint64_t number = vector_random(random, UINT64_MAX);
    number >>= vector_random(random, 64);
    switch (vector_random(random, 8)) {
    case 0:
        msgpack_pack_nil(packer);
        break;
    case 1:
        msgpack_pack_true(packer);
        break;
    case 2:
        msgpack_pack_uint64(packer, number);
        break;
    case 3:
        msgpack_pack_int64(packer, -(int64_t)(number >> 1));
        break;
    case 4:
        msgpack_pack_double(packer, (double)number);
        break;
    case 5:
        pack_random_bytes(packer, random);
        break;
    default:
        pack_random_container(packer, random, depth);
        break;
    }
}

/* msgpack-c gives empty ones no place. */
static void check_body(struct mc_view view, const char *bytes, uint32_t len)
{
    ck_assert_ptr_nonnull(view.data);
    ck_assert_uint_eq(view.len, len);
    ck_assert(len == 0 || memcmp(view.data, bytes, len) == 0);
}

static void compare(struct mci_unpack *unpack, const msgpack_object *object);

static void compare_all(struct mci_unpack *unpack,
                        const msgpack_object *objects, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        compare(unpack, &objects[i]);
    }
}

static void compare_map(struct mci_unpack *unpack, const msgpack_object *object)
{
    uint32_t size = object->via.map.size;
    ck_assert_uint_eq(mci_unpack_map(unpack, 0, UINT32_MAX), size);
    for (uint32_t i = 0; i < size; i++) {
        compare(unpack, &object->via.map.ptr[i].key);
        compare(unpack, &object->via.map.ptr[i].val);
    }
}

static void compare(struct mci_unpack *unpack, const msgpack_object *object)
{
    struct mc_view view;
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
        ck_assert(mci_unpack_took_nil(unpack));
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        ck_assert(mci_unpack_bool(unpack) == object->via.boolean);
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        ck_assert_uint_eq(mci_unpack_u64(unpack, UINT64_MAX), object->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        ck_assert_int_eq(mci_unpack_i64(unpack, INT64_MIN, -1),
                         object->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64: {
        double number = mci_unpack_float(unpack);
        ck_assert(number == object->via.f64 ||
                  (number != number && object->via.f64 != object->via.f64));
        break;
    }
    case MSGPACK_OBJECT_STR:
        view = mci_unpack_str(unpack, SIZE_MAX);
        check_body(view, object->via.str.ptr, object->via.str.size);
        break;
    case MSGPACK_OBJECT_BIN:
        view = mci_unpack_bin(unpack, 0, SIZE_MAX);
        check_body(view, object->via.bin.ptr, object->via.bin.size);
        break;
    case MSGPACK_OBJECT_EXT:
        ck_assert_int_eq(mci_unpack_peek(unpack), MCI_UNPACK_EXT);
        mci_unpack_skip(unpack, 0);
        break;
    case MSGPACK_OBJECT_ARRAY:
        ck_assert_uint_eq(mci_unpack_array(unpack, 0, UINT32_MAX),
                          object->via.array.size);
        compare_all(unpack, object->via.array.ptr, object->via.array.size);
        break;
    case MSGPACK_OBJECT_MAP:
        compare_map(unpack, object);
        break;
    }
}

/* msgpack-c sizes its memory by headers it has not checked: inputs with a
 * 32-bit count are kept from it unless our reader has accepted them. */
static bool may_ask(const uint8_t *bytes, size_t len,
                    enum mci_unpack_error error)
{
    return error == MCI_UNPACK_OK ||
           (!memchr(bytes, 0xdd, len) && !memchr(bytes, 0xdf, len));
}

static void check_agreement(const uint8_t *bytes, size_t len, int *agreed)
{
    struct mci_unpack unpack = unpack_of((const char *)bytes, len);
    msgpack_unpacked result;
    size_t offset = 0;
    mci_unpack_skip(&unpack, MCI_UNPACK_DEPTH_MAX - 2);
    enum mci_unpack_error error = mci_unpack_done(&unpack);
    if (error == MCI_UNPACK_ERROR_UTF8 || error == MCI_UNPACK_ERROR_DEPTH ||
        !may_ask(bytes, len, error)) {
        return; /* where we are stricter */
    }
    msgpack_unpacked_init(&result);
    bool is_whole = msgpack_unpack_next(&result, (const char *)bytes, len,
                                        &offset) == MSGPACK_UNPACK_SUCCESS &&
                    offset == len;
    ck_assert_msg(is_whole == (error == MCI_UNPACK_OK), "ours: %s at %zu",
                  mci_unpack_error_name(error), unpack.error_offset);
    if (is_whole) {
        unpack = unpack_of((const char *)bytes, len);
        compare(&unpack, &result.data);
        ck_assert_int_eq(mci_unpack_done(&unpack), MCI_UNPACK_OK);
        *agreed += 1;
    }
    msgpack_unpacked_destroy(&result);
}

static void check_mutants(const uint8_t *good, size_t len, uint64_t *random,
                          int *agreed)
{
    /* A block of its own size shows a read beyond the input. */
    uint8_t *bytes = malloc(len);
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < 20; i++) {
        memcpy(bytes, good, len);
        for (uint64_t n = vector_random(random, 4); n > 0; n--) {
            bytes[vector_random(random, len)] =
                (uint8_t)vector_random(random, 256);
        }
        check_agreement(bytes, len, agreed);
    }
    free(bytes);
}

START_TEST(msgpack_c_reads_the_same_values_and_refuses_the_same_bytes)
{
    uint64_t random = 17;
    int agreed = 0;
    for (int i = 0; i < 4000; i++) {
        msgpack_sbuffer packed;
        msgpack_packer packer;
        msgpack_sbuffer_init(&packed);
        msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
        pack_random(&packer, &random, 0);
        check_agreement((const uint8_t *)packed.data, packed.size, &agreed);
        check_mutants((const uint8_t *)packed.data, packed.size, &random,
                      &agreed);
        for (size_t cut = 0; cut < packed.size && cut < 60; cut++) {
            check_agreement((const uint8_t *)packed.data, cut, &agreed);
        }
        msgpack_sbuffer_destroy(&packed);
    }
    ck_assert_int_gt(agreed, 4000);
}
END_TEST

START_TEST(bytes_without_any_plan_are_judged_alike)
{
    uint64_t random = 23;
    uint8_t bytes[48];
    int agreed = 0;
    uint64_t before = mci_alloc_thread_calls();
    for (int i = 0; i < 200000; i++) {
        size_t len = vector_random(&random, sizeof bytes);
        for (size_t k = 0; k < len; k++) {
            bytes[k] = (uint8_t)vector_random(&random, 256);
        }
        check_agreement(bytes, len, &agreed);
    }
    ck_assert_int_gt(agreed, 1000);
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unpack_peer");
    TCase *opinions = tcase_create("opinions");
    tcase_set_timeout(opinions, 120);
    tcase_add_test(opinions,
                   msgpack_c_reads_the_same_values_and_refuses_the_same_bytes);
    tcase_add_test(opinions, bytes_without_any_plan_are_judged_alike);
    suite_add_tcase(suite, opinions);
    return suite_run(suite);
}
