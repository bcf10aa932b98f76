# The rooms of events/, tested without the rest of the store.
foreach(room event_log log_room log_flow send_mark batcher history
    recovery recovery_line recovery_random recovery_request recovery_walk
    recovery_server
    publisher publisher_life publisher_load)
  mc_test(events ${room} LINK mc_events mckv-base PkgConfig::ZMQ)
endforeach()
# Golden dialogues, made by tests/support/recovery_rows.py.
mc_test(events recovery_dialogues SOURCES support/vectors.c
  LINK mc_events mckv-base PkgConfig::ZMQ PkgConfig::JSONC)

mc_serial(events batcher event_log recovery recovery_dialogues recovery_line
  recovery_random recovery_request recovery_walk send_mark)
