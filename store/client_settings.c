/* SPDX-License-Identifier: Apache-2.0 */
/* client_settings.c - see the header. */
#include "client_settings.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mc_log.h"
#include "mci_extent.h"

#define TIMEOUT_MS 30000
#define TRANSFER_TIMEOUT_MS 60000
#define LOCAL_BUFFER_BYTES (16 * UINT64_C(1048576))
#define HOST "127.0.0.1"
#define PORT_MIN 12300
#define PORT_MAX 14300
#define PORT_TRIES 20
#define PORT_TRIES_MAX 36000 /* an hour of them */

static bool is_set(const char *text)
{
    return text && text[0] != '\0';
}

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return is_set(text) ? text : NULL;
}

/* ---- numbers and switches ------------------------------------------------ */

/* What is no number is as if it were not there. */
static bool read_number(const char *name, long long *number_out)
{
    const char *text = variable(name);
    char *rest = NULL;
    if (!text) {
        return false;
    }
    errno = 0;
    long long number = strtoll(text, &rest, 10);
    if (errno != 0 || rest == text || *rest != '\0') {
        mc_log(MC_LOG_WARN, "%s: not a number", name);
        return false;
    }
    *number_out = number;
    return true;
}

/* Negative: no bound at all, which is 0 here. */
static uint32_t milliseconds(uint32_t option, const char *name,
                             uint32_t otherwise)
{
    long long number = 0;
    if (option > 0) {
        return option;
    }
    if (!read_number(name, &number) || number == 0) {
        return otherwise;
    }
    if (number < 0) {
        return 0;
    }
    return number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

static uint16_t port_of(const char *name, uint16_t otherwise)
{
    long long number = 0;
    bool is_sound =
        read_number(name, &number) && number > 0 && number <= UINT16_MAX;
    return is_sound ? (uint16_t)number : otherwise;
}

/* One at least: who asks for none wants no waiting. */
static uint32_t tries_of(const char *name)
{
    long long number = 0;
    if (!read_number(name, &number)) {
        return PORT_TRIES;
    }
    if (number < 1) {
        return 1;
    }
    return number > PORT_TRIES_MAX ? PORT_TRIES_MAX : (uint32_t)number;
}

static bool is_off(const char *name)
{
    const char *text = variable(name);
    return text &&
           (strcmp(text, "0") == 0 || strcasecmp(text, "false") == 0 ||
            strcasecmp(text, "no") == 0 || strcasecmp(text, "off") == 0);
}

static bool is_on(const char *name)
{
    return variable(name) && !is_off(name);
}

/* ---- what is not built --------------------------------------------------- */

static void warn_of_variables(void)
{
    static const char *const names[] = {
        "MC_MS_AUTO_DISC",          "MC_MS_FILTERS",
        "MC_RPC_PROTOCOL",          "MC_STORE_PIN_MEMORY_MAX_BYTES",
        "MC_STORE_REPLICA_SCORING", "MC_STORE_NUMA_SOCKET_ID",
        "MC_STORE_CLIENT_METRIC",   "MC_STORE_CLUSTER_ID",
        "MC_HANDSHAKE_PORT",        "MC_TCP_PROTO",
        "MC_TCP_SLICE_SIZE",
    };
    static atomic_flag was_said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&was_said)) {
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (variable(names[i])) {
            mc_log(MC_LOG_WARN, "%s is set, but not built", names[i]);
        }
    }
}

static enum mc_err refuse(const char *what, const char *text, enum mc_err err)
{
    mc_log(MC_LOG_ERROR, "client: %s %.128s: %s", what, text, mc_err_text(err));
    return err;
}

/* ---- a master process ---------------------------------------------------- */

bool mci_settings_is_remote(const struct mc_client_opts *opts)
{
    return is_set(opts->master) && strcmp(opts->master, "embedded") != 0;
}

static enum mc_err read_transport(const struct mc_client_opts *opts,
                                  struct mci_settings *settings)
{
    const char *transport = is_set(opts->transport) ? opts->transport : "auto";
    if (is_set(opts->protocol) && strcmp(opts->protocol, "tcp") != 0) {
        return refuse("protocol", opts->protocol, MC_ERR_NOT_SUPPORTED);
    }
    if (strcmp(transport, "tcp") == 0) {
        settings->only = MC_TRANSPORT_TCP;
    } else if (strcmp(transport, "shm") == 0) {
        settings->only = MC_TRANSPORT_SHM;
    } else if (strcmp(transport, "rdma") == 0) {
        return refuse("transport", transport, MC_ERR_NOT_SUPPORTED);
    } else if (strcmp(transport, "auto") != 0) {
        return refuse("transport", transport, MC_ERR_INVALID_PARAMS);
    }
    return MC_OK;
}

static enum mc_err read_metadata(const struct mc_client_opts *opts,
                                 struct mci_settings *settings)
{
    const char *url = opts->metadata_server;
    if (!is_set(url) || strcmp(url, "P2PHANDSHAKE") == 0) {
        return MC_OK;
    }
    if (strncmp(url, "http://", 7) != 0) {
        return refuse("metadata server", url, MC_ERR_INVALID_PARAMS);
    }
    settings->metadata_url = url;
    settings->cluster_id = variable("MC_METADATA_CLUSTER_ID");
    return MC_OK;
}

static enum mc_err read_address(const struct mc_client_opts *opts,
                                struct mci_settings *settings)
{
    settings->has_address = opts->local_hostname != NULL;
    const char *text = opts->local_hostname ? opts->local_hostname : HOST;
    enum mc_err err = mci_address_parse(text, &settings->address);
    if (err != MC_OK) {
        return refuse("local hostname", text, err);
    }
    settings->port_min = port_of("MC_STORE_CLIENT_MIN_PORT", PORT_MIN);
    settings->port_max = port_of("MC_STORE_CLIENT_MAX_PORT", PORT_MAX);
    if (settings->port_min > settings->port_max) {
        mc_log(MC_LOG_WARN, "MC_STORE_CLIENT_MIN_PORT: above the maximum");
        settings->port_min = PORT_MIN;
        settings->port_max = PORT_MAX;
    }
    settings->port_tries = tries_of("MC_STORE_CLIENT_SETUP_RETRIES");
    settings->bind_address = variable("MC_TCP_BIND_ADDRESS");
    if (!settings->bind_address && is_on("MC_USE_IPV6")) {
        settings->bind_address = "::";
    }
    return MC_OK;
}

static enum mc_err read_remote(const struct mc_client_opts *opts,
                               struct mci_settings *settings)
{
    long long number = 0;
    if (variable("MC_STORE_LOCAL_HOT_CACHE_SIZE") &&
        (!read_number("MC_STORE_LOCAL_HOT_CACHE_SIZE", &number) ||
         number != 0)) {
        return refuse("MC_STORE_LOCAL_HOT_CACHE_SIZE", "is set",
                      MC_ERR_NOT_SUPPORTED);
    }
    settings->no_shm = is_off("MC_STORE_SHM");
    settings->no_local = is_off("MC_STORE_MEMCPY");
    enum mc_err err = read_transport(opts, settings);
    if (err == MC_OK) {
        err = read_metadata(opts, settings);
    }
    return err == MC_OK ? read_address(opts, settings) : err;
}

enum mc_err mci_settings_read(const struct mc_client_opts *opts,
                              struct mci_settings *settings_out)
{
    struct mci_settings settings = {
        .timeout_ms =
            milliseconds(opts->timeout_ms, "MC_RPC_TIMEOUT_MS", TIMEOUT_MS),
        .connect_timeout_ms =
            milliseconds(0, "MC_RPC_CONNECT_TIMEOUT_MS", TIMEOUT_MS),
        .transfer_timeout_ms =
            milliseconds(opts->transfer_timeout_ms, "MC_TRANSFER_TIMEOUT_MS",
                         TRANSFER_TIMEOUT_MS),
        .local_buffer_bytes = opts->local_buffer_bytes
                                  ? opts->local_buffer_bytes
                                  : LOCAL_BUFFER_BYTES,
        .checksum = opts->checksum || is_on("MOONCAKE_STORE_CHECKSUM")};
    if (settings.local_buffer_bytes == MC_NONE) {
        settings.local_buffer_bytes = 0;
    }
    if (settings.local_buffer_bytes > MCI_EXTENT_SPACE_MAX) {
        return refuse("local buffer", "too large", MC_ERR_INVALID_PARAMS);
    }
    if (mci_settings_is_remote(opts)) {
        warn_of_variables();
        enum mc_err err = read_remote(opts, &settings);
        if (err != MC_OK) {
            return err;
        }
    }
    *settings_out = settings;
    return MC_OK;
}
