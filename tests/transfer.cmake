# The engine, each suite over every transport.
foreach(room transfer_suite transfer_grants transfer_batches transfer_shm
    shm_strangers exposed region)
  mc_test(transfer ${room} SOURCES support/transfer_rig.c
    LINK mc_transfer mckv-base PkgConfig::OPENSSL PkgConfig::CURL)
endforeach()

# The rooms of transfer/, tested without the store.
foreach(room address poller socket_stream tls tls_record)
  mc_test(transfer ${room} LINK mc_transfer mckv-base PkgConfig::OPENSSL
    PkgConfig::CURL)
endforeach()

# Bytes over tcp.
foreach(room tcp tcp_owner tcp_peer tcp_wire known_stream)
  mc_test(transfer ${room} LINK mc_transfer mckv-base)
endforeach()

mc_serial(transfer tcp_wire tls_record)
