/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - ReplicateConfig, as the library takes it. */
#include "args.h"

/* One attribute of the config; a new reference, held by the arguments, so that it
 * may be borrowed. NULL with an exception. */
static PyObject *attribute(struct mcp_args *args, PyObject *config,
                           const char *name)
{
    PyObject *value = PyObject_GetAttrString(config, name);
    if (!value) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Format(PyExc_TypeError,
                         "config: expected ReplicateConfig, not %.200s (no "
                         "%s)",
                         Py_TYPE(config)->tp_name, name);
        }
        return NULL;
    }
    bool is_held = mcp_args_hold(args, value);
    Py_DECREF(value);
    return is_held ? value : NULL;
}

static bool get_u32(struct mcp_args *args, PyObject *config, const char *name,
                    uint32_t *out)
{
    PyObject *value = attribute(args, config, name);
    return value && mcp_args_u32(value, name, out);
}

static bool get_bool(struct mcp_args *args, PyObject *config, const char *name,
                     bool *out)
{
    PyObject *value = attribute(args, config, name);
    int is_true = value ? PyObject_IsTrue(value) : -1;
    *out = is_true > 0;
    return is_true >= 0;
}

/* None: the default; 0: really none. */
static bool get_ttl(struct mcp_args *args, PyObject *config, uint64_t *out)
{
    PyObject *value = attribute(args, config, "soft_pin_ttl_ms");
    if (!value || value == Py_None) {
        *out = 0;
        return value != NULL;
    }
    if (!mcp_args_u64(value, "soft_pin_ttl_ms", out)) {
        return false;
    }
    *out = *out ? *out : MC_NONE;
    return true;
}

/* One str per key, or None for no list at all. */
static bool get_views(struct mcp_args *args, PyObject *config, const char *name,
                      const struct mc_view **at_out, size_t *count_out)
{
    struct mcp_views views = {NULL, 0};
    PyObject *value = attribute(args, config, name);
    if (!value) {
        return false;
    }
    if (value != Py_None && !mcp_args_keys(args, value, name, &views)) {
        return false;
    }
    *at_out = views.at;
    *count_out = views.count;
    return true;
}

static bool get_segments(struct mcp_args *args, PyObject *config,
                         struct mc_replicate_config *out)
{
    PyObject *one = attribute(args, config, "preferred_segment");
    if (!one || !mcp_args_text(args, one, "preferred_segment",
                               &out->preferred_segment)) {
        return false;
    }
    if (out->preferred_segment[0] == '\0') {
        out->preferred_segment = NULL;
    }
    PyObject *many = attribute(args, config, "preferred_segments");
    PyObject *tuple =
        many ? mcp_args_tuple(args, many, "preferred_segments") : NULL;
    if (!tuple) {
        return false;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(tuple);
    const char **at = mcp_args_alloc(args, count, sizeof *at);
    for (size_t i = 0; at && i < count; i++) {
        if (!mcp_args_text(args, PyTuple_GET_ITEM(tuple, (Py_ssize_t)i),
                           "preferred_segments", &at[i])) {
            return false;
        }
    }
    out->preferred_segments = count > 0 ? at : NULL;
    out->preferred_segment_count = count;
    return at != NULL;
}

static bool get_enums(struct mcp_args *args, PyObject *config,
                      struct mc_replicate_config *out)
{
    uint32_t action = 0;
    uint32_t type = 0;
    if (!get_u32(args, config, "soft_pin_action", &action) ||
        !get_u32(args, config, "data_type", &type)) {
        return false;
    }
    if (action > MC_SOFT_PIN_DISABLE || type > MC_DATA_GENERAL) {
        PyErr_SetString(PyExc_ValueError,
                        "config: no such soft_pin_action or data_type");
        return false;
    }
    out->soft_pin_action = (enum mc_soft_pin_action)action;
    out->data_type = (enum mc_data_type)type;
    return true;
}

static bool get_flags(struct mcp_args *args, PyObject *config,
                      struct mc_replicate_config *out)
{
    return get_bool(args, config, "with_hard_pin", &out->with_hard_pin) &&
           get_bool(args, config, "prefer_alloc_in_same_node",
                    &out->prefer_alloc_in_same_node) &&
           get_bool(args, config, "complete", &out->complete) &&
           get_bool(args, config, "checksum", &out->checksum);
}

static bool get_counts(struct mcp_args *args, PyObject *config,
                       struct mc_replicate_config *out)
{
    return get_u32(args, config, "replica_num", &out->replica_num) &&
           get_u32(args, config, "nof_replica_num", &out->nof_replica_num) &&
           get_u32(args, config, "dfs_replica_num", &out->dfs_replica_num);
}

bool mcp_args_config(struct mcp_args *args, PyObject *object,
                     const struct mc_replicate_config **config_out)
{
    *config_out = NULL;
    if (!object || object == Py_None) {
        return true;
    }
    struct mc_replicate_config *config =
        mcp_args_alloc(args, 1, sizeof *config);
    if (!config) {
        return false;
    }
    *config = (struct mc_replicate_config){.replica_num = 0};
    *config_out = config;
    return get_counts(args, object, config) &&
           get_enums(args, object, config) &&
           get_ttl(args, object, &config->soft_pin_ttl_ms) &&
           get_flags(args, object, config) &&
           get_segments(args, object, config) &&
           get_views(args, object, "group_ids", &config->group_ids,
                     &config->group_id_count) &&
           get_views(args, object, "session_ids", &config->session_ids,
                     &config->session_id_count);
}
