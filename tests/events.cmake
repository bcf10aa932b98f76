# The rooms of events/, tested without the rest of the store.
mc_test(events event_log LINK mc_events mckv-base)
mc_test(events log_room LINK mc_events mckv-base)
mc_test(events log_flow LINK mc_events mckv-base)
