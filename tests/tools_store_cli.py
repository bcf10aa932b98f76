#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mc-store and mooncake_client promise of their command lines; no master is needed."""
import os
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from free_port import free_port  # noqa: E402
from store_case import ENVIRONMENT, LAUNCHED, PATIENCE, StoreCase, rows_of  # noqa: E402

SUBCOMMANDS = ["serve", "put", "put-many", "get", "exist", "probe", "ls", "rm", "clear", "stat", "bench", "keygen"]
NOBODY = "127.0.0.1:9"      # discard: nothing listens there
EMBEDDED = ("--master", "embedded")


class CommandLine(StoreCase):
    def test_help_of_each_subcommand_has_usage_and_one_example(self):
        for name in SUBCOMMANDS:
            done = self.run_tool(name, "--help")
            out = done.stdout.decode()
            self.assertEqual((done.returncode, done.stderr), (0, b""), name)
            self.assertTrue(out.startswith("usage: mc-store " + name), out)
            self.assertEqual(out.count("example:\n  mc-store "), 1, out)

    def test_help_alone_lists_each_subcommand(self):
        done = self.run_tool("--help")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        for name in SUBCOMMANDS:
            self.assertIn("\n  %s " % name, done.stdout.decode())
        self.assertIn(b"example:", done.stdout)

    def test_version_is_told_everywhere(self):
        first = self.run_tool("--version")
        self.assertRegex(first.stdout.decode(), r"^mc-store \d+\.\d+\.\d+\n$")
        for name in SUBCOMMANDS:
            done = self.run_tool(name, "--version")
            self.assertEqual((done.returncode, done.stdout), (0, first.stdout))

    def test_wrong_use_exits_2_and_names_what_is_wrong(self):
        self.refused(2, ["usage:"])
        self.refused(2, ["bogus", "no such subcommand"], "bogus")
        for name in SUBCOMMANDS:
            self.refused(2, [name, "--bogus", "no such option", "try: mc-store " + name], name, "--bogus")
        for name in ("put", "put-many", "get", "exist", "probe", "bench"):
            self.refused(2, ["operand is missing"], name)
        for name in ("ls", "clear", "stat", "serve", "keygen"):
            self.refused(2, ["too many operands"], name, "a")
        self.refused(2, ["too many operands"], "put", "a", "b", "c")
        self.refused(2, ["--master: needs a value"], "ls", "--master")
        self.refused(2, ["--json: takes no value"], "ls", "--json=1")
        self.refused(2, ["--mast"], "ls", "--mast", NOBODY)         # no abbreviations
        self.refused(2, ["-j"], "ls", "-j")
        self.refused(2, ["keys or --regex"], "rm")
        self.refused(2, ["keys or --regex"], "rm", "k", "--regex", "k")
        self.refused(2, ["--curve and --tls"], "keygen")
        self.refused(2, ["--curve and --tls"], "keygen", "--curve", "a", "--tls", "b")
        self.refused(2, ["--json", "--output"], "get", "k", "--json")
        self.refused(2, ["--segment"], "serve")
        self.refused(2, ["embedded"], "serve", "--segment=1MB", "--master=embedded")
        self.refused(2, ["put, get or exist"], "bench", "remove")

    def test_values_are_checked_by_kind(self):
        for timeout in ("1", "1x", "-1s", "", "ms", "1e3s", "0x1s", "1 s", "2000h"):
            self.refused(2, ["--timeout"], "ls", "--timeout", timeout)
        for size in ("", "x", "1XB", "-1", "1e9", "1MBB", "99999999999GB", "0x10", "1.2.3"):
            self.refused(2, ["--segment"], "serve", "--segment", size)
        for count in ("0", "-1", "1x", "", "1.5", "99999999999999999999"):
            self.refused(2, ["--count"], "bench", "put", "--count", count)
            self.refused(2, ["--replicas"], "put", "k", "--replicas", count)
        for port in ("65535", "-1", "x", ""):
            self.refused(2, ["--port"], "serve", "--segment=1MB", "--port", port)
        for pin in ("60", "x", "-1s"):
            self.refused(2, ["--soft-pin"], "put", "k", "--soft-pin", pin)
        self.refused(2, ["--transport", "auto, tcp, shm or rdma"], "ls", "--transport", "pigeon")
        self.refused(2, ["--tls_cert", "together"], "ls", "--tls_cert", "c", "--tls_key", "k")
        self.refused(2, ["--batch"], "bench", "put", "--batch", "4097")
        self.refused(2, ["--threads"], "bench", "put", "--threads", "257")

    def test_dashes_and_underscores_are_alike(self):
        for flag in ("--soft_pin=1s", "--soft-pin=1s", "--hard_pin", "--hard-pin"):
            done = self.run_tool("put", "k", "-", flag, *EMBEDDED, content=b"x")
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_a_master_that_is_not_there_is_a_failure_that_names_it(self):
        file = self.write("f", "x")
        for args in (["put", "k", file], ["get", "k"], ["exist", "k"], ["probe", "k"], ["ls"], ["rm", "k"],
                     ["rm", "--regex", "k"], ["clear"], ["stat"], ["bench", "put"], ["serve", "--segment=1MB"],
                     ["put-many", self.write("l", '{"key":"k","size":1}\n')]):
            self.refused(1, ["mc-store: " + args[0], NOBODY, "(-90"], *args, "--master", NOBODY, "--timeout=2s")
        self.refused(1, ["nonsense", "(-600)"], "ls", "--master", "nonsense")

    def test_a_store_in_the_process_serves_for_a_look(self):
        self.assertEqual(self.run_tool("ls", *EMBEDDED).stdout, b"")
        done = self.run_tool("get", "a\nb", *EMBEDDED)
        self.assertEqual((done.returncode, done.stderr),
                         (1, b"mc-store: get: a\\x0Ab: object not found (-704)\n"))

    def test_bench_measures_a_store_in_the_process(self):
        for load in ("put", "get", "exist"):
            done = self.run_tool("bench", load, *EMBEDDED, "--segment=64MB", "--size=4KB", "--count=99", "--batch=8",
                                 "--threads=3", "--json")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            row = rows_of(done.stdout.decode())[0]
            self.assertEqual([row[name] for name in ("load", "objects", "size", "batch", "threads", "failed")],
                             [load, 99, 4096, 8, 3, 0])
            self.assertGreater(row["objects_per_s"], 0)
            self.assertLessEqual(row["p50_ms"], row["p99_ms"])
        table = self.run_tool("bench", "get", *EMBEDDED, "--count=3", "--size=1KB").stdout.decode()
        self.assertRegex(table, r"(?m)^rate +\d+ objects/s$")
        self.refused(1, ["bench", "no space left (-200)"], "bench", "get", *EMBEDDED, "--segment=1MB", "--size=2MB",
                     "--count=1")

    def test_the_settings_of_launchers_are_looked_at(self):
        environment = dict(ENVIRONMENT, MOONCAKE_MASTER="127.0.0.1:19")
        self.refused(1, ["master 127.0.0.1:19"], "ls", "--timeout=2s", environment=environment)
        config = self.write("c.json", '{"master_server_address": "127.0.0.1:17", "global_segment_size": "x"}')
        environment["MOONCAKE_CONFIG_PATH"] = config
        self.refused(1, ["master 127.0.0.1:17"], "ls", "--timeout=2s", environment=environment)
        self.refused(1, ["master " + NOBODY], "ls", "--master", NOBODY, "--timeout=2s", environment=environment)
        self.refused(1, ["GLOBAL_SEGMENT_SIZE", "x"], "serve", environment=environment)
        for content in ("", "[]", "{", '{"a":1} x', "null"):
            self.write("c.json", content)
            self.refused(1, [config, "MOONCAKE_CONFIG_PATH"], "ls", environment=environment)
        os.unlink(config)
        self.refused(1, [config, "No such file"], "ls", environment=environment)


class Keys(StoreCase):
    def test_curve_makes_a_pair_that_only_its_owner_reads(self):
        path = self.path("server.key")
        done = self.run_tool("keygen", "--curve", path)
        public = done.stdout.decode().rstrip("\n")
        self.assertEqual((done.returncode, done.stderr, len(public)), (0, b"", 40))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        lines = self.read("server.key").decode().splitlines()
        self.assertEqual(lines[0], "public " + public)
        self.assertRegex(lines[1], r"^secret \S{40}$")
        self.refused(1, [path], "keygen", "--curve", path)
        self.assertEqual(self.read("server.key").decode().splitlines(), lines)
        other = rows_of(self.run_tool("keygen", "--json", "--curve", self.path("o")).stdout.decode())
        self.assertNotEqual(other[0]["public_key"], public)
        self.refused(1, ["no/such"], "keygen", "--curve", self.path("no/such"))

    def test_tls_makes_what_both_sides_need(self):
        done = self.run_tool("keygen", "--tls", self.path("tls"), "--host", "node-7")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(sorted(os.listdir(self.path("tls"))), ["ca.pem", "cert.pem", "key.pem"])
        self.assertEqual(stat.S_IMODE(os.stat(self.path("tls/key.pem")).st_mode), 0o600)
        self.refused(1, ["keygen"], "keygen", "--tls", self.path("tls"))


class Launched(StoreCase):
    """The same binary under the name that launchers start."""

    def launch(self, *args, environment=ENVIRONMENT):
        return subprocess.run([LAUNCHED, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=PATIENCE, env=environment)

    def test_help_and_version(self):
        self.assertIn("usage: mooncake_client", self.launch("--help").stdout)
        self.assertRegex(self.launch("-version").stdout, r"^mooncake_client \d")

    def test_all_forms_of_flags_are_taken(self):
        small = "--global_segment_size=1 MB"
        for form in (["--master_server_address=" + NOBODY], ["-master_server_address=" + NOBODY],
                     ["--master_server_address", NOBODY], ["-master_server_address", NOBODY],
                     ["--master-server-address", NOBODY]):
            done = self.launch(*form, small)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("mooncake_client: master " + NOBODY, done.stderr)
        done = self.launch("--host=0.0.0.0", "--port=%d" % free_port(), "--metadata_server=P2PHANDSHAKE", "--device_names=mlx5_0",
                           "--protocol=tcp", "--local_buffer_size", "16 MB", "--threads=4", "--tenant_id=default",
                           "--enable_http_server=false", "--noenable_http_server", "--http_port=9301",
                           "--noenable_offload", "--start_offload_rpc_server=0", "--master_server_address=" + NOBODY,
                           small)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("not built", done.stderr)
        self.assertIn("master " + NOBODY, done.stderr)

    def test_known_but_unbuilt_is_a_warning(self):
        for flag in ("--enable_offload", "--enable_offload=true", "-start_offload_rpc_server"):
            done = self.launch(flag, "--master_server_address=" + NOBODY, "--global_segment_size=1MB")
            self.assertEqual(done.returncode, 1)
            self.assertIn("known, not built yet", done.stderr)
            self.assertIn("master " + NOBODY, done.stderr)

    def test_wrong_use_is_named(self):
        for args, word in ((["--bogus"], "--bogus"), (["-bogus=1"], "-bogus"), (["x"], "x"), (["--nohost"], "--nohost"),
                           (["--host"], "needs a value"), (["--port=x"], "--port"), (["--threads=many"], "--threads"),
                           (["--enable_offload=maybe"], "--enable_offload"), (["--noenable_offload=1"], "no value"),
                           (["--global_segment_size=big"], "--global_segment_size")):
            done = self.launch(*args)
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertIn(word, done.stderr)
            self.assertIn("try: mooncake_client --help", done.stderr)


if __name__ == "__main__":
    unittest.main()
