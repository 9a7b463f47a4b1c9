# Functions that the rooms of sockets call: a complete request enters the engine (run/engine), a turn of the loop drains
# it (run/drain).

cdef void service_open() noexcept nogil:
    # Fills in `service`. Requires that nothing of the process has started.
    service.boot = engine_boot
    service.halt = engine_halt
    service.connect = engine_connect
    service.open = engine_open
    service.turn = engine_drain
    service.dig = grave_turn
    service.tick = service_tick
    service.stop = engine_stop
    service.idle = engine_idle
    service.left = engine_left
    service.close = engine_close
    service.forsake = bridge_forsake
    service.request = engine_request
    service.guarded = grants.on
    service.open_to_all = gate_skips
    service.early = gate_early
    service.refuse = gate_early_refuse
    service.verify = bridge_send
    service.fed = feed_fed
    service.flow = feed_flow
    service.heard = socket_heard

cdef void service_tick(Worker* w) noexcept nogil:
    engine_sweep(w)
    if engine_of(w) != NULL:
        feeds_tick(engine_of(w))
        if engine_of(w).grants_seen != atomic_get64(&grants_epoch):
            grants_ended(engine_of(w))
        if era_blocked:
            pops_renew(engine_of(w))
    era_tick(w)

cdef void grants_ended(Engine* e) noexcept nogil:
    # Has the tokens of streams and parked pops verified again, after the table of grants was cleared.
    e.grants_seen = atomic_get64(&grants_epoch)
    feeds_look(e)
    pops_verify(e)
