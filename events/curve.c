/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_curve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mc_log.h"
#include "zmq_socket.h"

static enum mc_err fail(const char *path)
{
    mc_log(MC_LOG_ERROR, "curve: %s: %s", path, strerror(errno));
    return MC_ERR_FILE_WRITE_FAIL;
}

enum mc_err mc_curve_make(const char *path,
                          char public_out[MC_CURVE_TEXT_LEN + 1])
{
    char text[2 * MC_CURVE_TEXT_LEN + 32];
    char public_key[MC_CURVE_TEXT_LEN + 1];
    char secret_key[MC_CURVE_TEXT_LEN + 1];
    enum mc_err err = mci_curve_keypair(public_key, secret_key);
    if (err != MC_OK) {
        return err;
    }
    int len = snprintf(text, sizeof text, "public %s\nsecret %s\n", public_key,
                       secret_key);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        err = fail(path);
    } else if (write(fd, text, (size_t)len) != len || fsync(fd) != 0) {
        err = fail(path);
        (void)unlink(path);
    } else {
        memcpy(public_out, public_key, sizeof public_key);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    explicit_bzero(text, sizeof text);
    explicit_bzero(secret_key, sizeof secret_key);
    return err;
}
