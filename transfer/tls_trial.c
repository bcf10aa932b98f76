/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mc_log.h"
#include "mc_tls.h"
#include "mci_address.h"

/* The log says how far it came. */
static enum mc_err failed(const char *what, const char *dir, const char *name)
{
    mc_log(MC_LOG_ERROR, "tls: %s %s/%s: %s", what, dir, name,
           strerrordesc_np(errno));
    return MC_ERR_FILE_WRITE_FAIL;
}

static enum mc_err write_pem(const struct mci_tls_trial *trial,
                             enum mci_tls_pem what, const char *dir,
                             const char *name)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = -1;
    if (len > 0 && (size_t)len < sizeof path) {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  what == MCI_TLS_PEM_KEY ? 0600 : 0644);
    }
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        enum mc_err err = failed("make", dir, name);
        if (fd >= 0) {
            (void)close(fd);
        }
        return err;
    }
    bool is_written = mci_tls_trial_write(trial, what, file);
    return fclose(file) == 0 && is_written ? MC_OK : failed("write", dir, name);
}

static enum mc_err write_all(const struct mci_tls_trial *trial, const char *dir)
{
    enum mc_err err = write_pem(trial, MCI_TLS_PEM_CA, dir, "ca.pem");
    if (!err) {
        err = write_pem(trial, MCI_TLS_PEM_CERT, dir, "cert.pem");
    }
    return err ? err : write_pem(trial, MCI_TLS_PEM_KEY, dir, "key.pem");
}

/* The names a trial certificate is good for, as OpenSSL reads them. */
static bool print_alt(const char *host, char *room, size_t size)
{
    char own[256] = "localhost";
    (void)gethostname(own, sizeof own - 1);
    if (host && (host[0] == '\0' || strpbrk(host, ",;\n"))) {
        return false;
    }
    int len = snprintf(room, size,
                       "DNS:localhost,IP:127.0.0.1,IP:::1,DNS:%s%s%s", own,
                       !host                      ? ""
                       : mci_host_is_number(host) ? ",IP:"
                                                  : ",DNS:",
                       host ? host : "");
    return len > 0 && (size_t)len < size;
}

enum mc_err mc_tls_make_trial(const char *dir, const char *host, int days)
{
    char alt[1024];
    if (!print_alt(host, alt, sizeof alt)) {
        mc_log(MC_LOG_ERROR, "tls: not a host: %.64s", host ? host : "");
        return MC_ERR_INVALID_PARAMS;
    }
    if (mkdir(dir, 0777) < 0 && errno != EEXIST) {
        mc_log(MC_LOG_ERROR, "tls: make %s: %s", dir, strerrordesc_np(errno));
        return MC_ERR_FILE_WRITE_FAIL;
    }
    struct mci_tls_trial *trial = NULL;
    enum mc_err err =
        mci_tls_trial_create(alt, (days < 0 ? days - 1 : -1) * MCI_TLS_DAY_S,
                             (days == 0 ? 365 : days) * MCI_TLS_DAY_S, &trial);
    if (!err) {
        err = write_all(trial, dir);
    }
    mci_tls_trial_destroy(trial);
    return err;
}
