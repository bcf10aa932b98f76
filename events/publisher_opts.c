/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_opts.c - are these settings that a publisher can run with?
 * Declared in mci_publisher.h. */
#include "mc_log.h"
#include "mci_publisher.h"
#include "mci_utf8.h"

#define ENDPOINT_LEN_MAX (sizeof((struct mc_publisher_stats *)0)->endpoint - 1)
#define TEXT_LEN_MAX 4096 /* what mc_event_writer takes */

static bool is_set(const char *text)
{
    return text && text[0] != '\0';
}

bool mci_publisher_is_wanted(const struct mc_publisher_opts *opts)
{
    return is_set(opts->bind_endpoint) || is_set(opts->replay_endpoint);
}

static enum mc_err check_text(const char *name, const char *text, size_t max)
{
    size_t len = text ? strlen(text) : 0;
    if (len > max) {
        mc_log(MC_LOG_ERROR, "publisher: %s: %zu bytes, at most %zu allowed",
               name, len, max);
        return MC_ERR_INVALID_PARAMS;
    }
    if (len > 0 && !mci_utf8_valid(text, len)) {
        mc_log(MC_LOG_ERROR, "publisher: %s: not UTF-8", name);
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

static enum mc_err check_texts(const struct mc_publisher_opts *opts)
{
    const struct {
        const char *name;
        const char *text;
        size_t max;
    } rows[] = {
        {"bind endpoint", opts->bind_endpoint, ENDPOINT_LEN_MAX},
        {"replay endpoint", opts->replay_endpoint, ENDPOINT_LEN_MAX},
        {"backend id", opts->backend_id, MC_BACKEND_ID_LEN_MAX},
        {"topic", opts->topic, TEXT_LEN_MAX},
        {"model name", opts->model_name, TEXT_LEN_MAX},
        {"additional salt", opts->additional_salt, TEXT_LEN_MAX},
        {"lora name", opts->lora_name, TEXT_LEN_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum mc_err err = check_text(rows[i].name, rows[i].text, rows[i].max);
        if (err) {
            return err;
        }
    }
    return MC_OK;
}

/* libzmq takes 99999 for 34463 and 12x for 12. */
static bool is_port(const char *text)
{
    uint32_t port = 0;
    if (strcmp(text, "*") == 0) {
        return true;
    }
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(*digit - '0');
        if (port > UINT16_MAX) {
            return false;
        }
    }
    return text[0] != '\0';
}

static enum mc_err check_endpoint(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) != 0 || (colon && is_port(colon + 1))) {
        return MC_OK;
    }
    mc_log(MC_LOG_ERROR, "publisher: %s: needs a port from 0 to 65535 or *",
           endpoint);
    return MC_ERR_INVALID_PARAMS;
}

enum mc_err mci_publisher_check(const struct mc_publisher_opts *opts)
{
    if (!is_set(opts->bind_endpoint)) {
        mc_log(MC_LOG_ERROR, "publisher: no bind endpoint");
        return MC_ERR_INVALID_PARAMS;
    }
    if (!is_set(opts->backend_id)) {
        mc_log(MC_LOG_ERROR,
               "publisher: %.255s: a backend id is needed to publish",
               opts->bind_endpoint);
        return MC_ERR_INVALID_PARAMS;
    }
    if (opts->queue_capacity > 0 &&
        opts->queue_capacity < MCI_EVENT_LOG_CAPACITY_MIN) {
        mc_log(MC_LOG_ERROR, "publisher: queue capacity %u: 0 or at least %d",
               opts->queue_capacity, MCI_EVENT_LOG_CAPACITY_MIN);
        return MC_ERR_INVALID_PARAMS;
    }
    if (opts->overflow != MC_PUBLISHER_DROP_OLDEST &&
        opts->overflow != MC_PUBLISHER_BLOCK) {
        mc_log(MC_LOG_ERROR, "publisher: unknown overflow policy");
        return MC_ERR_INVALID_PARAMS;
    }
    if (opts->replay_layout != 0 && opts->replay_layout != 3 &&
        opts->replay_layout != 4) {
        mc_log(MC_LOG_ERROR, "publisher: replay layout %u: 3 or 4",
               opts->replay_layout);
        return MC_ERR_INVALID_PARAMS;
    }
    if (is_set(opts->curve_server_key_file) !=
        is_set(opts->curve_allowed_keys_file)) {
        mc_log(MC_LOG_ERROR, "publisher: curve server key file and allowed "
                             "keys file go together");
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = check_texts(opts);
    if (!err) {
        err = check_endpoint(opts->bind_endpoint);
    }
    return !err && is_set(opts->replay_endpoint)
               ? check_endpoint(opts->replay_endpoint)
               : err;
}
