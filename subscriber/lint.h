/* SPDX-License-Identifier: Apache-2.0 */
/* lint.h - would the known consumers of KV cache events take these messages?
 *
 * Each consumer has rules of its own about what it reads, and what breaking one
 * costs: from an event that is skipped to all that it knew. The rules are those
 * that were found out about its published versions, no more: a message that
 * breaks none is not proved to be taken. They are judged message by message; what
 * messages say together (gaps, restarts) is not looked at.
 * Threads: one thread at a time.
 */
#ifndef LINT_H
#define LINT_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

/* Of the rules: year and month in which they were looked up last. */
#define LINT_RULES_VERSION "2026-11"

/* X(ENUM, name, what it is). */
#define LINT_CONSUMER_LIST(X)                                           \
    X(DYNAMO_HICACHE, "dynamo-hicache",                                 \
      "Dynamo's router with the shared cache type hicache")             \
    X(DYNAMO_MOONCAKE, "dynamo-mooncake-store",                         \
      "Dynamo's router with the shared cache type mooncake-store")      \
    X(DYNAMO_INDEXER, "dynamo-indexer",                                 \
      "Dynamo's standalone indexer and engine relay")                   \
    X(CONDUCTOR_VLLM, "conductor-vllm",                                 \
      "Mooncake Conductor, publisher kind mooncake, strategy vllm_v1")  \
    X(CONDUCTOR_SGLANG, "conductor-sglang",                             \
      "Mooncake Conductor, publisher kind mooncake, strategy sglang")   \
    X(LLM_D, "llm-d", "llm-d's KV cache indexer, default topic filter") \
    X(VLLM_ARRAY, "vllm-array",                                         \
      "vLLM's typed subscriber, before 0.26: events are arrays")        \
    X(VLLM_MAP, "vllm-map",                                             \
      "vLLM's typed subscriber, since 0.26: events are maps")

enum lint_consumer {
#define LINT_CONSUMER_ENUM_(name, text, what) LINT_##name,
    LINT_CONSUMER_LIST(LINT_CONSUMER_ENUM_)
#undef LINT_CONSUMER_ENUM_
        LINT_CONSUMER_COUNT
};

const char *lint_consumer_name(enum lint_consumer consumer);
const char *lint_consumer_what(enum lint_consumer consumer);
/* False, and nothing set: there is none of that name. */
bool lint_consumer_find(struct mc_view name, enum lint_consumer *consumer_out);

/* What breaking a rule costs, each worse than the one before. */
enum lint_cost {
    LINT_TAKES = 0,
    LINT_IGNORES, /* the event is passed over, as it is meant to be */
    LINT_SKIPS,   /* the event is lost to it */
    LINT_REFUSES, /* the message is */
    LINT_CLEARS,  /* so is all that it knew before */
    LINT_DEAF     /* it never gets the message */
};
const char *lint_cost_name(enum lint_cost cost); /* "takes" ... */

struct lint;

/* The caller owns it. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err lint_create(struct lint **lint_out);
void lint_destroy(struct lint *lint); /* NULL is fine */

/* Judges one message, in the order in which they are sent. False: it was not
 * judged, since it has over a million values or there is no memory; it is
 * counted as such. */
bool lint_message(struct lint *lint, const struct mc_view *frames,
                  size_t frame_count);

/* What one consumer makes of all messages so far. */
struct lint_row {
    uint64_t messages; /* judged */
    uint64_t unjudged;
    uint64_t taken;   /* messages: with no more than ignored events */
    uint64_t lost;    /* messages: refused, cleared or never got */
    uint64_t events;  /* in the judged messages */
    uint64_t skipped; /* events, of messages that are not lost */
    uint64_t ignored; /* events, of messages that are not lost */
    enum lint_cost worst;
};
void lint_row(const struct lint *lint, enum lint_consumer consumer,
              struct lint_row *row_out);

#define LINT_NO_EVENT UINT32_MAX

/* A rule that was broken, and where it was first. Strings are static. */
struct lint_finding {
    const char *rule; /* "token_ids_nil" */
    const char *text; /* what the consumer wants */
    enum lint_cost cost;
    uint64_t messages; /* in which it was broken */
    uint64_t events;   /* that broke it; 0: rules of a message */
    uint64_t message;  /* the first one, counted from 1 */
    uint32_t event;    /* the first one, from 0, or LINT_NO_EVENT */
    uint32_t offset;   /* into its payload; 0 for frames */
};

/* The rules that a consumer's messages broke, worst first, then in the order of
 * the rules. Writes at most `capacity`; returns how many there are. */
size_t lint_findings(const struct lint *lint, enum lint_consumer consumer,
                     struct lint_finding *findings_out, size_t capacity);
#define LINT_FINDINGS_MAX 64 /* no consumer has more rules */

#endif
