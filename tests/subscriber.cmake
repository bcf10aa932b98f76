# The rooms of subscriber/, without an index.
foreach(room cursor mirror stream source)
  mc_test(subscriber ${room} LINK mc_subscriber mckv-base PkgConfig::ZMQ)
endforeach()
mc_test(subscriber subscriber SOURCES support/vectors.c
  LINK mc_subscriber mckv-base PkgConfig::ZMQ PkgConfig::JSONC)
