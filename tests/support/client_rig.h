/* SPDX-License-Identifier: Apache-2.0 */
/* client_rig.h - a client with the test as the tap of its store's event log.
 *
 * The store is embedded, or, with MC_CLIENT_LINK=tcp or =shm in the environment,
 * a master reached over a socket, with another client that lends the memory; so
 * every test that is not about one of them runs over both.
 *
 * Values carry a stamp over their whole length, so that bytes of two versions
 * cannot pass as one.
 */
#ifndef CLIENT_RIG_H
#define CLIENT_RIG_H
#include <check.h>

#include "mc_client.h"
#include "mci_event_log.h"
#include "process_rig.h"

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
    struct mc_client *lender; /* NULL: embedded */
    struct process_rig process;
    struct mci_event_log *log;
    uint64_t last_id; /* of the tap */
    struct mci_log_taken taken;
    char *text;
};

/* opts may be NULL: 1 MiB, nothing else. Unless a high watermark is given there
 * is no background eviction, which would come between any two calls. */
void client_open(struct client_rig *rig, const struct mc_client_opts *opts);
void client_close(struct client_rig *rig);
/* Its memory has to be registered. */
void client_open_strict(struct client_rig *rig,
                        const struct mc_client_opts *opts);
/* One more client of the same store, of a master process; the caller closes it
 * before the rig. */
struct mc_client *client_join(struct client_rig *rig,
                              const struct mc_client_opts *opts);
void client_close_detached(struct client_rig *rig); /* the log is detached */

/* NULL: embedded. */
const char *client_link(void);

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
#endif
