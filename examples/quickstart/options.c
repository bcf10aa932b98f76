/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "trace.h"

static const struct option long_options[] = {
    {"trace", required_argument, NULL, 't'},
    {"block-size", required_argument, NULL, 'b'},
    {"endpoint", required_argument, NULL, 'e'},
    {"master", required_argument, NULL, 'm'},
    {"pool", no_argument, NULL, 'p'},
    {"list", required_argument, NULL, 'l'},
    {"record", required_argument, NULL, 'r'},
    {"answers", required_argument, NULL, 'a'},
    {"watchers", required_argument, NULL, 'w'},
    {"acks-fd", required_argument, NULL, 'f'},
    {NULL, 0, NULL, 0},
};

static bool set(struct options *options, int letter)
{
    char *end;
    switch (letter) {
    case 't':
        options->trace_path = optarg;
        return true;
    case 'b':
        return trace_size_parse(optarg, &options->block_bytes);
    case 'e':
        options->endpoint = optarg;
        options->is_endpoint_default = false;
        return true;
    case 'm':
        options->master = optarg;
        return true;
    case 'p':
        options->wants_pool = true;
        return true;
    case 'l':
        options->list_path = optarg;
        return true;
    case 'r':
        options->record_path = optarg;
        return true;
    case 'a':
        options->answers_path = optarg;
        return true;
    case 'w':
        options->watchers = (unsigned)strtoul(optarg, &end, 10);
        return optarg[0] >= '0' && optarg[0] <= '9' && *end == 0;
    case 'f':
        options->acks_fd = (int)strtol(optarg, &end, 10);
        return *end == 0 && options->acks_fd >= 0;
    default:
        return false;
    }
}

int options_read(int argc, char **argv, const char *program,
                 struct options *options_out)
{
    struct options options = {
        .block_bytes = 4096,
        .endpoint = "tcp://127.0.0.1:5557",
        .is_endpoint_default = true,
        .acks_fd = 3,
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (!set(&options, letter)) {
            fprintf(stderr, "%s: wrong option or value\n", program);
            return 2;
        }
    }
    if (!options.trace_path || optind != argc) {
        fprintf(stderr, "usage: %s --trace FILE [OPTIONS], see quickstart.sh\n",
                program);
        return 2;
    }
    *options_out = options;
    return 0;
}
