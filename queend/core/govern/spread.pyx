# Over how many push streams lanes are spread. Pure: time and batches come in, a number goes out.
#
# How much slower a call became does not tell whether another stream would help: a batch takes long when the commit is far
# away (more streams wait side by side: good), when one backend computes all the time (good while cores are free) and when
# the machine is full (bad); and a stream more makes every batch smaller, which costs in itself. What more streams bring
# is what counts, so it is tried: windows by turns with the present number and with twice (or half) of it. Each window with
# the other number is compared with the mean of its neighbours, which cancels a load that grows or fades meanwhile. Two such
# pairs have to do where they agree; where the machine is noisy there are more, up to six. More streams have to store a tenth
# more; fewer may store a little less, for they cost less.
#
# A pause in the load says nothing about numbers of streams: where nothing was sent for a while, the window begins anew.
#
# A trial needs demand: most batches found others waiting when they came back. A trial in vain doubles the pause to the next,
# up to a minute; another load (twice or half the rate) or a change that paid starts over. Without demand it falls back.

cdef enum:
    SPREAD_PAIRS = 2              # of a trial, at least
    SPREAD_MOST_PAIRS = 6
    SPREAD_BATCHES = 4            # of each stream in a window, at least
    SPREAD_QUIET = 4              # windows without demand until one half is let go
    SPREAD_PAUSE_US = 2000000
    SPREAD_MOST_PAUSE_US = 60000000

cdef void spread_open(Spread* s, int most, int64_t window_us) noexcept nogil:
    memset(s, 0, sizeof(Spread))
    s.most = most if most > 1 else 1
    s.window_us = window_us
    s.active = 1
    s.base = 1
    s.pause_us = SPREAD_PAUSE_US

cdef void spread_set(Spread* s, int n) noexcept nogil:
    # What is in flight was spread otherwise: it says nothing about the new number.
    s.skip = s.active if n != s.active else 0
    s.active = n
    s.since_us = 0

cdef int spread_done(Spread* s, int64_t now_us, int64_t took_us, int items, bint crowded) noexcept nogil:
    # A batch of so many items was stored, took_us after it was sent; crowded: more were waiting for its stream. Over how many
    # streams from now on?
    cdef double rate
    cdef bint demand
    cdef int64_t pause = now_us - took_us - s.last_us
    if s.most == 1:
        return 1
    if s.window_us == 0:
        s.active = s.active % s.most + 1
        return s.active
    s.last_us = now_us
    if pause > s.window_us // 4:
        spread_resume(s, now_us, pause)
        return s.active
    if s.skip:
        s.skip -= 1
        return s.active
    if s.since_us == 0:
        spread_begin(s, now_us)
        return s.active
    s.items += items
    s.batches += 1
    s.crowded += crowded
    if now_us - s.since_us < s.window_us or s.batches < SPREAD_BATCHES * s.active:
        return s.active
    rate = <double>s.items / (now_us - s.since_us)
    demand = 2 * s.crowded > s.batches
    spread_begin(s, now_us)
    if s.other:
        spread_turn(s, now_us, rate, demand)
    else:
        spread_rest(s, now_us, rate, demand)
    return s.active

cdef void spread_begin(Spread* s, int64_t now_us) noexcept nogil:
    s.since_us = now_us
    s.items = 0
    s.batches = 0
    s.crowded = 0

cdef void spread_resume(Spread* s, int64_t now_us, int64_t pause_us) noexcept nogil:
    # The load came back after a pause. Until the next trial it is time under load that counts.
    if s.trial_at > now_us - pause_us:
        s.trial_at += pause_us
    if s.other and pause_us > SPREAD_MOST_PAUSE_US:
        s.other = 0               # that trial was of another load
        spread_set(s, s.base)
    elif s.other == 0:
        spread_quiet(s, False)    # pauses alone are no demand
    s.skip = 0                    # nothing is in flight
    spread_begin(s, now_us)

cdef void spread_quiet(Spread* s, bint demand) noexcept nogil:
    # A window, or a pause, outside of a trial.
    s.quiet = 0 if demand else s.quiet + 1
    if s.quiet >= SPREAD_QUIET and s.base > 1:
        s.quiet = 0
        s.base //= 2
        spread_set(s, s.base)

cdef void spread_rest(Spread* s, int64_t now_us, double rate, bint demand) noexcept nogil:
    # A window outside of a trial.
    if s.known and (rate > 2 * s.known or rate < s.known / 2):
        s.known = 0               # another load: what was found does not hold for it
        s.pause_us = SPREAD_PAUSE_US
        if s.trial_at > now_us + s.pause_us:
            s.trial_at = now_us + s.pause_us
    spread_quiet(s, demand)
    if not demand or now_us < s.trial_at:
        return
    if s.base == 1:
        s.fewer = False
    elif s.base * 2 > s.most:
        s.fewer = True
    s.other = s.base // 2 if s.fewer else s.base * 2
    s.rate = rate
    s.rates = rate
    s.tried = 0
    s.pairs = 0
    s.gain = 0
    s.gain2 = 0
    spread_set(s, s.other)

cdef void spread_turn(Spread* s, int64_t now_us, double rate, bint demand) noexcept nogil:
    # A window of a trial is over.
    cdef double gain
    if not demand and s.active < s.other:
        spread_judge(s, now_us, False, rate)
        return                    # the load went away
    if s.active == s.other:
        s.tried = rate
        spread_set(s, s.base)
        return
    gain = 2 * s.tried / (s.rate + rate) - 1 if s.rate + rate > 0 else 0
    s.rate = rate
    s.rates += rate
    s.pairs += 1
    s.gain += gain
    s.gain2 += gain * gain
    if spread_clear(s):
        spread_judge(s, now_us, s.gain / s.pairs > spread_wanted(s), s.rates / (s.pairs + 1))
    else:
        spread_set(s, s.other)

cdef inline double spread_wanted(const Spread* s) noexcept nogil:
    return 0.1 if s.other > s.base else -0.05

cdef bint spread_clear(const Spread* s) noexcept nogil:
    # Is the mean gain two standard errors away from what is wanted, and a twentieth?
    cdef double off = s.gain / s.pairs - spread_wanted(s)
    cdef double scatter                   # the squared standard error of the mean
    if s.pairs < SPREAD_PAIRS:
        return False
    scatter = (s.gain2 - s.gain * s.gain / s.pairs) / (s.pairs - 1) / s.pairs
    return s.pairs == SPREAD_MOST_PAIRS or (off * off > 4 * scatter and off * off > 0.05 * 0.05)

cdef void spread_judge(Spread* s, int64_t now_us, bint pays, double rate) noexcept nogil:
    if pays:
        s.base = s.other
        s.pause_us = SPREAD_PAUSE_US
        s.trial_at = now_us if not s.fewer else now_us + s.pause_us
        s.known = 0
    else:
        s.known = rate
        s.trial_at = now_us + s.pause_us
        s.pause_us = s.pause_us * 2 if s.pause_us * 2 < SPREAD_MOST_PAUSE_US else SPREAD_MOST_PAUSE_US
        s.fewer = not s.fewer
    s.other = 0
    spread_set(s, s.base)
