/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "http_metadata.h"
#include "http_server.h"
#include "mc_log.h"
#include "mci_client_http.h"
#include "socket_pair.h"
#include "suite.h"

#define ANSWER_ROOM (1 << 20)

static void hush(void *ctx, enum mc_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

/* ---- asking ------------------------------------------------------------------ */

static void send_text(int fd, const char *text, size_t len)
{
    while (len > 0) {
        struct pollfd entry = {.fd = fd, .events = POLLOUT};
        ck_assert_int_eq(poll(&entry, 1, 20000), 1);
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent < 0) {
            return; /* refused before all was said */
        }
        text += sent;
        len -= (size_t)sent;
    }
}

/* All that comes until the other side closes, NUL-terminated; the caller frees
 * it. */
static char *read_all(int fd, size_t *len_out)
{
    char *text = malloc(ANSWER_ROOM);
    size_t len = 0;
    ck_assert_ptr_nonnull(text);
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        ck_assert_int_eq(poll(&entry, 1, 60000), 1);
        ssize_t got = recv(fd, text + len, ANSWER_ROOM - 1 - len, 0);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
        ck_assert_uint_lt(len, ANSWER_ROOM - 1);
    }
    text[len] = '\0';
    if (len_out) {
        *len_out = len;
    }
    return text;
}

static char *ask_raw(uint16_t port, const char *text, size_t len)
{
    int fd = pair_connect(port);
    send_text(fd, text, len);
    char *answer = read_all(fd, NULL);
    (void)close(fd);
    return answer;
}

static char *ask(uint16_t port, const char *line)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", line);
    return ask_raw(port, text, strlen(text));
}

static void expect(uint16_t port, const char *line, const char *status,
                   const char *body)
{
    char *answer = ask(port, line);
    const char *got = strstr(answer, "\r\n\r\n");
    ck_assert_msg(strncmp(answer + 9, status, 3) == 0, "%s: %.200s", line,
                  answer);
    ck_assert_ptr_nonnull(got);
    ck_assert_msg(strstr(got, body) != NULL, "%s: %.400s", line, answer);
    free(answer);
}

/* ---- a server of our own ------------------------------------------------------- */

#define LONG_BYTES (300 * 1024)

struct stage {
    struct mci_http_server *server;
    uint16_t port;
    atomic_int opened; /* sources */
    atomic_int closed;
    atomic_bool must_cut;
};

struct source {
    struct stage *stage;
    size_t left;
};

static int64_t read_source(void *ctx, char *out, size_t max)
{
    struct source *source = ctx;
    size_t len = source->left < max ? source->left : max;
    if (atomic_load(&source->stage->must_cut) && source->left < LONG_BYTES) {
        return -1;
    }
    memset(out, 'x', len);
    source->left -= len;
    return (int64_t)len;
}

static void close_source(void *ctx)
{
    struct source *source = ctx;
    atomic_fetch_add(&source->stage->closed, 1);
    free(source);
}

static void show_long(void *ctx, const struct mci_http_request *request,
                      struct mci_http_response *response)
{
    struct stage *stage = ctx;
    struct source *source = calloc(1, sizeof *source);
    (void)request;
    ck_assert_ptr_nonnull(source);
    source->stage = stage;
    source->left = LONG_BYTES;
    atomic_fetch_add(&stage->opened, 1);
    response->content_type = MCI_HTTP_TEXT;
    response->source =
        (struct mci_http_source){read_source, close_source, source};
}

static void show_echo(void *ctx, const struct mci_http_request *request,
                      struct mci_http_response *response)
{
    struct mc_view value = {NULL, 0};
    (void)ctx;
    bool is_given = mci_http_arg(request, "a", &value);
    mci_http_print(response, "%d%d:", is_given,
                   mci_http_arg_is_true(request, "a"));
    if (is_given) {
        mci_http_json_string(response, value);
    }
    mci_http_print(response, ":");
    mci_http_write(response, request->body);
}

static void show_failure(void *ctx, const struct mci_http_request *request,
                         struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_print(response, "half of an answer");
    response->has_failed = true;
}

static const struct mci_http_route routes[] = {
    {"/echo", MCI_HTTP_GET | MCI_HTTP_POST, show_echo},
    {"/long", MCI_HTTP_GET, show_long},
    {"/failure", MCI_HTTP_GET, show_failure},
};

static void open_stage(struct stage *stage)
{
    *stage = (struct stage){.port = 0};
    const struct mci_http_server_opts opts = {.name = "test",
                                              .address = "127.0.0.1",
                                              .routes = routes,
                                              .route_count = sizeof routes /
                                                             sizeof routes[0],
                                              .body_max = 1000,
                                              .ctx = stage};
    mc_log_set_sink(hush, NULL);
    ck_assert_int_eq(mci_http_server_open(&opts, &stage->server, &stage->port),
                     MC_OK);
}

static void close_stage(struct stage *stage)
{
    mci_http_server_close(stage->server);
    ck_assert_int_eq(atomic_load(&stage->opened), atomic_load(&stage->closed));
    mc_log_set_sink(NULL, NULL);
}

START_TEST(arguments_are_decoded_once)
{
    struct stage stage;
    open_stage(&stage);
    expect(stage.port, "GET /echo", "200", "00::");
    expect(stage.port, "GET /echo?a", "200", "10:\"\":");
    expect(stage.port, "GET /echo?a=", "200", "10:\"\":");
    expect(stage.port, "GET /echo?b=1&a=2", "200", "10:\"2\":");
    expect(stage.port, "GET /echo?a=1&a=2", "200", "11:\"1\":");
    expect(stage.port, "GET /echo?a=TRUE", "200", "11:");
    expect(stage.port, "GET /echo?a=truest", "200", "10:");
    expect(stage.port, "GET /echo?a=x%2Fy%20z+w", "200", "\"x/y z w\"");
    expect(stage.port, "GET /echo?a=%2525", "200", "\"%25\"");
    expect(stage.port, "GET /echo?a=%C3%BC", "200", "\"\xc3\xbc\"");
    expect(stage.port, "GET /echo?a=%22%5C%0A%7F", "200",
           "\"\\\"\\\\\\u000a\\u007f\"");
    expect(stage.port, "GET /echo?a=x%00y", "200", "\"x\\u0000y\"");
    expect(stage.port, "GET /echo?a=%FFx%C3", "200",
           "\"\xef\xbf\xbdx\xef\xbf\xbd\"");
    expect(stage.port, "GET /echo?a=%ED%A0%80", "200", "\xef\xbf\xbd");
    close_stage(&stage);
}
END_TEST

START_TEST(what_no_route_answers_is_answered)
{
    struct stage stage;
    open_stage(&stage);
    expect(stage.port, "GET /other", "404", "no such page");
    expect(stage.port, "GET /echo/", "404", "no such page");
    expect(stage.port, "PUT /echo", "405", "method");
    expect(stage.port, "BREW /echo", "405", "method");
    char *answer = ask(stage.port, "DELETE /long");
    ck_assert_ptr_nonnull(strstr(answer, "\r\nAllow: GET, HEAD\r\n"));
    free(answer);
    expect(stage.port, "GET /failure", "500", "out of memory");
    close_stage(&stage);
}
END_TEST

START_TEST(a_body_is_whole_or_refused)
{
    static char text[4096];
    static char body[2001];
    struct stage stage;
    open_stage(&stage);
    memset(body, 'b', 2000);
    for (int len = 998; len <= 1002; len++) {
        (void)snprintf(text, sizeof text,
                       "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                       "Content-Length: %d\r\n\r\n%.*s",
                       len, len, body);
        char *answer = ask_raw(stage.port, text, strlen(text));
        ck_assert_int_eq(strncmp(answer + 9, len <= 1000 ? "200" : "413", 3),
                         0);
        free(answer);
    }
    /* In pieces, whose sum is over the limit. */
    (void)snprintf(text, sizeof text,
                   "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n"
                   "1f4\r\n%.500s\r\n1f4\r\n%.500s\r\n1\r\nb\r\n0\r\n\r\n",
                   body, body);
    char *answer = ask_raw(stage.port, text, strlen(text));
    ck_assert_int_eq(strncmp(answer + 9, "413", 3), 0);
    free(answer);
    close_stage(&stage);
}
END_TEST

START_TEST(a_long_answer_is_made_while_it_is_sent)
{
    struct stage stage;
    open_stage(&stage);
    int fd = pair_connect(stage.port);
    const char *text = "GET /long HTTP/1.0\r\n\r\n";
    size_t len = 0;
    send_text(fd, text, strlen(text));
    char *answer = read_all(fd, &len);
    const char *body = strstr(answer, "\r\n\r\n");
    ck_assert_ptr_nonnull(body);
    ck_assert_uint_eq(len - (size_t)(body + 4 - answer), LONG_BYTES);
    free(answer);
    (void)close(fd);
    /* One that ends badly is cut: it has no proper end. */
    atomic_store(&stage.must_cut, true);
    answer = ask(stage.port, "GET /long");
    ck_assert_ptr_null(strstr(answer, "\r\n0\r\n\r\n"));
    free(answer);
    close_stage(&stage);
}
END_TEST

static const char *const noise[] = {
    "",
    "\r\n\r\n",
    "GET\r\n\r\n",
    "GET /echo\r\n\r\n",
    "GET /echo HTTP/9.9\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "GET /echo HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "GET /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
     "chunked\r\n\r\nzz\r\n"),
    "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
    "GET /echo?a=%zz%1 HTTP/1.1\r\nHost: x\r\n",
};

START_TEST(noise_and_peers_that_leave_change_nothing)
{
    struct stage stage;
    open_stage(&stage);
    for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++) {
        int fd = pair_connect(stage.port);
        send_text(fd, noise[i], strlen(noise[i]));
        (void)shutdown(fd, SHUT_WR);
        free(read_all(fd, NULL));
        (void)close(fd);
    }
    /* Who asks for something long and does not stay. */
    for (int i = 0; i < 20; i++) {
        int fd = pair_connect(stage.port);
        const char *text = "GET /long HTTP/1.1\r\nHost: x\r\n\r\n";
        const struct linger at_once = {.l_onoff = 1};
        send_text(fd, text, strlen(text));
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        (void)close(fd);
    }
    expect(stage.port, "GET /echo?a=1", "200", "11:\"1\":");
    close_stage(&stage);
}
END_TEST

START_TEST(an_endless_head_is_refused)
{
    struct stage stage;
    open_stage(&stage);
    size_t len = 2 << 20;
    char *text = malloc(len);
    ck_assert_ptr_nonnull(text);
    memset(text, 'a', len);
    memcpy(text, "GET /echo?a=", 12);
    char *answer = ask_raw(stage.port, text, len);
    ck_assert(answer[0] == '\0' || answer[9] == '4');
    free(answer);
    free(text);
    expect(stage.port, "GET /echo?a=1", "200", "11:\"1\":");
    close_stage(&stage);
}
END_TEST

START_TEST(closing_cuts_connections_that_stay)
{
    struct stage stage;
    int fds[20];
    open_stage(&stage);
    for (int i = 0; i < 20; i++) {
        fds[i] = pair_connect(stage.port);
        send_text(fds[i], "GET /echo HT", 12);
    }
    uint64_t before_ns = mci_clock_ns();
    close_stage(&stage);
    ck_assert_uint_lt(mci_clock_ns() - before_ns, 5 * MCI_NS_PER_S);
    for (int i = 0; i < 20; i++) {
        (void)close(fds[i]);
    }
}
END_TEST

START_TEST(a_taken_port_and_a_bad_address_are_told)
{
    struct stage stage;
    struct mci_http_server *server = NULL;
    uint16_t port = 0;
    open_stage(&stage);
    struct mci_http_server_opts opts = {.name = "test",
                                        .address = "127.0.0.1",
                                        .port = stage.port,
                                        .routes = routes,
                                        .route_count = 1};
    ck_assert_int_eq(mci_http_server_open(&opts, &server, &port),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    opts.address = "no-such-host.invalid";
    ck_assert_int_eq(mci_http_server_open(&opts, &server, &port),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(server);
    mci_http_server_close(NULL);
    close_stage(&stage);
}
END_TEST

/* ---- the pages of a client ------------------------------------------------------- */

static int health;

static int tell_health(void *ctx)
{
    (void)ctx;
    return health;
}

static enum mc_err tell_text(void *ctx, struct mci_buf *text)
{
    return mci_buf_append(text, ctx, strlen(ctx));
}

static enum mc_err tell_nothing(void *ctx, struct mci_buf *text)
{
    (void)ctx;
    enum mc_err err = mci_buf_append(text, "half", 4);
    return err ? err : MC_ERR_NOMEM;
}

START_TEST(a_client_says_how_it_is)
{
    struct mci_client_http *http = NULL;
    uint16_t port = 0;
    char text[] = "figure 7\n";
    struct mci_client_http_opts opts = {.address = "127.0.0.1",
                                        .health = tell_health,
                                        .metrics = tell_text,
                                        .summary = tell_nothing,
                                        .ctx = text};
    ck_assert_int_eq(mci_client_http_open(&opts, &http, &port), MC_OK);
    health = 0;
    expect(port, "GET /health", "200", "{\"status\":\"healthy\",\"code\":0}");
    health = 1;
    expect(port, "GET /health", "503",
           "{\"status\":\"not_initialized\",\"code\":1}");
    health = 2;
    expect(port, "GET /health", "503",
           "{\"status\":\"master_unreachable\",\"code\":2}");
    health = 77;
    expect(port, "GET /health", "503", "not_initialized");
    expect(port, "GET /metrics", "200", "figure 7\n");
    expect(port, "GET /metrics/summary", "503", "metrics not available");
    expect(port, "GET /version", "200", "{\"version\":\"");
    expect(port, "POST /health", "405", "method");
    mci_client_http_close(http);
    mci_client_http_close(NULL);
    opts = (struct mci_client_http_opts){.address = "127.0.0.1"};
    ck_assert_int_eq(mci_client_http_open(&opts, &http, &port), MC_OK);
    expect(port, "GET /health", "503", "not_initialized");
    expect(port, "GET /metrics", "503", "metrics not available");
    mci_client_http_close(http);
}
END_TEST

/* ---- metadata --------------------------------------------------------------------- */

static void put_key(uint16_t port, const char *key)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "PUT /metadata?key=%s HTTP/1.1\r\nHost: x\r\n"
                   "Connection: close\r\nContent-Length: 2\r\n\r\n{}",
                   key);
    char *answer = ask_raw(port, text, strlen(text));
    ck_assert_int_eq(strncmp(answer + 9, "200", 3), 0);
    free(answer);
}

START_TEST(who_is_gone_is_forgotten)
{
    struct mci_metadata *metadata = NULL;
    uint16_t port = 0;
    struct mci_metadata_stats stats;
    ck_assert_int_eq(mci_metadata_open("127.0.0.1", 0, &metadata, &port),
                     MC_OK);
    static const char *const gone[] = {
        "mooncake/ram/h:1", "mooncake/rpc_meta/h:1", "mooncake/cluster/ram/h:1",
        "mooncake/cluster/rpc_meta/h:1"};
    static const char *const left[] = {"mooncake/ram/h:11", "mooncake/ram/xh:1",
                                       "h:1", "mooncake/other/h:1", "ram/h:1"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        put_key(port, gone[i]);
    }
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        put_key(port, left[i]);
    }
    mci_metadata_forget(metadata, mc_view_str("h:1"));
    mci_metadata_forget(metadata, mc_view_str(""));
    mci_metadata_forget(metadata, mc_view_make(NULL, 0));
    mci_metadata_stat(metadata, &stats);
    ck_assert_uint_eq(stats.keys, sizeof left / sizeof left[0]);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "GET /metadata?key=%s", left[i]);
        expect(port, line, "200", "{}");
    }
    mci_metadata_close(metadata);
    mci_metadata_close(NULL);
}
END_TEST

START_TEST(opening_without_memory_fails_cleanly)
{
    struct alloc_fail fail;
    mc_log_set_sink(hush, NULL);
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_client_http *http = NULL;
        uint16_t port = 0;
        const struct mci_client_http_opts opts = {.address = "127.0.0.1"};
        alloc_fail_arm(&fail);
        enum mc_err err = mci_client_http_open(&opts, &http, &port);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_client_http_close(http);
    }
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_metadata *metadata = NULL;
        uint16_t port = 0;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_metadata_open("127.0.0.1", 0, &metadata, &port);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_metadata_close(metadata);
    }
    mc_log_set_sink(NULL, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http");
    TCase *server = tcase_create("server");
    tcase_set_timeout(server, 120);
    tcase_add_test(server, arguments_are_decoded_once);
    tcase_add_test(server, what_no_route_answers_is_answered);
    tcase_add_test(server, a_body_is_whole_or_refused);
    tcase_add_test(server, a_long_answer_is_made_while_it_is_sent);
    tcase_add_test(server, a_taken_port_and_a_bad_address_are_told);
    suite_add_tcase(suite, server);
    TCase *peers = tcase_create("peers");
    tcase_set_timeout(peers, 120);
    tcase_add_test(peers, noise_and_peers_that_leave_change_nothing);
    tcase_add_test(peers, an_endless_head_is_refused);
    tcase_add_test(peers, closing_cuts_connections_that_stay);
    suite_add_tcase(suite, peers);
    TCase *pages = tcase_create("pages");
    tcase_set_timeout(pages, 120);
    tcase_add_test(pages, a_client_says_how_it_is);
    tcase_add_test(pages, who_is_gone_is_forgotten);
    tcase_add_test(pages, opening_without_memory_fails_cleanly);
    suite_add_tcase(suite, pages);
    return suite_run(suite);
}
