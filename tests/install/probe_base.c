/* SPDX-License-Identifier: Apache-2.0 */
#include <mc_err.h>
#include <mc_log.h>
#include <string.h>

int main(void)
{
    mc_log(MC_LOG_DEBUG, "unheard");
    return strcmp(mc_err_name(MC_ERR_OBJECT_NOT_FOUND), "OBJECT_NOT_FOUND");
}
