# The rooms of base.
foreach(room err log alloc buf clock map mapping utf8 hash list bytes siphash)
  mc_test(base ${room} LINK mckv-base)
endforeach()
mc_test(base tool_args LINK mc_tool)

mc_serial(base buf bytes clock err hash list map mapping siphash tool_args utf8)
