/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - the requests that both processes of the quickstart know, and how a
 * block of them is named.
 *
 * A trace is JSON lines: timestamp in ms, hash_ids, session_id. A block's key
 * is `<64 hex>__k`, the hex being XXH3-128 of the id's decimal text, twice;
 * its group is `sglang-hicache:<64 hex>`; the index knows it by the first 64
 * bits.
 * Threads: read once, then any.
 */
#ifndef TRACE_H
#define TRACE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_request {
    uint64_t timestamp_ms;
    char *session;
    size_t session_len;
    uint64_t *ids;
    size_t count;
};

struct trace {
    struct trace_request *requests;
    size_t count;
    size_t capacity;
    size_t blocks;   /* of all requests */
    size_t distinct; /* different ones among them */
    size_t longest;  /* blocks of the longest request */
};

/* False after a line on stderr that names the file and the line. */
bool trace_read(const char *path, struct trace *trace_out);
void trace_free(struct trace *trace);

/* A tenth of the different blocks, at least 512: what the store can hold. */
size_t trace_pool_blocks(const struct trace *trace);

struct trace_names {
    char key[72];   /* with a NUL */
    char group[88]; /* with a NUL */
    uint64_t hash;  /* first 64 bits */
};
void trace_name(uint64_t id, struct trace_names *names_out);

/* The bytes of a block: pseudorandom, from its id alone. */
void trace_fill(unsigned char *bytes, size_t len, uint64_t id);

/* "4096", "4KB", "1MB", "1GB". */
bool trace_size_parse(const char *text, size_t *size_out);

#endif
