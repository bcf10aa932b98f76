# The rooms of schema. The readers get msgpack-c as second opinion.
mc_test(schema event_read
  SOURCES support/vectors.c support/event_outcome.c
  LINK mc_schema mckv-base PkgConfig::JSONC PkgConfig::MSGPACK TIMEOUT 600)
mc_test(schema event_faults
  SOURCES support/vectors.c support/event_outcome.c
  LINK mc_schema mckv-base PkgConfig::JSONC TIMEOUT 600)
mc_test(schema event_peer SOURCES support/vectors.c support/event_peer.c
  LINK mc_schema mckv-base PkgConfig::JSONC PkgConfig::MSGPACK TIMEOUT 300)
mc_test(schema event_write SOURCES support/vectors.c
  LINK mckv-base PkgConfig::JSONC)
mc_test(schema engine_event SOURCES support/vectors.c
  LINK mckv-base PkgConfig::JSONC PkgConfig::MSGPACK)
mc_test(schema event_replay LINK mc_schema mckv-base)
mc_test(schema event_flags LINK mckv-base)
mc_test(schema key SOURCES support/vectors.c LINK mckv-base PkgConfig::JSONC)
mc_test(schema session LINK mckv-base)
mc_test(schema unpack LINK mckv-base)
mc_test(schema unpack_peer SOURCES support/vectors.c
  LINK mckv-base PkgConfig::JSONC PkgConfig::MSGPACK)
mc_test(schema pack LINK mckv-base PkgConfig::MSGPACK)
mc_test(schema grant LINK mckv-base)
mc_test(schema control LINK mckv-base)
mc_test(schema control_rows LINK mckv-base)
mc_test(schema control_frames
  SOURCES support/vectors.c support/control_copy.c
  LINK mc_schema mckv-base PkgConfig::JSONC PkgConfig::MSGPACK)

mc_serial(schema control control_frames control_rows engine_event event_faults
  event_flags event_peer event_read event_replay event_write grant key pack session
  unpack unpack_peer)
