/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define VECTOR_COPIES MC_TEST_DATA "/vectors"

char *vectors_text(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    long len = ftell(file);
    ck_assert_int_ge(len, 0);
    ck_assert_int_eq(fseek(file, 0, SEEK_SET), 0);
    char *text = malloc((size_t)len + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, (size_t)len, file), (size_t)len);
    text[len] = 0;
    (void)fclose(file);
    return text;
}

static json_object *parse(char *text, const char *name)
{
    ck_assert_msg(text != NULL, "no vectors %s", name);
    json_object *rows = json_tokener_parse(text);
    ck_assert_msg(rows != NULL, "%s is no JSON", name);
    free(text);
    return rows;
}

json_object *vectors_load(const char *name)
{
    char *text = vectors_text(MC_SHARED_VECTORS, name);
    if (!text) {
        text = vectors_text(VECTOR_COPIES, name);
    }
    return parse(text, name);
}

json_object *vectors_load_copy(const char *name)
{
    return parse(vectors_text(VECTOR_COPIES, name), name);
}

static uint8_t hex_digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static struct mc_view make_frame(const char *hex)
{
    size_t len = strlen(hex) / 2;
    uint8_t *bytes = malloc(len ? len : 1);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] =
            (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    }
    return mc_view_make(bytes, len);
}

void vector_frames_make(json_object *row, struct vector_frames *frames_out)
{
    json_object *frames = json_object_object_get(row, "frames");
    frames_out->count = json_object_array_length(frames);
    ck_assert_uint_le(frames_out->count, VECTOR_FRAMES_MAX);
    for (size_t i = 0; i < frames_out->count; i++) {
        json_object *frame = json_object_array_get_idx(frames, i);
        frames_out->frames[i] = make_frame(json_object_get_string(frame));
    }
}

void vector_frames_free(struct vector_frames *frames)
{
    for (size_t i = 0; i < frames->count; i++) {
        free((void *)(uintptr_t)frames->frames[i].data);
    }
    frames->count = 0;
}

const char *vector_string(json_object *row, const char *name)
{
    return json_object_get_string(json_object_object_get(row, name));
}

uint64_t vector_number(json_object *row, const char *name)
{
    return json_object_get_uint64(json_object_object_get(row, name));
}

uint32_t vector_crc(uint32_t crc, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
        }
    }
    return ~crc;
}

uint64_t vector_random(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 11) % below;
}
