# Test seam for failing allocations.

def probe_memory_fails(long long first, long long fails=1):
    """From now on allocations of the core are counted; the first-th and `fails` in all fail. first 0: none."""
    mem_arm(first, fails)

def probe_memory_works():
    """All succeed again; how many were asked for meanwhile."""
    return mem_disarm()
