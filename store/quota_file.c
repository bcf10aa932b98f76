/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "master_process.h"
#include "mc_log.h"
#include "quota_value.h"
#include "size_text.h"

#define FILE_MAX (16 << 20)

/* ---- values ------------------------------------------------------------------- */

bool mci_quota_value(struct json_object *value, uint64_t *bytes_out)
{
    switch (json_object_get_type(value)) {
    case json_type_int:
        if (json_object_get_int64(value) < 0) {
            return false;
        }
        *bytes_out = json_object_get_uint64(value);
        return true;
    case json_type_string:
        return mci_size_parse(json_object_get_string(value), bytes_out) &&
               *bytes_out != UINT64_MAX;
    default:
        return false;
    }
}

bool mci_quota_member(struct json_object *object, uint64_t *bytes_out)
{
    static const char *const names[] = {"quota_bytes", "requested_bytes",
                                        "requested_quota_bytes", "bytes"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_object *value = NULL;
        if (json_object_object_get_ex(object, names[i], &value)) {
            return mci_quota_value(value, bytes_out);
        }
    }
    return false;
}

/* ---- the file ------------------------------------------------------------------ */

static enum mc_err read_file(const char *path, struct mci_buf *text)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        mc_log(MC_LOG_ERROR, "quotas %s: %s", path, strerrordesc_np(errno));
        return MC_ERR_FILE_OPEN_FAIL;
    }
    char block[4096];
    enum mc_err err = MC_OK;
    size_t len;
    while (!err && (len = fread(block, 1, sizeof block, file)) > 0) {
        err = mci_buf_append(text, block, len);
    }
    if (!err && ferror(file)) {
        err = MC_ERR_FILE_READ_FAIL;
    }
    (void)fclose(file);
    if (err) {
        mc_log(MC_LOG_ERROR, "quotas %s: %s", path, mc_err_text(err));
    }
    return err;
}

static enum mc_err set_one(struct mci_master *core, const char *tenant,
                           uint64_t bytes)
{
    enum mc_err err = mci_master_quota_set(core, mc_view_str(tenant), bytes);
    if (err) {
        mc_log(MC_LOG_ERROR, "quotas: tenant %.80s: %s", tenant,
               mc_err_text(err));
    }
    return err;
}

static enum mc_err bad_entry(const char *tenant)
{
    mc_log(MC_LOG_ERROR, "quotas: tenant %.80s: not a size", tenant);
    return MC_ERR_INVALID_PARAMS;
}

/* "NAME": BYTES, or "NAME": {"quota_bytes": BYTES}. */
static enum mc_err set_named(struct mci_master *core, json_object *object)
{
    json_object_object_foreach(object, name, value)
    {
        uint64_t bytes = 0;
        if (!mci_quota_value(value, &bytes) &&
            !mci_quota_member(value, &bytes)) {
            return bad_entry(name);
        }
        enum mc_err err = set_one(core, name, bytes);
        if (err) {
            return err;
        }
    }
    return MC_OK;
}

/* {"tenant_id": "NAME", "quota_bytes": BYTES}. */
static enum mc_err set_listed(struct mci_master *core, json_object *array)
{
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        json_object *row = json_object_array_get_idx(array, i);
        json_object *name = NULL;
        uint64_t bytes = 0;
        if (!json_object_object_get_ex(row, "tenant_id", &name) ||
            !json_object_is_type(name, json_type_string)) {
            return bad_entry("(without tenant_id)");
        }
        if (!mci_quota_member(row, &bytes)) {
            return bad_entry(json_object_get_string(name));
        }
        enum mc_err err = set_one(core, json_object_get_string(name), bytes);
        if (err) {
            return err;
        }
    }
    return MC_OK;
}

static enum mc_err apply(struct mci_master *core, json_object *root,
                         const char *path)
{
    json_object *tenants = NULL;
    if (!json_object_object_get_ex(root, "tenants", &tenants)) {
        tenants = root;
    }
    switch (json_object_get_type(tenants)) {
    case json_type_object:
        return set_named(core, tenants);
    case json_type_array:
        return set_listed(core, tenants);
    default:
        mc_log(MC_LOG_ERROR, "quotas %s: not a list of tenants", path);
        return MC_ERR_INVALID_PARAMS;
    }
}

json_object *mci_json_parse(struct mc_view text)
{
    struct json_tokener *tokener = json_tokener_new();
    json_object *root = NULL;
    if (tokener && text.len < INT32_MAX) {
        root = json_tokener_parse_ex(tokener, text.data, (int)text.len);
        size_t end = json_tokener_get_parse_end(tokener);
        const char *rest = (const char *)text.data + end;
        for (; end < text.len && strchr(" \t\r\n", *rest) && *rest; rest++) {
            end++;
        }
        if (json_tokener_get_error(tokener) != json_tokener_success ||
            end != text.len) {
            json_object_put(root);
            root = NULL;
        }
    }
    if (tokener) {
        json_tokener_free(tokener);
    }
    return root;
}

enum mc_err mci_quota_file_read(struct mci_master *core, const char *path)
{
    struct mci_buf text;
    mci_buf_init(&text, FILE_MAX);
    enum mc_err err = read_file(path, &text);
    if (!err) {
        json_object *root = mci_json_parse(mci_buf_view(&text));
        if (root) {
            err = apply(core, root, path);
        } else {
            mc_log(MC_LOG_ERROR, "quotas %s: not JSON", path);
            err = MC_ERR_INVALID_PARAMS;
        }
        json_object_put(root);
    }
    mci_buf_fini(&text);
    return err;
}
