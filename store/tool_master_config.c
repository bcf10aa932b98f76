/* SPDX-License-Identifier: Apache-2.0 */
/* --config_path: a JSON object whose members are flags. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "tool_master.h"

static int set_members(json_object *root, const char *path,
                       struct master_settings *settings)
{
    char where[256];
    (void)snprintf(where, sizeof where, "%s: ", path);
    json_object_object_foreach(root, name, value)
    {
        enum json_type type = json_object_get_type(value);
        if (type == json_type_object || type == json_type_array ||
            type == json_type_null) {
            tool_master_say("%s%s: is a text, a number or a bool", where, name);
            return 2;
        }
        const char *text = tool_keep(json_object_get_string(value));
        int code = text ? tool_flag_set_text(name, text, where, settings) : 1;
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

int tool_master_config(const char *path, struct master_settings *settings)
{
    json_object *root = json_object_from_file(path);
    if (!root) {
        tool_master_say("--config_path %s: cannot be read as JSON", path);
        return 2;
    }
    int code = 2;
    if (json_object_is_type(root, json_type_object)) {
        code = set_members(root, path, settings);
    } else {
        tool_master_say("--config_path %s: is not a JSON object", path);
    }
    json_object_put(root);
    return code;
}
