/* SPDX-License-Identifier: Apache-2.0 */
/* client_later.c - calls that are declared and not built yet. */
#include "client.h"
