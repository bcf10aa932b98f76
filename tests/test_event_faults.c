/* SPDX-License-Identifier: Apache-2.0 */
/* Which fault is named and where, for every golden row and those of
 * event_rows.py, every truncation of it
 * and two hundred mutants of it: against tests/data/vectors/event-faults.json,
 * which event_model.py wrote from the rules alone. Each message is read both
 * with and without the shortcut over like events. */
#include <stdio.h>
#include <stdlib.h>

#include "event_outcome.h"
#include "suite.h"
#include "vectors.h"

#define LINE_MAX_LEN (64u << 20)
#define MUTANTS 200
#define PAYLOAD_GROWTH 3 /* bytes that a mutant may gain */

static const char *const files[] = {"decode.json", "decode-more.json",
                                    "encode.json", "decode-own.json"};
#define FILES (sizeof files / sizeof files[0])

/* One row of a file and what the model said about it. */
struct faults_row {
    const char *name;
    struct vector_frames message;
    json_object *model;
    uint64_t seed;
};

typedef void (*row_fn)(struct faults_row *row, struct mci_buf *line);

static void for_each_row(row_fn visit)
{
    struct mci_buf line;
    json_object *model = vectors_load_copy("event-faults.json");
    size_t at = 0;
    mci_buf_init(&line, LINE_MAX_LEN);
    for (size_t f = 0; f < FILES; f++) {
        json_object *rows = vectors_load_copy(files[f]);
        for (size_t i = 0; i < json_object_array_length(rows); i++) {
            json_object *row = json_object_array_get_idx(rows, i);
            struct faults_row faults = {vector_string(row, "name"),
                                        {0},
                                        json_object_array_get_idx(model, at++),
                                        i + 1};
            ck_assert_str_eq(vector_string(faults.model, "name"), faults.name);
            vector_frames_make(row, &faults.message);
            visit(&faults, &line);
            vector_frames_free(&faults.message);
        }
        json_object_put(rows);
    }
    ck_assert_uint_eq(at, json_object_array_length(model));
    json_object_put(model);
    mci_buf_fini(&line);
}

static void check_line(struct faults_row *row, struct mci_buf *line)
{
    char crc[16];
    const char *expected = vector_string(row->model, "line");
    event_outcome(row->message.frames, row->message.count, line);
    if (strncmp(expected, "crc:", 4) == 0) {
        (void)snprintf(crc, sizeof crc, "crc:%08x",
                       vector_crc(0, line->data, line->len));
        ck_assert_msg(strcmp(crc, expected) == 0, "%s: %.*s", row->name,
                      (int)line->len, (const char *)line->data);
        return;
    }
    ck_assert_msg(strlen(expected) == line->len &&
                      memcmp(expected, line->data, line->len) == 0,
                  "%s: read %.*s, model %s", row->name, (int)line->len,
                  (const char *)line->data, expected);
}

START_TEST(every_row_has_the_outcome_of_the_model)
{
    for_each_row(check_line);
}
END_TEST

/* Adds the outcome of a payload to a checksum over lines. */
static uint32_t add_outcome(uint32_t crc, const void *payload, size_t len,
                            struct mci_buf *line)
{
    event_outcome_of(payload, len, line);
    ck_assert_int_eq(mci_buf_append_byte(line, '\n'), MC_OK);
    return vector_crc(crc, line->data, line->len);
}

static void check_sum(const struct faults_row *row, const char *what,
                      uint32_t crc)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%08x", crc);
    ck_assert_msg(strcmp(text, vector_string(row->model, what)) == 0,
                  "%s: the %s differ from the model's", row->name, what);
}

static void check_cuts(struct faults_row *row, struct mci_buf *line)
{
    uint32_t crc = 0;
    if (!vector_string(row->model, "cuts")) {
        return;
    }
    struct mc_view payload = row->message.frames[2];
    size_t step = payload.len <= 1500 ? 1 : payload.len / 500;
    for (size_t len = 0; len < payload.len; len += step) {
        crc = add_outcome(crc, payload.data, len, line);
    }
    check_sum(row, "cuts", crc);
}

START_TEST(every_truncation_has_the_outcome_of_the_model)
{
    for_each_row(check_cuts);
}
END_TEST

static const uint8_t telling[] = {0xc0, 0xc1, 0xc2, 0x80, 0x81, 0x90, 0x91,
                                  0x9f, 0xa0, 0xa1, 0xbf, 0xff, 0xe0, 0x7f,
                                  0xc4, 0xc7, 0xca, 0xcc, 0xcf, 0xd0, 0xd3,
                                  0xd4, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf};

static uint8_t telling_byte(uint64_t *random)
{
    return telling[vector_random(random, sizeof telling)];
}

/* One change of the mutate() of the model, draw by draw. */
static size_t change(uint8_t *bytes, size_t len, uint64_t *random)
{
    size_t at = vector_random(random, len);
    switch (vector_random(random, 4)) {
    case 0:
        bytes[at] = (uint8_t)vector_random(random, 256);
        return len;
    case 1:
        bytes[at] = telling_byte(random);
        return len;
    case 2:
        memmove(bytes + at, bytes + at + 1, len - at - 1);
        return len - 1;
    default:
        memmove(bytes + at + 1, bytes + at, len - at);
        bytes[at] = telling_byte(random);
        return len + 1;
    }
}

static void check_mutants(struct faults_row *row, struct mci_buf *line)
{
    uint32_t crc = 0;
    uint64_t random = row->seed;
    if (!vector_string(row->model, "mutants")) {
        return;
    }
    struct mc_view payload = row->message.frames[2];
    uint8_t *bytes = malloc(payload.len + PAYLOAD_GROWTH);
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < MUTANTS; i++) {
        size_t len = payload.len;
        memcpy(bytes, payload.data, len);
        for (uint64_t n = 1 + vector_random(&random, 3); n > 0 && len > 0;
             n--) {
            len = change(bytes, len, &random);
        }
        crc = add_outcome(crc, bytes, len, line);
    }
    free(bytes);
    check_sum(row, "mutants", crc);
}

START_TEST(mutants_have_the_outcome_of_the_model)
{
    for_each_row(check_mutants);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_faults");
    TCase *model = tcase_create("model");
    tcase_set_timeout(model, 300);
    tcase_add_test(model, every_row_has_the_outcome_of_the_model);
    tcase_add_test(model, every_truncation_has_the_outcome_of_the_model);
    tcase_add_test(model, mutants_have_the_outcome_of_the_model);
    suite_add_tcase(suite, model);
    return suite_run(suite);
}
