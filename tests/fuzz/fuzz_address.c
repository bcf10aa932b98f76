/* SPDX-License-Identifier: Apache-2.0 */
/* What is read as host and port prints as a text that reads as the same; a key
 * that is one by its letters has its length. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mci_address.h"
#include "mci_curve_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    struct mci_address first;
    struct mci_address second;
    if (mci_address_parse(text, &first) == MC_OK) {
        char printed[MCI_HOST_LEN_MAX + 9];
        require(first.host[0] != '\0' &&
                strlen(first.host) <= MCI_HOST_LEN_MAX);
        require(first.has_port || first.port == 0);
        mci_address_print(&first, printed);
        require(mci_address_parse(printed, &second) == MC_OK);
        require(strcmp(first.host, second.host) == 0 &&
                first.port == second.port && second.has_port);
    }
    require(!mci_curve_is_key(text) || strlen(text) == MCI_CURVE_KEY_LEN);
    free(text);
    return 0;
}
