# Packets: notices between daemons, in bytes. In: a notice. Out: a packet, and back. Numbers are big-endian. Pure.
#
#   0  version      8 bits    36  began      64 bits    68  database  64 bits
#   1  flags        8 bits    44  random     64 bits    76  name      32 bytes, NUL-padded
#   2  bytes of it 16 bits    52  sequence   64 bits   108  entries: partition and group, 32 bits each
#   4  HMAC        32 bytes   60  sent_us    64 bits
#
# The HMAC (SHA-256) is of the packet with zeros in its place; without a secret it is zeros.

cdef size_t packet_write(char* p, const Notice* m, const NoticeEntry* entries, Slice secret) noexcept nogil:
    # Writes a packet. Returns its size. Requires PACKET_MOST bytes of room and at most PACKET_ENTRIES entries.
    cdef size_t size = PACKET_HEAD + m.n * PACKET_ENTRY
    cdef int i
    memset(p, 0, PACKET_HEAD)
    p[0] = PACKET_VERSION
    p[1] = <char>m.flags
    be16_put(p + 2, <uint16_t>(size - PACKET_HEAD))
    be64_put(p + 36, m.began)
    be64_put(p + 44, m.random)
    be64_put(p + 52, m.sequence)
    be64_put(p + 60, m.sent_us)
    be64_put(p + 68, m.database)
    memcpy(p + 76, m.name, PEER_NAME)
    for i in range(m.n):
        be32_put(p + PACKET_HEAD + i * PACKET_ENTRY, <uint32_t>entries[i].partition)
        be32_put(p + PACKET_HEAD + i * PACKET_ENTRY + 4, <uint32_t>entries[i].group)
    if secret.n:
        HMAC(EVP_sha256(), secret.p, <int>secret.n, <const unsigned char*>p, size, <unsigned char*>p + PACKET_TAG, NULL)
    return size

cdef int packet_read(const char* p, size_t n, Slice secret, Notice* m) noexcept nogil:
    # Reads the head of a packet into m; packet_entry reads the rest. Returns PACKET_GOOD, or why the packet is refused.
    cdef char[PACKET_MOST] copy
    cdef unsigned char[PACKET_TAG_SIZE] tag
    cdef uint16_t length
    cdef int i
    if n < 1:
        return PACKET_BROKEN
    if p[0] != PACKET_VERSION:
        return PACKET_OTHER
    if n < PACKET_HEAD or n > PACKET_MOST:
        return PACKET_BROKEN
    length = be16(p + 2)
    if PACKET_HEAD + <size_t>length != n or length % PACKET_ENTRY:
        return PACKET_BROKEN
    if secret.n:
        memcpy(copy, p, n)
        memset(copy + PACKET_TAG, 0, PACKET_TAG_SIZE)
        HMAC(EVP_sha256(), secret.p, <int>secret.n, <const unsigned char*>copy, n, tag, NULL)
        if CRYPTO_memcmp(tag, p + PACKET_TAG, PACKET_TAG_SIZE) != 0:
            return PACKET_FORGED
    m.flags = <uint8_t>p[1]
    m.n = length // PACKET_ENTRY
    m.began = be64(p + 36)
    m.random = be64(p + 44)
    m.sequence = be64(p + 52)
    m.sent_us = be64(p + 60)
    m.database = be64(p + 68)
    memcpy(m.name, p + 76, PEER_NAME)
    if m.name[0] == 0 or m.name[PEER_NAME - 1] != 0 or m.sequence == 0:
        return PACKET_BROKEN
    for i in range(<int>strlen(m.name)):
        if not b'!' <= m.name[i] <= b'~':
            return PACKET_BROKEN      # operators see the name
    return PACKET_GOOD

cdef inline NoticeEntry packet_entry(const char* p, int i) noexcept nogil:
    cdef NoticeEntry e
    e.partition = <int32_t>be32(p + PACKET_HEAD + i * PACKET_ENTRY)
    e.group = <int32_t>be32(p + PACKET_HEAD + i * PACKET_ENTRY + 4)
    return e
