/* SPDX-License-Identifier: Apache-2.0 */
/* The one door to OpenSSL. TLS 1.3, both sides show a certificate that the
 * other's CA has signed, and the connecting side checks whose it is. Nothing is
 * resumed and no early data is taken. Sockets are written to through a BIO of our
 * own, since OpenSSL's raises SIGPIPE.
 */
#include "tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "mc_log.h"
#include "mci_address.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "tls_record.h"
#include "tls_trial.h"

#define WARNING_PAUSE_NS (10 * MCI_NS_PER_S)

struct mci_tls {
    SSL_CTX *context;
    BIO_METHOD *method;
    _Atomic uint64_t quiet_until_ns; /* no warning before */
};

struct mci_tls_session {
    SSL *ssl;
    struct mci_tls *tls; /* NULL: of the side that accepts */
    int fd;              /* the stream's */
    bool has_heard;      /* bytes of the peer, after the handshake */
    const char *peer;
    short recv_events; /* what the last call that moved nothing waits for */
    short send_events;
};

/* ---- the socket --------------------------------------------------------- */

static int socket_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *data, int len)
{
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(socket_of(bio), data, (size_t)len, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_write(bio);
    }
    return (int)sent;
}

static int bio_read(BIO *bio, char *data, int len)
{
    BIO_clear_retry_flags(bio);
    ssize_t got = recv(socket_of(bio), data, (size_t)len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_read(bio);
    }
    return (int)got;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "mckv socket");
    if (method) {
        (void)BIO_meth_set_write(method, bio_write);
        (void)BIO_meth_set_read(method, bio_read);
        (void)BIO_meth_set_ctrl(method, bio_ctrl);
    }
    return method;
}

/* ---- certificates -------------------------------------------------------- */

/* The newest reason in OpenSSL's queue, which is then empty. What the system
 * refused stands first, under reasons that only say so. */
static const char *last_reason(void)
{
    unsigned long first = ERR_peek_error();
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_SYSTEM_ERROR(first)
                             ? strerrordesc_np((int)ERR_GET_REASON(first))
                         : code ? ERR_reason_error_string(code)
                                : NULL;
    ERR_clear_error();
    return reason ? reason : "unknown reason";
}

static enum mc_err refuse(const char *what, const char *file)
{
    mc_log(MC_LOG_ERROR, "tls: %s %s: %s", what, file, last_reason());
    return MC_ERR_INVALID_PARAMS;
}

static enum mc_err load_files(SSL_CTX *context, const struct mc_tls_opts *opts)
{
    if (SSL_CTX_use_certificate_chain_file(context, opts->cert_file) != 1) {
        return refuse("certificate", opts->cert_file);
    }
    if (SSL_CTX_use_PrivateKey_file(context, opts->key_file,
                                    SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return refuse("key", opts->key_file);
    }
    if (SSL_CTX_load_verify_file(context, opts->ca_file) != 1) {
        return refuse("ca", opts->ca_file);
    }
    return MC_OK;
}

static SSL_CTX *make_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (!context) {
        return NULL;
    }
    if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(context,
                       SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return context;
}

enum mc_err mci_tls_create(const struct mc_tls_opts *opts,
                           struct mci_tls **tls_out)
{
    if (!opts->cert_file || !opts->key_file || !opts->ca_file) {
        mc_log(MC_LOG_ERROR,
               "tls: certificate, key and ca go together: %s "
               "is missing",
               !opts->cert_file  ? "the certificate"
               : !opts->key_file ? "the key"
                                 : "the ca");
        return MC_ERR_INVALID_PARAMS;
    }
    struct mci_tls *tls = mci_calloc(1, sizeof *tls);
    if (!tls) {
        return MC_ERR_NOMEM;
    }
    ERR_clear_error();
    enum mc_err err = MC_ERR_NOMEM;
    tls->method = make_method();
    tls->context = make_context();
    if (tls->method && tls->context) {
        err = load_files(tls->context, opts);
    }
    if (err) {
        mci_tls_destroy(tls);
        return err;
    }
    *tls_out = tls;
    return MC_OK;
}

void mci_tls_destroy(struct mci_tls *tls)
{
    if (!tls) {
        return;
    }
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    mci_free(tls);
}

/* ---- sessions ------------------------------------------------------------ */

/* A host that is a number must stand in the certificate as one. */
static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(rules,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (mci_host_is_number(host)) {
        return X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1;
    }
    return SSL_set_tlsext_host_name(ssl, host) == 1 &&
           SSL_set1_host(ssl, host) == 1;
}

static SSL *make_ssl(struct mci_tls *tls, int fd, const char *host)
{
    SSL *ssl = SSL_new(tls->context);
    BIO *bio = BIO_new(tls->method);
    if (!ssl || !bio) {
        BIO_free(bio);
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    if (!host) {
        SSL_set_accept_state(ssl);
        return ssl;
    }
    SSL_set_connect_state(ssl);
    if (!expect_host(ssl, host)) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

struct mci_tls_session *mci_tls_session_create(struct mci_tls *tls, int fd,
                                               const char *host,
                                               const char *peer)
{
    struct mci_tls_session *session = mci_calloc(1, sizeof *session);
    if (!session) {
        return NULL;
    }
    ERR_clear_error();
    session->peer = peer;
    session->tls = host ? tls : NULL;
    session->fd = fd;
    session->recv_events = POLLIN;
    session->send_events = POLLOUT;
    session->ssl = make_ssl(tls, fd, host);
    if (!session->ssl) {
        mci_free(session);
        return NULL;
    }
    return session;
}

void mci_tls_session_destroy(struct mci_tls_session *session)
{
    if (!session) {
        return;
    }
    ERR_clear_error();
    if (SSL_is_init_finished(session->ssl)) {
        (void)SSL_shutdown(session->ssl);
        ERR_clear_error();
    }
    SSL_free(session->ssl);
    mci_free(session);
}

/* Who dials wants to know what is wrong with the papers, of either side, but not
 * each time that it dials again: the handshake is over for it before the other
 * side has looked at its certificate, whose answer may be lost in a reset. On the
 * other side anybody may knock. */
static enum mc_log_level level_for(struct mci_tls_session *session)
{
    bool is_of_papers = ERR_peek_last_error() != 0 || !session->has_heard;
    if (!session->tls || !is_of_papers) {
        return MC_LOG_DEBUG;
    }
    uint64_t now_ns = mci_clock_ns();
    uint64_t until_ns = atomic_load(&session->tls->quiet_until_ns);
    bool is_first =
        now_ns >= until_ns &&
        atomic_compare_exchange_strong(&session->tls->quiet_until_ns, &until_ns,
                                       now_ns + WARNING_PAUSE_NS);
    return is_first ? MC_LOG_WARN : MC_LOG_DEBUG;
}

/* OpenSSL says nothing to who speaks no TLS at all. With an alert (fatal, protocol
 * version) where an answer should stand, our own clients know what is wrong. */
static void answer_plain_talk(const struct mci_tls_session *session)
{
    static const uint8_t alert[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46};
    int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (!session->tls && (reason == SSL_R_WRONG_VERSION_NUMBER ||
                          reason == SSL_R_HTTP_REQUEST)) {
        (void)!send(session->fd, alert, sizeof alert,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static const char *reason_of(const struct mci_tls_session *session, int kind)
{
    if (kind == SSL_ERROR_ZERO_RETURN) {
        return "closed by the peer";
    }
    if (ERR_peek_last_error() == 0) {
        return session->tls && !session->has_heard
                   ? "connection lost before a word was said: perhaps our "
                     "certificate is not believed there"
                   : "connection lost";
    }
    long verdict = SSL_get_verify_result(session->ssl);
    return verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                                : last_reason();
}

/* Why a call of OpenSSL moved nothing: *events_out is what to wait for. */
static enum mc_err judge(struct mci_tls_session *session, int result,
                         const char *what, short *events_out)
{
    int kind = SSL_get_error(session->ssl, result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        *events_out = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return MC_OK;
    }
    answer_plain_talk(session);
    enum mc_log_level level = level_for(session);
    const char *why = reason_of(session, kind);
    mc_log(level, "peer %s: tls %s: %s", session->peer, what, why);
    ERR_clear_error();
    return MC_ERR_RPC_FAIL;
}

enum mc_err mci_tls_session_handshake(struct mci_tls_session *session,
                                      bool *is_done_out)
{
    ERR_clear_error();
    int result = SSL_do_handshake(session->ssl);
    *is_done_out = result == 1;
    return result == 1
               ? MC_OK
               : judge(session, result, "handshake", &session->recv_events);
}

/* ---- moving bytes --------------------------------------------------------- */

enum mc_err mci_tls_session_recv(struct mci_tls_session *session,
                                 const struct iovec *parts, int count,
                                 size_t *moved_out)
{
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        size_t filled = 0;
        while (filled < parts[i].iov_len) {
            size_t got = 0;
            ERR_clear_error();
            int result =
                SSL_read_ex(session->ssl, (uint8_t *)parts[i].iov_base + filled,
                            parts[i].iov_len - filled, &got);
            if (result != 1) {
                enum mc_err err =
                    judge(session, result, "recv", &session->recv_events);
                *moved_out = total;
                /* What came before the end is handed on first. */
                return total > 0 ? MC_OK : err;
            }
            session->has_heard = true;
            filled += got;
            total += got;
        }
    }
    *moved_out = total;
    return MC_OK;
}

/* A send that finds the connection reset: why may have come before that. */
static enum mc_err judge_send(struct mci_tls_session *session, int result)
{
    char byte;
    size_t got = 0;
    bool is_lost = SSL_get_error(session->ssl, result) == SSL_ERROR_SYSCALL &&
                   session->tls && !session->has_heard;
    if (!is_lost) {
        return judge(session, result, "send", &session->send_events);
    }
    ERR_clear_error();
    result = SSL_read_ex(session->ssl, &byte, 1, &got);
    enum mc_err err =
        result == 1 ? MC_ERR_RPC_FAIL
                    : judge(session, result, "send", &session->send_events);
    return err == MC_OK ? MC_ERR_RPC_FAIL : err;
}

/* One record, or what is left of a large part. */
static enum mc_err send_record(struct mci_tls_session *session,
                               struct iovec record, size_t *moved_out)
{
    *moved_out = 0;
    ERR_clear_error();
    int result =
        SSL_write_ex(session->ssl, record.iov_base, record.iov_len, moved_out);
    if (result != 1) {
        *moved_out = 0;
        return judge_send(session, result);
    }
    return MC_OK;
}

enum mc_err mci_tls_session_send(struct mci_tls_session *session,
                                 const struct iovec *parts, int count,
                                 size_t *moved_out)
{
    uint8_t room[MCI_TLS_RECORD_MAX];
    size_t total = 0;
    for (;;) {
        struct iovec record = mci_tls_next_record(parts, count, total, room);
        size_t moved = 0;
        enum mc_err err = MC_OK;
        if (record.iov_len > 0) {
            err = send_record(session, record, &moved);
        }
        total += moved;
        if (err || moved == 0) {
            *moved_out = total;
            return total > 0 ? MC_OK : err;
        }
    }
}

bool mci_tls_session_has_pending(const struct mci_tls_session *session)
{
    return SSL_pending(session->ssl) > 0;
}

short mci_tls_session_recv_events(const struct mci_tls_session *session)
{
    return session->recv_events;
}

short mci_tls_session_send_events(const struct mci_tls_session *session)
{
    return session->send_events;
}

/* ---- certificates for trying out ----------------------------------------- */

struct mci_tls_trial {
    X509 *ca;
    X509 *cert;
    EVP_PKEY *key; /* of cert; the one of the CA is not kept */
};

/* Who is certified: the CA itself, or a host under it. */
struct subject {
    const char *name;
    const char *alt; /* subjectAltName; NULL: a CA */
    long from_s;     /* relative to now */
    long until_s;
};

static bool add_extension(X509 *cert, X509 *issuer, int kind, const char *text)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, text);
    bool ok = extension && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

static bool add_extensions(X509 *cert, X509 *issuer,
                           const struct subject *subject)
{
    bool is_ca = subject->alt == NULL;
    if (!add_extension(cert, issuer, NID_basic_constraints,
                       is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE") ||
        !add_extension(cert, issuer, NID_subject_key_identifier, "hash") ||
        !add_extension(cert, issuer, NID_key_usage,
                       is_ca ? "critical,keyCertSign,cRLSign"
                             : "critical,digitalSignature")) {
        return false;
    }
    return is_ca ||
           (add_extension(cert, issuer, NID_ext_key_usage,
                          "serverAuth,clientAuth") &&
            add_extension(cert, issuer, NID_subject_alt_name, subject->alt));
}

/* Signed by the issuer, or by itself if that is NULL; NULL on failure. */
static X509 *make_cert(const struct subject *subject, EVP_PKEY *key,
                       X509 *issuer, EVP_PKEY *issuer_key)
{
    uint64_t serial = 0;
    X509 *cert = X509_new();
    if (!cert) {
        return NULL;
    }
    X509 *signer = issuer ? issuer : cert;
    X509_NAME *name = X509_get_subject_name(cert);
    if (RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
        X509_set_version(cert, X509_VERSION_3) == 1 &&
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), serial >> 1) ==
            1 &&
        X509_gmtime_adj(X509_getm_notBefore(cert), subject->from_s) &&
        X509_gmtime_adj(X509_getm_notAfter(cert), subject->until_s) &&
        X509_set_pubkey(cert, key) == 1 &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                   (const unsigned char *)subject->name, -1, -1,
                                   0) == 1 &&
        X509_set_issuer_name(cert, X509_get_subject_name(signer)) == 1 &&
        add_extensions(cert, signer, subject) &&
        X509_sign(cert, issuer_key, EVP_sha256()) > 0) {
        return cert;
    }
    X509_free(cert);
    return NULL;
}

enum mc_err mci_tls_trial_create(const char *alt, long from_s, long until_s,
                                 struct mci_tls_trial **trial_out)
{
    const struct subject root = {.name = "mckv trial CA",
                                 .from_s = -2 * MCI_TLS_DAY_S,
                                 .until_s = 3650 * MCI_TLS_DAY_S};
    const struct subject leaf = {
        .name = "mckv trial", .alt = alt, .from_s = from_s, .until_s = until_s};
    struct mci_tls_trial *trial = mci_calloc(1, sizeof *trial);
    if (!trial) {
        return MC_ERR_NOMEM;
    }
    ERR_clear_error();
    EVP_PKEY *ca_key = EVP_EC_gen("P-256");
    trial->key = EVP_EC_gen("P-256");
    if (ca_key && trial->key) {
        trial->ca = make_cert(&root, ca_key, NULL, ca_key);
    }
    if (trial->ca) {
        trial->cert = make_cert(&leaf, trial->key, trial->ca, ca_key);
    }
    EVP_PKEY_free(ca_key);
    if (!trial->cert) {
        mc_log(MC_LOG_ERROR, "tls: make certificates: %s", last_reason());
        mci_tls_trial_destroy(trial);
        return MC_ERR_INTERNAL_ERROR;
    }
    *trial_out = trial;
    return MC_OK;
}

void mci_tls_trial_destroy(struct mci_tls_trial *trial)
{
    if (!trial) {
        return;
    }
    X509_free(trial->cert);
    X509_free(trial->ca);
    EVP_PKEY_free(trial->key);
    mci_free(trial);
}

bool mci_tls_trial_write(const struct mci_tls_trial *trial,
                         enum mci_tls_pem what, FILE *file)
{
    switch (what) {
    case MCI_TLS_PEM_CA:
        return PEM_write_X509(file, trial->ca) == 1;
    case MCI_TLS_PEM_CERT:
        return PEM_write_X509(file, trial->cert) == 1;
    case MCI_TLS_PEM_KEY:
        break;
    }
    return PEM_write_PrivateKey(file, trial->key, NULL, NULL, 0, NULL, NULL) ==
           1;
}
