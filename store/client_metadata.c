/* SPDX-License-Identifier: Apache-2.0 */
/* client_metadata.c - tells a metadata server where this client is.
 *
 * Our own peers learn that from the master; the keys are for others that look
 * there: what is lent under <prefix>ram/<name>, and whom to speak to under
 * <prefix>rpc_meta/<name>.
 */
#include <inttypes.h>
#include <stdio.h>

#include "client_outside.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_buf.h"
#include "mci_clock.h"
#include "mci_peer_http.h"

#define TIMEOUT_MS 1000
#define KEY_MAX (MCI_HOSTNAME_MAX + 256)
#define BODY_MAX (1 << 20)
#define SEGMENTS_MAX 4096
#define STATUS_BAD_REQUEST 400

static void make_key(const struct mci_outside *outside, const char *kind,
                     char room[KEY_MAX])
{
    const char *cluster = outside->cluster_id ? outside->cluster_id : "";
    (void)snprintf(room, KEY_MAX, "mooncake/%.128s%s%s/%s", cluster,
                   cluster[0] ? "/" : "", kind, outside->name);
}

/* Names are hosts and ports: nothing in them has to be escaped, and what would
 * have to be is left out. */
static bool is_plain(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\') {
            return false;
        }
    }
    return true;
}

static enum mc_err write_ram(struct mci_outside *outside, struct mci_buf *body)
{
    struct mci_lent_view *views = mci_alloc(SEGMENTS_MAX * sizeof *views);
    if (!views) {
        return MC_ERR_NOMEM;
    }
    size_t count = mci_lent_list(outside, views, SEGMENTS_MAX);
    enum mc_err err = mci_buf_printf(
        body,
        "{\"name\":\"%s\",\"protocol\":\"tcp\",\"tcp_data_port\":%u,"
        "\"tcp_proto_version\":1,\"timestamp\":%" PRIu64 ",\"buffers\":[",
        outside->name, (unsigned)outside->settings.address.port,
        mci_clock_wall_ms());
    for (size_t i = 0; i < count && err == MC_OK; i++) {
        err = mci_buf_printf(body,
                             "%s{\"name\":\"cpu:0\",\"addr\":%" PRIu64
                             ",\"length\":%" PRIu64 "}",
                             i > 0 ? "," : "", views[i].base, views[i].bytes);
    }
    mci_free(views);
    return err == MC_OK ? mci_buf_printf(body, "]}") : err;
}

static enum mc_err put_ram(struct mci_outside *outside)
{
    char key[KEY_MAX];
    struct mci_buf body;
    mci_buf_init(&body, BODY_MAX);
    make_key(outside, "ram", key);
    enum mc_err err = write_ram(outside, &body);
    if (err == MC_OK) {
        err = mci_peer_http_put(outside->metadata_url, key, mci_buf_view(&body),
                                TIMEOUT_MS, NULL);
    }
    mci_buf_fini(&body);
    return err;
}

/* A server refuses to replace this one by something else: what an earlier
 * client of our name left there goes first. */
static enum mc_err put_rpc_meta(struct mci_outside *outside)
{
    char key[KEY_MAX];
    char body[MCI_HOSTNAME_MAX + 64];
    long status = 0;
    make_key(outside, "rpc_meta", key);
    int len = snprintf(body, sizeof body,
                       "{\"ip_or_host_name\":\"%s\",\"rpc_port\":%u}",
                       outside->settings.address.host,
                       (unsigned)outside->settings.address.port);
    const struct mc_view view = mc_view_make(body, (size_t)len);
    enum mc_err err = mci_peer_http_put(outside->metadata_url, key, view,
                                        TIMEOUT_MS, &status);
    if (status != STATUS_BAD_REQUEST) {
        return err;
    }
    err = mci_peer_http_delete(outside->metadata_url, key, TIMEOUT_MS, NULL);
    return err == MC_OK ? mci_peer_http_put(outside->metadata_url, key, view,
                                            TIMEOUT_MS, NULL)
                        : err;
}

bool mci_metadata_publish(struct mci_outside *outside)
{
    if (!outside->metadata_url || !is_plain(outside->name)) {
        return true;
    }
    enum mc_err err = put_ram(outside);
    if (err == MC_OK) {
        err = put_rpc_meta(outside);
    }
    if (err != MC_OK) {
        mc_log(MC_LOG_INFO, "metadata server %s: %s", outside->metadata_url,
               mc_err_text(err));
    }
    return err == MC_OK;
}

/* One try: a server that is gone has forgotten us anyway. */
void mci_metadata_withdraw(struct mci_outside *outside)
{
    static const char *const kinds[] = {"ram", "rpc_meta"};
    if (!outside->metadata_url || !is_plain(outside->name)) {
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char key[KEY_MAX];
        make_key(outside, kinds[i], key);
        enum mc_err err = mci_peer_http_delete(outside->metadata_url, key,
                                               TIMEOUT_MS / 2, NULL);
        if (err == MC_ERR_RPC_TIMEOUT) {
            return;
        }
    }
}
