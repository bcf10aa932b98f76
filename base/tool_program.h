/* SPDX-License-Identifier: Apache-2.0 */
/* tool_program.h - which program is running, for the other files of
 * mci_tool.h. Threads: the main thread only. */
#ifndef TOOL_PROGRAM_H
#define TOOL_PROGRAM_H
struct tool_program;

const struct tool_program *tool_program(void);
#endif
