# SPDX-License-Identifier: Apache-2.0
"""mc-master as people start it: flags, the ready line, taken ports, its end."""
import json
import os
import signal
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "support"))
from master_case import FREE_PORTS, MASTER, MasterCase  # noqa: E402

# Flags of the original that are not built, with a value that asks for something.
NOT_BUILT = {
    "nof_eviction_ratio": "0.5", "max_total_finished_tasks": "7", "enable_offload": "true",
    "promotion_on_hit": "true", "dynamic_replication_mode": "on", "root_fs_dir": "/x", "enable_ha": "true",
    "etcd_endpoints": "h:1", "enable_oplog": "true", "enable_snapshot": "true", "pod_name": "p",
    "enable_cxl": "true", "log_dir": "/x", "cluster_id": "c",
}


class Flags(MasterCase):
    def effect_of(self, *flags):
        """The lease that exist and get take cannot be seen from outside, but the metadata server can: on or off."""
        master = self.start(*flags)
        is_on = master.metadata != "-"
        self.assertEqual(master.end()[0], 0)
        return is_on

    def test_switches_in_every_form(self):
        for flags, is_on in [
                ([], False),
                (["--enable_http_metadata_server"], True),
                (["-enable_http_metadata_server"], True),
                (["--enable-http-metadata-server"], True),
                (["--enable_http_metadata_server=true"], True),
                (["--enable_http_metadata_server=1"], True),
                (["--enable_http_metadata_server", "true"], True),
                (["--enable_http_metadata_server", "false"], False),
                (["--enable_http_metadata_server=false"], False),
                (["--enable_http_metadata_server", "--noenable_http_metadata_server"], False),
                (["--noenable-http-metadata-server", "--enable-http-metadata-server"], True),
                (["-noenable_http_metadata_server"], False)]:
            self.assertEqual(self.effect_of(*flags), is_on, flags)

    def test_values_in_every_form(self):
        for form in (["--rpc_address=127.0.0.1"], ["-rpc_address=127.0.0.1"], ["--rpc_address", "127.0.0.1"],
                     ["-rpc-address", "127.0.0.1"]):
            master = self.start(*form)
            self.assertIn("rpc=127.0.0.1:", master.ready)
            self.assertEqual(master.end()[0], 0)

    def test_unknown_and_malformed(self):
        for words, flags in [
                (["--frobnicate", "no such flag"], ["--frobnicate=1"]),
                (["frobnicate"], ["-frobnicate"]),
                (["nofrobnicate"], ["--nofrobnicate"]),
                (["norpc_port", "no such flag"], ["--norpc_port"]),
                (["rpc_port", "needs a value"], ["--rpc_port"]),
                (["rpc_port", "65536"], ["--rpc_port=65536"]),
                (["rpc_port"], ["--rpc_port=x"]),
                (["rpc_port"], ["--rpc_port="]),
                (["rpc_port"], ["--rpc_port=-1"]),
                (["stray", "flags only"], ["stray"]),
                (["enable_kv_events", "true or false"], ["--enable_kv_events=perhaps"]),
                (["noenable_kv_events"], ["--noenable_kv_events=true"]),
                (["eviction_ratio"], ["--eviction_ratio=1.5"]),
                (["eviction_high_watermark_ratio"], ["--eviction_high_watermark_ratio=0"]),
                (["default_kv_lease_ttl"], ["--default_kv_lease_ttl=10x"]),
                (["default_kv_lease_ttl"], ["--default_kv_lease_ttl=-1"]),
                (["exist_lease_ttl"], ["--exist_lease_ttl=5"]),
                (["segment", "KB"], ["--segment=1024"]),
                (["client_ttl"], ["--client_ttl=1e3"]),
                (["allocation_strategy", "random"], ["--allocation_strategy=best"]),
                (["kv_events_overflow"], ["--kv_events_overflow=spill"]),
                (["kv_events_queue_capacity"], ["--kv_events_queue_capacity=5"]),
                (["kv_events_replay_layout"], ["--kv_events_replay_layout=5"]),
                (["kv_events_legacy_token_ids"], ["--kv_events_legacy_token_ids=none"]),
                (["rpc_interface", "nosuchnic"], ["--rpc_interface=nosuchnic"]),
                (["go together"], ["--tls_cert=/x"]),
                (["tenant_quota_connector_uri", "enable_multi_tenants"], ["--tenant_quota_connector_uri=/x"])]:
            self.refused(2, words, *flags)

    def test_release_must_be_longer_than_discard(self):
        words = ["put_start_release_timeout_sec", "put_start_discard_timeout_sec"]
        self.refused(2, words, "--put_start_release_timeout_sec=30")
        self.refused(2, words, "--put_start_release_timeout_sec=30s", "--put_start_discard_timeout_sec=0.5m")
        self.refused(2, words, "--put_start_discard_timeout_sec=600")
        master = self.start("--put_start_discard_timeout_sec=599", "--client_ttl=3", "--default_kv_lease_ttl=5000",
                            "--default_kv_soft_pin_ttl=30m", "--exist_lease_ttl=0", "--max_kv_soft_pin_ttl=1h",
                            "--rpc_conn_timeout_seconds=1m", "--kv_events_hwm_bytes=64 MB")
        self.assertEqual(master.end()[0], 0)

    def test_events_need_an_endpoint_and_a_name(self):
        for flags in ([], ["--kv_events_backend_id=n"], ["--kv_events_bind_endpoint=tcp://127.0.0.1:*"]):
            self.refused(2, ["enable_kv_events", "kv_events_bind_endpoint", "kv_events_backend_id"],
                         "--enable_kv_events", *flags)

    def test_known_but_not_built_is_a_warning(self):
        master = self.start(*[f"--{name}={value}" for name, value in NOT_BUILT.items()])
        words = master.said()
        for name in NOT_BUILT:
            self.assertIn(f"warning: --{name}: is known, but not built", words)
        self.assertEqual(master.end()[0], 0)

    def test_asking_for_nothing_is_no_warning(self):
        master = self.start("--noenable_ha", "--enable_offload=false", "--etcd_endpoints=", "--logtostderr",
                            "--cluster_id=mooncake_cluster")
        self.assertEqual(master.said(), "")
        self.assertEqual(master.end()[0], 0)

    def test_flagfile(self):
        inner = self.write("inner", "--rpc_address=127.0.0.1\n")
        outer = self.write("outer", f"# comment\n\n  --enable_http_metadata_server  \n--flagfile={inner}\n")
        master = self.start("--flagfile", outer)
        self.assertIn("rpc=127.0.0.1:", master.ready)
        self.assertNotEqual(master.metadata, "-")
        self.assertEqual(master.end()[0], 0)
        self.refused(2, ["frob", "flags"], "--flagfile=" + self.write("flags", "--frob=1\n"))
        self.refused(2, ["nowhere"], "--flagfile=/nowhere")
        loop = self.path("loop")
        self.refused(2, ["loop"], "--flagfile=" + self.write("loop", f"--flagfile={loop}\n"))
        self.refused(2, ["flagfile", "needs a value"], "--flagfile")

    def test_config_file(self):
        config = {"rpc_address": "127.0.0.1", "enable_http_metadata_server": True, "rpc_port": 0,
                  "eviction_ratio": 0.1, "default_kv_lease_ttl": "7s", "max_threads": 2, "enable_ha": False}
        path = self.write("config.json", json.dumps(config))
        master = self.start("--config_path", path, ports=["--metrics_port=0", "--http_metadata_server_port=0"])
        self.assertIn("rpc=127.0.0.1:", master.ready)
        self.assertNotEqual(master.metadata, "-")
        self.assertEqual(master.end()[0], 0)
        # The command line counts more, wherever it stands.
        master = self.start("--noenable_http_metadata_server", "--config_path=" + path)
        self.assertEqual(master.metadata, "-")
        self.assertEqual(master.end()[0], 0)

    def test_bad_config_files(self):
        for name, text in [("none.json", "{"), ("list.json", "[]"), ("deep.json", '{"rpc_port":{}}'),
                           ("null.json", '{"rpc_port":null}'), ("frob.json", '{"frob":1}'),
                           ("port.json", '{"rpc_port":70000}')]:
            self.refused(2, [name], "--config_path=" + self.write(name, text))
        self.refused(2, ["/nowhere"], "--config_path=/nowhere")

    def test_help_and_version(self):
        done = self.run_master("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--rpc_port", "--kv_events_bind_endpoint", "--segment", "--config_path", "example"):
            self.assertIn(word, done.stdout)
        done = self.run_master("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^mc-master \d+\.\d+\.\d+\n$")


class Life(MasterCase):
    def test_port_flags_that_are_taken(self):
        holder = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(holder.close)
        port = str(holder.getsockname()[1])
        for flag in ("rpc_port", "metrics_port", "http_metadata_server_port"):
            flags = [each for each in FREE_PORTS if flag not in each]
            # A second on a machine that does nothing else.
            began = time.monotonic()
            self.refused(1, ["--" + flag, port, "taken"], *flags, "--enable_http_metadata_server",
                         f"--{flag}={port}")
            self.assertLess(time.monotonic() - began, 5)
        self.refused(1, ["kv_events_bind_endpoint", port], *FREE_PORTS, "--enable_kv_events",
                     "--kv_events_backend_id=n", f"--kv_events_bind_endpoint=tcp://127.0.0.1:{port}")

    def test_signals_end_it_in_time(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            master = self.start("--enable_kv_events", "--kv_events_backend_id=n", "--segment=16MB",
                                "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--enable_http_metadata_server")
            code, seconds = master.end(how)
            self.assertEqual(code, 0, master.said())
            self.assertLess(seconds, 3)

    def test_held_connections_do_not_delay_the_end(self):
        master = self.start("--enable_http_metadata_server")
        held = []
        for address in (master.rpc, master.admin, master.metadata):
            host, port = address.rsplit(":", 1)
            for _ in range(8):
                connection = socket.create_connection((host, int(port)))
                self.addCleanup(connection.close)
                connection.sendall(b"GET /hea")
                held.append(connection)
        code, seconds = master.end()
        self.assertEqual(code, 0)
        self.assertLess(seconds, 3)

    def test_both_families(self):
        if not socket.has_ipv6:
            self.skipTest("no IPv6")
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6")
        master = self.start("--rpc_address=::1", "--metrics_host=::1")
        self.assertIn("rpc=[::1]:", master.ready)
        self.assertIn("admin=[::1]:", master.ready)
        port = master.admin.rsplit(":", 1)[1]
        self.assertEqual(master.ask("/health", host="[::1]:" + port)[0], 200)
        self.assertEqual(master.end()[0], 0)
        master = self.start()  # any address
        port = master.admin.rsplit(":", 1)[1]
        self.assertEqual(master.ask("/health", host="[::1]:" + port)[0], 200)

    def test_an_end_before_it_began_is_an_end(self):
        master = self.start()
        self.assertEqual(master.end(signal.SIGINT)[0], 0)

    def test_epochs_rise(self):
        first = self.start()
        self.assertEqual(first.end()[0], 0)
        second = self.start()
        self.assertGreater(second.epoch, first.epoch)
        self.assertEqual(second.end()[0], 0)

    def test_its_second_name(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(MASTER), "mooncake_master")))


if __name__ == "__main__":
    unittest.main()
