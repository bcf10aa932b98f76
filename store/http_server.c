/* SPDX-License-Identifier: Apache-2.0 */
#include "http_server.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_address.h"
#include "mci_alloc.h"

#define CONNECTIONS_MAX 256
#define IDLE_MAX_S 15
#define STACK_BYTES (512 * 1024)
#define HEAD_MAX (512 * 1024) /* of a request: its line and its headers */
#define BODY_MAX (1 << 20)
#define ANSWER_MAX (256 << 20)
#define BLOCK_BYTES (64 * 1024)

struct mci_http_server {
    struct mci_http_server_opts opts;
    struct MHD_Daemon *daemon;
};

/* One request while it comes in. */
struct exchange {
    struct mci_buf body;
    enum mc_err err; /* the first one of taking it in */
};

/* ---- arguments ---------------------------------------------------------- */

struct search {
    const char *name;
    struct mc_view value;
    bool is_found;
};

static enum MHD_Result match_arg(void *ctx, enum MHD_ValueKind kind,
                                 const char *name, size_t name_len,
                                 const char *value, size_t value_len)
{
    struct search *search = ctx;
    (void)kind;
    if (strlen(search->name) != name_len ||
        memcmp(search->name, name, name_len) != 0) {
        return MHD_YES;
    }
    search->is_found = true;
    search->value = mc_view_make(value ? value : "", value_len);
    return MHD_NO;
}

bool mci_http_arg(const struct mci_http_request *request, const char *name,
                  struct mc_view *value_out)
{
    struct search search = {.name = name};
    (void)MHD_get_connection_values_n(
        request->connection, MHD_GET_ARGUMENT_KIND, match_arg, &search);
    if (search.is_found) {
        *value_out = search.value;
    }
    return search.is_found;
}

bool mci_http_arg_is_true(const struct mci_http_request *request,
                          const char *name)
{
    static const char *const words[] = {"1", "true", "yes"};
    struct mc_view value;
    if (!mci_http_arg(request, name, &value)) {
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == value.len &&
            strncasecmp(words[i], value.data, value.len) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- answers ------------------------------------------------------------- */

void mci_http_write(struct mci_http_response *response, struct mc_view bytes)
{
    if (mci_buf_append(&response->body, bytes.data, bytes.len) != MC_OK) {
        response->has_failed = true;
    }
}

void mci_http_print(struct mci_http_response *response, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof text) {
        response->has_failed = true;
        return;
    }
    mci_http_write(response, mc_view_make(text, (size_t)len));
}

void mci_http_say(struct mci_http_response *response, unsigned status,
                  const char *text)
{
    response->status = status;
    response->content_type = MCI_HTTP_TEXT;
    mci_buf_clear(&response->body);
    mci_http_write(response, mc_view_str(text));
}

void mci_http_show_version(void *ctx, const struct mci_http_request *request,
                           struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_print(response, "{\"version\":\"%s\"}", MC_VERSION);
}

static const struct mci_http_route *
find_route(const struct mci_http_server *server, const char *path)
{
    for (size_t i = 0; i < server->opts.route_count; i++) {
        if (strcmp(server->opts.routes[i].path, path) == 0) {
            return &server->opts.routes[i];
        }
    }
    return NULL;
}

static unsigned method_of(const char *word)
{
    static const struct {
        const char *word;
        enum mci_http_method method;
    } table[] = {{"GET", MCI_HTTP_GET},
                 {"HEAD", MCI_HTTP_GET},
                 {"PUT", MCI_HTTP_PUT},
                 {"POST", MCI_HTTP_POST},
                 {"DELETE", MCI_HTTP_DELETE}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].word, word) == 0) {
            return table[i].method;
        }
    }
    return 0;
}

static ssize_t read_source(void *ctx, uint64_t at, char *out, size_t max)
{
    struct mci_http_source *source = ctx;
    (void)at;
    int64_t len = source->read(source->ctx, out, max);
    return len > 0    ? (ssize_t)len
           : len == 0 ? MHD_CONTENT_READER_END_OF_STREAM
                      : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_source(void *ctx)
{
    struct mci_http_source *source = ctx;
    source->close(source->ctx);
    mci_free(source);
}

static struct MHD_Response *stream(const struct mci_http_source *source)
{
    struct mci_http_source *copy = mci_alloc(sizeof *copy);
    if (!copy) {
        source->close(source->ctx);
        return NULL;
    }
    *copy = *source;
    struct MHD_Response *out = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_source, copy, close_source);
    if (!out) {
        close_source(copy);
    }
    return out;
}

/* The answer's memory moves to the result; NULL on failure. */
static struct MHD_Response *convert(struct mci_http_response *response)
{
    if (response->source.read) {
        return stream(&response->source);
    }
    struct MHD_Response *out;
    if (response->body.len == 0) {
        return MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    }
    out = MHD_create_response_from_buffer_with_free_callback(
        response->body.len, response->body.data, mci_free);
    if (out) {
        response->body.data = NULL;
    }
    return out;
}

static const char *allowed(unsigned methods)
{
    switch (methods) {
    case MCI_HTTP_GET:
        return "GET, HEAD";
    case MCI_HTTP_POST:
        return "POST";
    case MCI_HTTP_GET | MCI_HTTP_POST:
        return "GET, HEAD, POST";
    default:
        return "GET, HEAD, PUT, DELETE";
    }
}

static enum MHD_Result answer(struct MHD_Connection *connection,
                              struct mci_http_response *response,
                              unsigned methods)
{
    if (response->has_failed) {
        response->source.read = NULL;
        response->has_failed = false;
        mci_http_say(response, MHD_HTTP_INTERNAL_SERVER_ERROR,
                     "out of memory\n");
    }
    unsigned status = response->status;
    struct MHD_Response *out = convert(response);
    mci_buf_fini(&response->body);
    if (!out) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(out, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  response->content_type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(out, MHD_HTTP_HEADER_ALLOW,
                                      allowed(methods));
    }
    enum MHD_Result result = MHD_queue_response(connection, status, out);
    MHD_destroy_response(out);
    return result;
}

/* ---- requests ------------------------------------------------------------- */

static enum MHD_Result run_route(struct mci_http_server *server,
                                 struct MHD_Connection *connection,
                                 const char *path, const char *word,
                                 struct exchange *exchange)
{
    const struct mci_http_route *route = find_route(server, path);
    unsigned method = method_of(word);
    struct mci_http_response response = {.status = MHD_HTTP_OK,
                                         .content_type = MCI_HTTP_JSON};
    mci_buf_init(&response.body, ANSWER_MAX);
    if (!route) {
        mci_http_say(&response, MHD_HTTP_NOT_FOUND, "no such page\n");
    } else if (!(route->methods & method)) {
        mci_http_say(&response, MHD_HTTP_METHOD_NOT_ALLOWED,
                     "this page does not take that method\n");
    } else if (exchange->err == MC_ERR_BUFFER_OVERFLOW) {
        mci_http_say(&response, MHD_HTTP_CONTENT_TOO_LARGE,
                     "the body is too large\n");
    } else if (exchange->err) {
        response.has_failed = true;
    } else {
        const struct mci_http_request request = {
            .method = (enum mci_http_method)method,
            .path = path,
            .body = mci_buf_view(&exchange->body),
            .connection = connection};
        route->run(server->opts.ctx, &request, &response);
    }
    return answer(connection, &response, route ? route->methods : 0);
}

/* Called with the head of a request, with each piece of its body, at its end;
 * with as many parameters as libmicrohttpd gives. */
/* NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *data,
                                  size_t *len, void **slot)
{
    struct mci_http_server *server = ctx;
    struct exchange *exchange = *slot;
    (void)version;
    if (!exchange) {
        exchange = mci_calloc(1, sizeof *exchange);
        if (!exchange) {
            return MHD_NO;
        }
        mci_buf_init(&exchange->body, server->opts.body_max);
        *slot = exchange;
        return MHD_YES;
    }
    if (*len > 0) {
        if (!exchange->err) {
            exchange->err = mci_buf_append(&exchange->body, data, *len);
        }
        *len = 0;
        return MHD_YES;
    }
    return run_route(server, connection, path, method, exchange);
}

static void on_completed(void *ctx, struct MHD_Connection *connection,
                         void **slot, enum MHD_RequestTerminationCode how)
{
    struct exchange *exchange = *slot;
    (void)ctx;
    (void)connection;
    (void)how;
    if (exchange) {
        mci_buf_fini(&exchange->body);
        mci_free(exchange);
        *slot = NULL;
    }
}

/* ---- life ------------------------------------------------------------------ */

static enum mc_err start(struct mci_http_server *server, int fd)
{
    server->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
            MHD_USE_POLL | MHD_USE_ITC,
        0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_MAX_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_MAX,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
    if (!server->daemon) {
        mc_log(MC_LOG_ERROR, "http %s: cannot start", server->opts.name);
        return MC_ERR_INTERNAL_ERROR;
    }
    return MC_OK;
}

enum mc_err mci_http_server_open(const struct mci_http_server_opts *opts,
                                 struct mci_http_server **server_out,
                                 uint16_t *port_out)
{
    const struct mci_listen_opts listen = {.host = opts->address,
                                           .port = opts->port};
    int fd = -1;
    uint16_t port = 0;
    const char *why = "";
    enum mc_err err = mci_address_listen(&listen, &fd, &port, &why);
    if (err) {
        mc_log(MC_LOG_ERROR, "http %s: listen on %s port %u: %s", opts->name,
               opts->address ? opts->address : "any address",
               (unsigned)opts->port, why);
        return err;
    }
    struct mci_http_server *server = mci_calloc(1, sizeof *server);
    if (!server) {
        err = MC_ERR_NOMEM;
        goto err_close_fd;
    }
    server->opts = *opts;
    if (server->opts.body_max == 0) {
        server->opts.body_max = BODY_MAX;
    }
    err = start(server, fd);
    if (err) {
        goto err_free;
    }
    *server_out = server;
    *port_out = port;
    return MC_OK;

err_free:
    mci_free(server);
err_close_fd:
    (void)close(fd);
    return err;
}

void mci_http_server_close(struct mci_http_server *server)
{
    if (!server) {
        return;
    }
    MHD_stop_daemon(server->daemon); /* closes the socket too */
    mci_free(server);
}
