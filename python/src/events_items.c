/* SPDX-License-Identifier: Apache-2.0 */
/* events_items.c - what a subscriber delivers, as objects. */
#include "events_py.h"

static PyObject *u64(uint64_t number)
{
    return PyLong_FromUnsignedLongLong(number);
}

static PyObject *truth(bool is_true)
{
    return PyBool_FromLong(is_true);
}

static PyObject *unless(bool is_there, PyObject *(*make)(uint64_t),
                        uint64_t number)
{
    if (is_there) {
        return make(number);
    }
    Py_RETURN_NONE;
}

static PyObject *hashes_of(const struct mc_engine_event *engine)
{
    uint64_t few[64];
    uint64_t *at = few;
    size_t count = engine->hash_count;
    if (count > sizeof few / sizeof few[0]) {
        at = PyMem_Malloc(count * sizeof *at);
        if (!at) {
            return PyErr_NoMemory();
        }
    }
    (void)mc_engine_event_hashes(engine, at, count);
    PyObject *list = mcp_hash_list(at, count);
    if (at != few) {
        PyMem_Free(at);
    }
    return list;
}

static PyObject *engine_of(const struct mc_engine_event *engine)
{
    if (!engine) {
        Py_RETURN_NONE;
    }
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_ENGINE);
    mcp_row_add(&row, hashes_of(engine));
    mcp_row_add(&row, unless(engine->has_parent, u64, engine->parent));
    mcp_row_add(&row, truth(engine->is_unordered));
    mcp_row_add(&row, u64(engine->token_count));
    mcp_row_add(&row, u64(engine->block_size));
    mcp_row_add(&row, mcp_text(engine->medium));
    mcp_row_add(&row, unless(engine->has_group, u64, engine->group_idx));
    if (engine->has_lora_id) {
        mcp_row_add(&row, PyLong_FromLongLong(engine->lora_id));
    } else {
        mcp_row_add(&row, unless(false, u64, 0));
    }
    mcp_row_add(&row, mcp_text(engine->lora_name));
    mcp_row_add(&row, mcp_text(engine->cache_salt));
    mcp_row_add(&row, mcp_text(engine->locality));
    return mcp_row_end(&row);
}

static PyObject *origin_of(enum mc_delivery_origin origin)
{
    return PyUnicode_InternFromString(origin == MC_FROM_REPLAY     ? "replay"
                                      : origin == MC_FROM_SNAPSHOT ? "snapshot"
                                                                   : "stream");
}

PyObject *mcp_event_of(const struct mc_delivery *delivery)
{
    const struct mc_event *event = delivery->event;
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_EVENT);
    mcp_row_add(&row,
                PyUnicode_InternFromString(mc_event_type_name(event->type)));
    mcp_row_add(&row, u64(event->event_id));
    mcp_row_add(&row, mcp_text(event->object_key));
    mcp_row_add(&row, mcp_text(event->tenant_id));
    mcp_row_add(&row, mcp_text(event->backend_id));
    mcp_row_add(&row, mcp_text(event->medium));
    mcp_row_add(&row, mcp_text(event->session_id));
    mcp_row_add(&row, mcp_text(event->group_id));
    mcp_row_add(&row, u64(event->epoch));
    mcp_row_add(&row, u64(delivery->batch->seq));
    mcp_row_add(&row, u64(delivery->batch->timestamp_ms));
    mcp_row_add(&row, u64(delivery->batch->dp_rank));
    mcp_row_add(&row, u64(delivery->source));
    mcp_row_add(&row, truth(delivery->replaces));
    mcp_row_add(&row, origin_of(delivery->origin));
    mcp_row_add(&row, truth(delivery->is_derived));
    mcp_row_add(&row, engine_of(delivery->engine));
    return mcp_row_end(&row);
}

static PyObject *text_if(bool is_there, const char *text)
{
    return mcp_text(mc_view_str(is_there ? text : NULL));
}

PyObject *mcp_signal_of(const struct mc_signal *signal)
{
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_SIGNAL);
    mcp_row_add(&row, PyUnicode_InternFromString(mc_signal_name(signal->type)));
    mcp_row_add(&row, u64(signal->source));
    mcp_row_add(&row, u64(signal->from_id));
    mcp_row_add(&row, u64(signal->to_id));
    mcp_row_add(&row, u64(signal->from_seq));
    mcp_row_add(&row, u64(signal->to_seq));
    mcp_row_add(&row, u64(signal->epoch));
    mcp_row_add(&row, text_if(signal->type == MC_SIGNAL_RECOVERED,
                              signal->by_snapshot ? "snapshot" : "replay"));
    mcp_row_add(&row, text_if(signal->type == MC_SIGNAL_DEGRADED,
                              mc_signal_reason(signal)));
    mcp_row_add(&row, u64(signal->offset));
    mcp_row_add(&row, u64(signal->seq));
    return mcp_row_end(&row);
}

/* ---- counters ----------------------------------------------------------------- */

/* False: an exception is set. */
static bool put(PyObject *dict, const char *name, PyObject *value)
{
    bool is_put = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return is_put;
}

/* Refusals by name, those that there were. */
static PyObject *refused_of(const struct mc_source_stats *stats)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < MC_EVENT_ERROR_COUNT_; i++) {
        if (stats->refused[i] > 0 &&
            !put(dict, mc_event_error_name((enum mc_event_error)i),
                 u64(stats->refused[i]))) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
#define NUMBER(name)                                  \
    {                                                 \
#name, offsetof(struct mc_source_stats, name) \
    }
    NUMBER(epoch),
    NUMBER(last_seq),
    NUMBER(baseline_id),
    NUMBER(last_event_id),
    NUMBER(span_ids),
    NUMBER(messages),
    NUMBER(bytes),
    NUMBER(events),
    NUMBER(stored),
    NUMBER(removed),
    NUMBER(cleared),
    NUMBER(heartbeats),
    NUMBER(duplicates),
    NUMBER(strays),
    NUMBER(gaps),
    NUMBER(lost_ids),
    NUMBER(lost_seqs),
    NUMBER(stales),
    NUMBER(restarts),
    NUMBER(connects),
    NUMBER(disconnects),
    NUMBER(refused_messages),
    NUMBER(refused_events),
    NUMBER(refused_ids),
    NUMBER(contradictions),
    NUMBER(queue_messages),
    NUMBER(queue_bytes),
    NUMBER(queue_full),
    NUMBER(mirror_entries),
    NUMBER(passed_over),
    NUMBER(deliveries),
    NUMBER(recoveries),
    NUMBER(recoveries_by_replay),
    NUMBER(recoveries_by_snapshot),
    NUMBER(requests),
    NUMBER(replays_asked),
    NUMBER(snapshots_asked),
    NUMBER(statuses_asked),
    NUMBER(failed_requests),
    NUMBER(refetched_ids),
    NUMBER(covered_ids),
    NUMBER(snapshot_rows),
    NUMBER(tombstones),
#undef NUMBER
};

PyObject *mcp_source_stats_of(const struct mc_source_stats *stats)
{
    PyObject *dict = PyDict_New();
    bool is_made = dict &&
                   put(dict, "is_connected", truth(stats->is_connected)) &&
                   put(dict, "has_baseline", truth(stats->has_baseline)) &&
                   put(dict, "is_recovering", truth(stats->is_recovering)) &&
                   put(dict, "refused", refused_of(stats));
    for (size_t i = 0; is_made && i < sizeof numbers / sizeof numbers[0]; i++) {
        uint64_t number = 0;
        memcpy(&number, (const char *)stats + numbers[i].offset, sizeof number);
        is_made = put(dict, numbers[i].name, u64(number));
    }
    if (!is_made) {
        Py_CLEAR(dict);
    }
    return dict;
}
