/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_err.h"

#include <stddef.h>

struct err_row {
    enum mc_err err;
    enum mc_err_scope scope;
    const char *name;
    const char *text;
};

/* The names are those of the published table, which has no prefix. */
#define PREFIX_LEN_OK (sizeof "MC_" - 1)
#define PREFIX_LEN_ERR (sizeof "MC_ERR_" - 1)

static const struct err_row rows[] = {
#define ERR_ROW(name, number, scope, text) \
    {name, MC_ERR_SCOPE_##scope, #name, text},
    MC_ERR_LIST(ERR_ROW)
#undef ERR_ROW
};

static const struct err_row *find_row(enum mc_err err)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].err == err) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *mc_err_text(enum mc_err err)
{
    const struct err_row *row = find_row(err);
    return row ? row->text : "unknown error";
}

const char *mc_err_name(enum mc_err err)
{
    const struct err_row *row = find_row(err);
    if (!row) {
        return "UNKNOWN";
    }
    return row->name + (err == MC_OK ? PREFIX_LEN_OK : PREFIX_LEN_ERR);
}

enum mc_err_scope mc_err_scope(enum mc_err err)
{
    const struct err_row *row = find_row(err);
    return row ? row->scope : MC_ERR_SCOPE_CALL;
}
