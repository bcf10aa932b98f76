/* SPDX-License-Identifier: Apache-2.0 */
/* client_rig.h - an embedded client with the test as the tap of its event log.
 *
 * Values carry a stamp over their whole length, so that bytes of two versions
 * cannot pass as one.
 */
#ifndef CLIENT_RIG_H
#define CLIENT_RIG_H
#include <check.h>

#include "mc_client.h"
#include "mci_event_log.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define CLIENT_TEXT_MAX (1 << 20)

/* Not UTF-8, each in its own way. */
#define BAD_UTF8_LIST                                                    \
    {                                                                    \
        {"\xff", 1}, {"a\xff", 2}, {"\xc0\x80", 2}, {"\xed\xa0\x80", 3}, \
            {"\xe2\x82", 2}, {"\xf4\x90\x80\x80", 4}, {"ok\x80", 3},     \
    }
#define BAD_UTF8_COUNT 7

struct client_rig {
    struct mc_client *client;
    struct mci_event_log *log;
    uint64_t last_id; /* of the tap */
    struct mci_log_taken taken;
    char *text;
};

/* opts may be NULL: 1 MiB, nothing else. Unless a high watermark is given there
 * is no background eviction, which would come between any two calls. */
void client_open(struct client_rig *rig, const struct mc_client_opts *opts);
void client_close(struct client_rig *rig);

/* As rig_events of store_rig.h. */
const char *client_events(struct client_rig *rig);

/* All that a refused call must leave alone; the caller frees. */
char *client_state(struct client_rig *rig);

#define EXPECT_CLIENT_UNCHANGED(rig, before)      \
    do {                                          \
        char *now_ = client_state(rig);           \
        ck_assert_str_eq(now_, before);           \
        ck_assert_str_eq(client_events(rig), ""); \
        free(now_);                               \
    } while (0)

/* One key with an optional tag and group, "key#tag@group". */
enum mc_err client_put(struct client_rig *rig, const char *spec,
                       const void *data, size_t len);
enum mc_err client_upsert(struct client_rig *rig, const char *spec,
                          const void *data, size_t len);
struct mc_probe client_probe(struct client_rig *rig, const char *key);
bool client_has(struct client_rig *rig, const char *key);

/* Writes a stamp all over a value, and reads it back: false if any byte is of
 * another. */
void stamp_fill(void *data, size_t len, uint64_t stamp);
bool stamp_read(const void *data, size_t len, uint64_t *stamp_out);

/* True under a sanitizer, where time is short. */
bool runs_slowly(void);
#endif
