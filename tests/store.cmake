# The rooms of store/, and what the store as a whole promises.
set(store_parts mc_store mc_transfer mc_events mckv-base)
set(store_rig support/store_rig.c support/store_rig_text.c)
set(ctl_proxy support/ctl_proxy.c support/proxy.c)
set(data_proxy support/data_proxy.c support/proxy.c)
foreach(proof server once crowd)
  mc_test(store control_${proof} SOURCES support/server_rig.c
    LINK ${store_parts})
endforeach()
foreach(room coverage work_queue work_pool extent extent_claim numbers segment regex row_config
    row_outcome size_text slots control_job http)
  mc_test(store ${room} LINK ${store_parts})
endforeach()
foreach(proof events goings gone goes leases named attempts evict pins log meanwhile model spent
    doubt quota place snapshot)
  mc_test(store store_${proof} SOURCES ${store_rig} LINK ${store_parts})
endforeach()
mc_test(store sums LINK ${store_parts})
# Links the checker of locks and reservations into a test, see its header.
function(mc_check_order room)
  target_sources(test_${room} PRIVATE support/lock_order.c)
  foreach(name pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait
      pthread_cond_timedwait mci_event_log_reserve mci_event_log_unreserve
      mci_event_log_append mci_event_log_append_cleared mci_place mci_leavings_clear
      mci_version_drop_copy mci_master_put_start mci_master_put_end
      mci_master_create mci_master_destroy)
    target_link_options(test_${room} PRIVATE "LINKER:--wrap=${name}")
  endforeach()
endfunction()
foreach(proof goings gone evict pins log meanwhile quota)
  mc_check_order(store_${proof})
endforeach()
mc_test(store lock_order SOURCES ${store_rig} LINK ${store_parts})
mc_check_order(lock_order)
set(client_rig support/client_rig.c support/process_rig.c ${store_rig})
# Each over both links: embedded, and a master reached over a socket, whose
# bytes go by tcp or by shared memory.
function(mc_test_over_links room)
  foreach(link tcp shm)
    add_test(NAME store.${room}.remote_${link} COMMAND test_${room})
    get_test_property(store.${room} TIMEOUT timeout)
    set_tests_properties(store.${room}.remote_${link} PROPERTIES
      TIMEOUT ${timeout}
      ENVIRONMENT "${MC_TEST_ENVIRONMENT};MC_CLIENT_LINK=${link}")
  endforeach()
endfunction()
foreach(proof events keys refusals faults sizes memory ranges buffers scratch spans many
    sessions session_crowd async async_ends async_edges)
  mc_test(store client_${proof} SOURCES ${client_rig} LINK ${store_parts})
  mc_test_over_links(client_${proof})
endforeach()
# And with checksums in all that is written.
foreach(room sessions session_crowd ranges spans)
  add_test(NAME store.client_${room}.summed COMMAND test_client_${room})
  get_test_property(store.client_${room} TIMEOUT timeout)
  set_tests_properties(store.client_${room}.summed PROPERTIES
    TIMEOUT ${timeout} ENVIRONMENT
    "${MC_TEST_ENVIRONMENT};MC_CLIENT_LINK=tcp;MOONCAKE_STORE_CHECKSUM=1")
endforeach()
foreach(proof checksums session_sums)
  mc_test(store client_${proof} SOURCES ${client_rig} support/sums_rig.c
    LINK ${store_parts} TIMEOUT 180)
  mc_test_over_links(client_${proof})
endforeach()
mc_test(store client_session_faults TIMEOUT 240
  SOURCES ${client_rig} ${ctl_proxy} LINK ${store_parts})
mc_test_over_links(client_session_faults)
mc_test(store client_outside SOURCES ${client_rig} LINK ${store_parts})
mc_test(store client_move LINK ${store_parts})
mc_test(store client_recovery LINK ${store_parts} PkgConfig::ZMQ)
mc_test(store client_nomem SOURCES ${client_rig} LINK ${store_parts})
mc_test(store client_loans TIMEOUT 180
  SOURCES ${client_rig} ${ctl_proxy} LINK ${store_parts})
mc_test(store client_again
  SOURCES ${client_rig} ${ctl_proxy} support/fake_master.c LINK ${store_parts})
mc_test(store client_async_stalled SOURCES ${client_rig} ${data_proxy}
  LINK ${store_parts})
mc_test(store client_late SOURCES ${client_rig} ${data_proxy}
  LINK ${store_parts})
mc_test(store client_given_up
  SOURCES ${client_rig} ${ctl_proxy} support/data_proxy.c support/self_process.c
  LINK ${store_parts})
if(TARGET mc-master)
  mc_test(store client_stopped
    SOURCES ${client_rig} support/master_process.c support/self_process.c
    LINK ${store_parts})
  target_compile_definitions(test_client_stopped PRIVATE
    MC_MASTER_BINARY="$<TARGET_FILE:mc-master>")
  add_dependencies(test_client_stopped mc-master)
endif()
mc_test(store client_tls
  SOURCES ${client_rig} LINK ${store_parts} PkgConfig::OPENSSL)
mc_test(store client_load TIMEOUT 300 SOURCES ${client_rig}
  LINK ${store_parts})
mc_test_over_links(client_load)
mc_test(store master SOURCES ${store_rig} LINK ${store_parts})
mc_test(store object_table LINK ${store_parts})
mc_test(store master_crowd SOURCES ${store_rig} LINK ${store_parts}
  TIMEOUT 300)
mc_check_order(master_crowd)
foreach(part "" _fences _many _attempts _segments _nomem _crowd)
  mc_test(store registry${part}
    SOURCES support/registry_rig.c ${store_rig} LINK ${store_parts})
endforeach()
set(remote_rig support/remote_rig.c support/fake_master.c ${ctl_proxy})
foreach(part "" _lies _life _crowd)
  mc_test(store remote${part} SOURCES ${remote_rig} LINK ${store_parts}
    TIMEOUT 180)
endforeach()
set(peer_rig support/peer_rig.c ${ctl_proxy})
foreach(proof once remote_master other_master)
  mc_test(store ${proof} SOURCES ${peer_rig} LINK ${store_parts}
    TIMEOUT 240)
endforeach()
mc_test(store remote_lease SOURCES ${peer_rig} support/transfer_rig.c
  LINK ${store_parts} TIMEOUT 240)
# What other stores failed at: docs/known_faults.md.
foreach(proof faults network)
  mc_test(store known_${proof} SOURCES ${client_rig} LINK ${store_parts}
    TIMEOUT 240)
endforeach()
mc_test(store row_driver SOURCES ${client_rig} LINK ${store_parts})
mc_test_over_links(row_driver)
# The suite of row drivers, over our own: docs/row_driver.md.
set(conformance conformance/rows_kit.c conformance/rows_basic.c
  conformance/rows_limits.c conformance/rows_ends.c conformance/rows_crowd.c
  conformance/rows_faults.c)
mc_test(store row_conformance TIMEOUT 300
  SOURCES ${conformance} conformance/rows_worlds.c conformance/rows_embedded.c
    conformance/rows_process.c ${client_rig} ${ctl_proxy} support/data_proxy.c
    support/fault_link.c support/self_process.c
  LINK ${store_parts})
target_include_directories(test_row_conformance PRIVATE
  "${CMAKE_CURRENT_SOURCE_DIR}/conformance")
mc_test_over_links(row_conformance)

mc_serial(store control_job coverage extent extent_claim lock_order master numbers
  object_table regex registry registry_attempts registry_fences registry_many
  registry_nomem row_config row_outcome segment size_text slots store_attempts store_doubt
  store_events store_evict store_goings store_leases store_model store_named
  store_pins store_place store_snapshot store_spent sums work_queue)
