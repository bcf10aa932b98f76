/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the rules for each message and keeps count. */
#include "lint.h"

#include <string.h>

#include "lint_rules.h"
#include "mci_alloc.h"

struct tally { /* of one rule, for one consumer */
    uint64_t messages;
    uint64_t events;
    uint64_t last;  /* message that was counted last, from 1 */
    uint64_t first; /* the first one, and where in it */
    uint32_t event;
    uint32_t offset;
};

struct row {
    uint64_t taken;
    uint64_t lost;
    uint64_t skipped;
    uint64_t ignored;
    enum lint_cost worst;
    struct tally tallies[LINT_FINDINGS_MAX];
};

/* What the message at hand costs a consumer. */
struct verdict {
    enum lint_cost cost;       /* of the message */
    enum lint_cost event_cost; /* of the event at hand */
    uint64_t skipped;
    uint64_t ignored;
    bool is_past; /* a gate of the message or event was shut */
};

struct lint {
    struct lint_tree tree;
    uint64_t messages;
    uint64_t unjudged;
    uint64_t events;
    struct row rows[LINT_CONSUMER_COUNT];
    struct verdict verdicts[LINT_CONSUMER_COUNT];
};

/* ---- names ------------------------------------------------------------- */

static const char *const names[LINT_CONSUMER_COUNT] = {
#define NAME_ROW(name, text, what) [LINT_##name] = text,
    LINT_CONSUMER_LIST(NAME_ROW)
#undef NAME_ROW
};
static const char *const whats[LINT_CONSUMER_COUNT] = {
#define WHAT_ROW(name, text, what) [LINT_##name] = what,
    LINT_CONSUMER_LIST(WHAT_ROW)
#undef WHAT_ROW
};

const char *lint_consumer_name(enum lint_consumer consumer)
{
    return (unsigned)consumer < LINT_CONSUMER_COUNT ? names[consumer]
                                                    : "unknown";
}

const char *lint_consumer_what(enum lint_consumer consumer)
{
    return (unsigned)consumer < LINT_CONSUMER_COUNT ? whats[consumer] : "";
}

bool lint_consumer_find(struct mc_view name, enum lint_consumer *consumer_out)
{
    for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
        if (mc_view_equal(name, mc_view_str(names[i]))) {
            *consumer_out = (enum lint_consumer)i;
            return true;
        }
    }
    return false;
}

const char *lint_cost_name(enum lint_cost cost)
{
    static const char *const costs[] = {"takes",   "ignores", "skips",
                                        "refuses", "clears",  "deaf"};
    return (unsigned)cost < sizeof costs / sizeof costs[0] ? costs[cost]
                                                           : "unknown";
}

/* ---- judging ----------------------------------------------------------- */

enum mc_err lint_create(struct lint **lint_out)
{
    struct lint *lint = mci_calloc(1, sizeof *lint);
    if (!lint) {
        return MC_ERR_NOMEM;
    }
    *lint_out = lint;
    return MC_OK;
}

void lint_destroy(struct lint *lint)
{
    if (lint) {
        lint_tree_fini(&lint->tree);
        mci_free(lint);
    }
}

/* A batch that cannot be read costs Dynamo's store cache all that it knew. */
static enum lint_cost cost_of(const struct lint_rule *rule,
                              enum lint_consumer consumer)
{
    return rule->cost == LINT_REFUSES && consumer == LINT_DYNAMO_MOONCAKE
               ? LINT_CLEARS
               : rule->cost;
}

struct judgement {
    struct lint *lint;
    struct lint_place at;
    uint32_t event; /* its number, or LINT_NO_EVENT */
};

static void note(const struct judgement *judgement, struct tally *tally,
                 uint32_t offset)
{
    const struct lint *lint = judgement->lint;
    if (tally->messages == 0) {
        tally->first = lint->messages;
        tally->event = judgement->event;
        tally->offset = offset;
    }
    tally->messages += tally->last != lint->messages;
    tally->last = lint->messages;
    tally->events += judgement->event != LINT_NO_EVENT;
}

static enum lint_cost worse(enum lint_cost a, enum lint_cost b)
{
    return a > b ? a : b;
}

static void charge(const struct judgement *judgement, size_t rule,
                   uint32_t offset)
{
    struct lint *lint = judgement->lint;
    for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
        struct verdict *verdict = &lint->verdicts[i];
        if (!(lint_rules[rule].consumers & LINT_BIT(i)) || verdict->is_past) {
            continue;
        }
        note(judgement, &lint->rows[i].tallies[rule], offset);
        enum lint_cost cost = cost_of(&lint_rules[rule], (enum lint_consumer)i);
        verdict->is_past = lint_rules[rule].is_gate;
        verdict->event_cost = worse(verdict->event_cost, cost);
        verdict->cost = worse(verdict->cost, cost);
    }
}

static void judge(const struct judgement *judgement, enum lint_stage stage)
{
    for (size_t i = 0; i < lint_rule_count; i++) {
        uint32_t offset = 0;
        if (lint_rules[i].stage == stage &&
            !lint_rules[i].holds(&judgement->at, &offset)) {
            charge(judgement, i, offset);
        }
    }
}

static void close_event(struct lint *lint)
{
    for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
        struct verdict *verdict = &lint->verdicts[i];
        verdict->skipped += verdict->event_cost == LINT_SKIPS;
        verdict->ignored += verdict->event_cost == LINT_IGNORES;
        verdict->event_cost = LINT_TAKES;
        verdict->is_past = false;
    }
}

static void judge_events(struct judgement *judgement)
{
    struct lint *lint = judgement->lint;
    uint32_t list = lint_tree_at(&lint->tree, 0, 1);
    uint32_t at = list + 1;
    close_event(lint); /* what was said of the message is not the first's */
    for (uint32_t i = 0; i < lint->tree.values[list].count; i++) {
        judgement->event = i;
        judgement->at.event = at;
        judge(judgement, LINT_OF_EVENT);
        close_event(lint);
        at = lint->tree.values[at].end;
    }
    lint->events += lint->tree.values[list].count;
}

static void close_message(struct lint *lint)
{
    for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
        const struct verdict *verdict = &lint->verdicts[i];
        struct row *row = &lint->rows[i];
        bool is_lost = verdict->cost >= LINT_REFUSES;
        row->taken += verdict->cost <= LINT_IGNORES;
        row->lost += is_lost;
        row->skipped += is_lost ? 0 : verdict->skipped;
        row->ignored += is_lost ? 0 : verdict->ignored;
        row->worst = worse(row->worst, verdict->cost);
    }
}

bool lint_message(struct lint *lint, const struct mc_view *frames,
                  size_t frame_count)
{
    struct lint_message message = {
        .frames = frames, .frame_count = frame_count, .tree = &lint->tree};
    struct judgement judgement = {
        .lint = lint, .at = {&message, 0}, .event = LINT_NO_EVENT};
    memset(lint->verdicts, 0, sizeof lint->verdicts);
    if (frame_count == 3) {
        message.fault =
            lint_tree_read(&lint->tree, frames[2], &message.fault_offset);
        if (message.fault == MCI_UNPACK_ERROR_LENGTH) {
            lint->unjudged++;
            return false;
        }
    }
    lint->messages++;
    for (enum lint_stage stage = LINT_OF_FRAMES;; stage++) {
        if (stage == LINT_OF_EVENT) {
            judge_events(&judgement);
            break;
        }
        judge(&judgement, stage);
        if (!lint_stage_is_passed(&message, stage)) {
            break;
        }
    }
    close_message(lint);
    return true;
}

/* ---- what was found ---------------------------------------------------- */

void lint_row(const struct lint *lint, enum lint_consumer consumer,
              struct lint_row *row_out)
{
    const struct row *row = &lint->rows[consumer];
    *row_out = (struct lint_row){.messages = lint->messages,
                                 .unjudged = lint->unjudged,
                                 .taken = row->taken,
                                 .lost = row->lost,
                                 .events = lint->events,
                                 .skipped = row->skipped,
                                 .ignored = row->ignored,
                                 .worst = row->worst};
}

size_t lint_findings(const struct lint *lint, enum lint_consumer consumer,
                     struct lint_finding *findings_out, size_t capacity)
{
    size_t count = 0;
    for (int cost = LINT_DEAF; cost > LINT_TAKES; cost--) {
        for (size_t i = 0; i < lint_rule_count; i++) {
            const struct tally *tally = &lint->rows[consumer].tallies[i];
            if (tally->messages == 0 ||
                (int)cost_of(&lint_rules[i], consumer) != cost) {
                continue;
            }
            if (count < capacity) {
                findings_out[count] =
                    (struct lint_finding){.rule = lint_rules[i].name,
                                          .text = lint_rules[i].text,
                                          .cost = (enum lint_cost)cost,
                                          .messages = tally->messages,
                                          .events = tally->events,
                                          .message = tally->first,
                                          .event = tally->event,
                                          .offset = tally->offset};
            }
            count++;
        }
    }
    return count;
}
