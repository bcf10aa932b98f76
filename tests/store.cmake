# The rooms of store/, and what the store as a whole promises.
set(store_parts mc_store mc_events mckv-base)
foreach(room extent segment regex)
  mc_test(store ${room} LINK ${store_parts})
endforeach()
