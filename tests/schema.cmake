# The rooms of schema. The readers get msgpack-c as second opinion.
mc_test(schema event_read
  SOURCES support/vectors.c support/event_outcome.c
  LINK mc_schema mckv-base PkgConfig::JSONC PkgConfig::MSGPACK TIMEOUT 600)
mc_test(schema event_faults
  SOURCES support/vectors.c support/event_outcome.c
  LINK mc_schema mckv-base PkgConfig::JSONC TIMEOUT 600)
