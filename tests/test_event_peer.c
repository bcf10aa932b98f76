/* SPDX-License-Identifier: Apache-2.0 */
/* The strict reader beside msgpack-c with the rules written down plainly: they
 * agree about golden messages, and about those messages with bytes changed,
 * left out and doubled. */
#include "event_peer.h"
#include "suite.h"
#include "vectors.h"

#define VIEWS 256
#define BYTES_MAX 65536
#define MUTANTS (getenv("MC_SOAK") ? 20000 : 150)

static struct mc_event events[VIEWS];
static size_t taken;

static void compare(const void *bytes, size_t len, const char *row)
{
    /* In a block of its own size, so that a sanitizer sees a read past it. */
    uint8_t *copy = malloc(len ? len : 1);
    size_t count;
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, len);
    const char *fault =
        event_peer_compare(mc_view_make(copy, len), events, VIEWS, &count);
    ck_assert_msg(!fault, "%s: they do not agree about %s", row, fault);
    taken += count;
    free(copy);
}

static size_t mutate(uint8_t *bytes, size_t len, uint64_t *random)
{
    size_t at = (size_t)vector_random(random, len);
    size_t run = 1 + (size_t)vector_random(random, 24);
    switch (vector_random(random, 6)) {
    case 0: /* left out */
        run = run < len - at ? run : len - at;
        memmove(bytes + at, bytes + at + run, len - at - run);
        return len - run;
    case 1: /* twice */
        run = run < len - at ? run : len - at;
        memmove(bytes + at + run, bytes + at, len - at);
        return len + run;
    case 2: /* another form of a small value */
        bytes[at] = (uint8_t)(0xc0 + vector_random(random, 32));
        return len;
    case 3:
        bytes[at] ^= (uint8_t)(1u << vector_random(random, 8));
        return len;
    case 4: /* a word of another place */
        run = run < len - at ? run : len - at;
        memmove(bytes + at, bytes + vector_random(random, len - run + 1), run);
        return len;
    default:
        bytes[at] = (uint8_t)vector_random(random, 256);
        return len;
    }
}

static void compare_row(json_object *row, uint64_t *random)
{
    static uint8_t bytes[BYTES_MAX + 64];
    const char *name = vector_string(row, "name");
    struct vector_frames message;
    vector_frames_make(row, &message);
    struct mc_view payload = message.frames[2];
    if (message.count == 3 && payload.len > 0 && payload.len < BYTES_MAX) {
        compare(payload.data, payload.len, name);
        for (int k = 0; k < MUTANTS; k++) {
            memcpy(bytes, payload.data, payload.len);
            size_t len = mutate(bytes, payload.len, random);
            if (k % 3 == 0 && len > 0) {
                len = mutate(bytes, len, random);
            }
            compare(bytes, len, name);
        }
    }
    vector_frames_free(&message);
}

START_TEST(msgpack_c_and_plain_rules_say_what_the_reader_says)
{
    static const char *const files[] = {"decode.json", "decode-more.json",
                                        "decode-own.json", "lint.json",
                                        "engine.json"};
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        json_object *rows = vectors_load_copy(files[i]);
        ck_assert_uint_gt(json_object_array_length(rows), 20);
        for (size_t k = 0; k < json_object_array_length(rows); k++) {
            compare_row(json_object_array_get_idx(rows, k), &random);
        }
        json_object_put(rows);
    }
    ck_assert_uint_gt(taken, 10000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_peer");
    TCase *peer = tcase_create("peer");
    tcase_set_timeout(peer, 0);
    tcase_add_test(peer, msgpack_c_and_plain_rules_say_what_the_reader_says);
    suite_add_tcase(suite, peer);
    return suite_run(suite);
}
