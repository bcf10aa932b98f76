/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "mc_curve.h"
#include "tool_store.h"
#include "tool_store_json.h"

static int keygen_curve(const struct tool_args *args)
{
    char key[MC_CURVE_TEXT_LEN + 1];
    enum mc_err err = mc_curve_make(args->curve, key);
    if (err != MC_OK) {
        return tool_fail_on(args->command, mc_view_str(args->curve), err);
    }
    if (args->json) {
        struct tool_json json;
        tool_json_begin(&json);
        tool_json_text(&json, "public_key", mc_view_str(key));
        tool_json_write(&json);
    } else {
        printf("%s\n", key);
    }
    return TOOL_DONE;
}

static int run(const struct tool_args *args)
{
    if (!args->curve == !args->tls_dir) {
        return tool_wrong_use(args->command, "one of --curve and --tls is "
                                             "wanted");
    }
    if (args->curve) {
        return keygen_curve(args);
    }
    enum mc_err err = mc_tls_make_trial(args->tls_dir, args->host, 0);
    return err == MC_OK
               ? TOOL_DONE
               : tool_fail_on(args->command, mc_view_str(args->tls_dir), err);
}

const struct tool_command tool_keygen = {
    .name = "keygen",
    .operands = "",
    .options = TOOL_KEYGEN | TOOL_JSON,
    .summary = "makes keys and certificates",
    .explanation =
        "--curve FILE: a key pair for encrypted events. FILE, which only its "
        "owner may read,\ngets both keys; the public one is printed.\n"
        "--tls DIR: a CA and a certificate that both sides may use, for trying "
        "it out.\nFiles that are there are never overwritten.",
    .example = "mc-store keygen --curve server.key",
    .run = run,
};
