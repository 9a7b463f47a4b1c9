# Test seams for queues without order.

def probe_spread(bytes id):
    """The number from which a message with this id (16 bytes) gets its partition."""
    if len(id) != 16:
        raise ValueError("an id has 16 bytes")
    return spread_number(<const unsigned char*><const char*>id)
